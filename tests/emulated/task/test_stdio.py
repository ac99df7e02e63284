"""The stdio of a container, from its process through a real shim to the client's FIFOs."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from pathlib import Path

import pytest

from shim.api.types import Status
from shim.task.stdio.drain import IDLE_TIMEOUT
from shim.ttrpc import status
from tests.support.emulator import Emulator
from tests.support.eventually import eventually
from tests.support.shims import Shim, Shims, refused


class Pipes:
    """The client's FIFOs, as containerd's client creates them, with a reading thread for each."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.directory.mkdir(parents=True, exist_ok=True)
        self.paths = {name: str(directory / name) for name in ("stdin", "stdout", "stderr")}
        for path in self.paths.values():
            os.mkfifo(path)
        self.output = {"stdout": bytearray(), "stderr": bytearray()}
        self._threads: list[threading.Thread] = []
        self._stdin: int | None = None

    def read(self, *names: str) -> dict[str, str]:
        """Start to read; returns the paths as fields of a request."""
        for name in names:
            descriptor = os.open(self.paths[name], os.O_RDONLY | os.O_NONBLOCK)
            os.set_blocking(descriptor, True)
            thread = threading.Thread(target=self._collect, args=(name, descriptor), daemon=True)
            self._threads.append(thread)
            # Without a writer a blocking read ends at once; the shim opens its end in Create, so begin after that.
        return {name: self.paths[name] for name in names}

    def begin(self) -> None:
        for thread in self._threads:
            thread.start()

    def _collect(self, name: str, descriptor: int) -> None:
        while data := os.read(descriptor, 1 << 16):
            self.output[name] += data
        os.close(descriptor)

    def join(self) -> None:
        """Wait until the shim has closed its ends."""
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive(), "the shim keeps a stream open"

    def write(self, data: bytes) -> None:
        if self._stdin is None:
            self._stdin = os.open(self.paths["stdin"], os.O_WRONLY)
        os.write(self._stdin, data)

    def close_stdin(self) -> None:
        if self._stdin is not None:
            os.close(self._stdin)
            self._stdin = None


@pytest.fixture
def pipes(shims: Shims) -> Pipes:
    return Pipes(shims.directory / "io")


def run(shims: Shims, pipes: Pipes, *args: str, **fields: object) -> Shim:
    shim = shims.start("c1", shims.spec(*args))
    shim.create(rootfs=shims.rootfs(), **fields)
    pipes.begin()
    shim.start()
    return shim


def test_stdout_and_stderr(shims: Shims, pipes: Pipes) -> None:
    shim = run(shims, pipes, "sh", "-c", "echo out; echo err >&2; exit 3", **pipes.read("stdout", "stderr"))
    state = shim.state()
    assert (state.stdout, state.stderr, state.stdin) == (pipes.paths["stdout"], pipes.paths["stderr"], "")
    assert shim.wait().exit_status == 3
    pipes.join()
    assert pipes.output == {"stdout": b"out\n", "stderr": b"err\n"}


def test_all_output_arrives_before_exit_event(shims: Shims, pipes: Pipes) -> None:
    """32 MiB, read slower than written: Wait may be ahead of the reader by a FIFO's content at most."""
    size = 32 << 20
    shim = run(shims, pipes, "sh", "-c", f"head -c {size} /dev/zero", **pipes.read("stdout"))
    assert shim.wait().exit_status == 0
    pipes.join()
    assert len(pipes.output["stdout"]) == size
    assert hashlib.sha256(pipes.output["stdout"]).digest() == hashlib.sha256(bytes(size)).digest()


def test_stdin_until_eof(shims: Shims, pipes: Pipes) -> None:
    streams = {**pipes.read("stdout"), "stdin": pipes.paths["stdin"]}
    shim = run(shims, pipes, "cat", **streams)
    pipes.write(b"hello\n")
    eventually(lambda: pipes.output["stdout"] == b"hello\n", "the echo")
    pipes.close_stdin()
    assert shim.wait().exit_status == 0
    pipes.join()


def test_close_io_closes_stdin(shims: Shims, pipes: Pipes) -> None:
    streams = {**pipes.read("stdout"), "stdin": pipes.paths["stdin"]}
    shim = run(shims, pipes, "cat", **streams)
    pipes.write(b"last words\n")
    eventually(lambda: pipes.output["stdout"] == b"last words\n", "the echo")
    assert shim.state().status == Status.RUNNING
    shim.close_io()
    assert shim.wait().exit_status == 0
    shim.close_io()
    pipes.close_stdin()


@pytest.mark.parametrize("how", ["end of the client's input", "CloseIO"])
def test_hcs_accepts_the_close_of_stdin(shims: Shims, pipes: Pipes, emulator: Emulator, how: str) -> None:
    """It refuses to close a pipe that the shim has closed already, and the process would read no end of its input."""
    streams = {**pipes.read("stdout"), "stdin": pipes.paths["stdin"]}
    shim = run(shims, pipes, "cat", **streams)
    pipes.write(b"hello\n")
    if how == "CloseIO":
        shim.close_io()
    else:
        pipes.close_stdin()
    assert shim.wait().exit_status == 0
    assert [line["result"] for line in emulator.journal("HcsModifyProcess")] == ["0x00000000"]
    pipes.close_stdin()
    pipes.join()


def test_exec_has_its_own_stdio(shims: Shims, pipes: Pipes) -> None:
    shim = shims.start("c1", shims.spec("sleep", "600"))
    shim.run(rootfs=shims.rootfs())
    streams = {**pipes.read("stdout", "stderr"), "stdin": pipes.paths["stdin"]}
    shim.exec("e1", shims.process("sh", "-c", "cat; echo err >&2; exit 7"), **streams)
    pipes.begin()
    state = shim.state("e1")
    assert (state.stdin, state.stdout) == (pipes.paths["stdin"], pipes.paths["stdout"])
    shim.start("e1")
    pipes.write(b"through\n")
    pipes.close_stdin()
    assert shim.wait("e1").exit_status == 7
    pipes.join()
    assert pipes.output == {"stdout": b"through\n", "stderr": b"err\n"}


def test_terminal_stdio(shims: Shims, pipes: Pipes) -> None:
    spec = shims.spec("sh", "-c", "stty size; read line; stty size; echo got $line")
    spec["process"].update(terminal=True, consoleSize={"width": 100, "height": 30})
    shim = shims.start("c1", spec)
    # CRI on Linux names a stderr here too, and does not create it.
    streams = {**pipes.read("stdout"), "stdin": pipes.paths["stdin"], "stderr": str(shims.directory / "no-stderr")}
    shim.create(rootfs=shims.rootfs(), terminal=True, **streams)
    pipes.begin()
    shim.start()
    assert shim.state().terminal and not shim.state().stderr
    eventually(lambda: b"30 100" in pipes.output["stdout"], "the terminal's first size")
    shim.resize(132, 50)
    pipes.write(b"something\n")
    assert shim.wait().exit_status == 0
    pipes.close_stdin()
    pipes.join()
    assert b"50 132" in pipes.output["stdout"] and b"got something" in pipes.output["stdout"]


def test_missing_reader_does_not_block_exit(shims: Shims, pipes: Pipes) -> None:
    """More output than a FIFO holds, without a reader: the process blocks; when it is killed, its exit is published."""
    shim = shims.start("c1", shims.spec("sh", "-c", "head -c 4000000 /dev/zero; sleep 600"))
    shim.create(rootfs=shims.rootfs(), stdout=pipes.paths["stdout"])
    shim.start()
    shim.kill(9)
    shim.wait()
    shim.delete()


def test_client_without_cpu_loses_no_output(shims: Shims, pipes: Pipes) -> None:
    """The client reads nothing for longer than the shim waits for one that has left."""
    size = 1 << 20  # a FIFO and the pipe before it hold it, so the process exits
    shim = shims.start("c1", shims.spec("sh", "-c", f"head -c {size} /dev/zero; head -c 4096 /dev/zero"))
    shim.create(rootfs=shims.rootfs(), **pipes.read("stdout"))
    shim.start()
    eventually(lambda: shim.state().status == Status.STOPPED, "the exit")
    time.sleep(IDLE_TIMEOUT + 0.5)  # the subject is a timeout
    pipes.begin()
    assert shim.wait().exit_status == 0
    pipes.join()
    assert len(pipes.output["stdout"]) == size + 4096


def test_returning_reader_gets_the_rest(shims: Shims, pipes: Pipes) -> None:
    script = "i=0; while [ $i -lt 400 ]; do echo line $i; i=$((i+1)); sleep 0.005; done"
    shim = shims.start("c1", shims.spec("sh", "-c", script))
    first = os.open(pipes.paths["stdout"], os.O_RDONLY | os.O_NONBLOCK)
    shim.create(rootfs=shims.rootfs(), stdout=pipes.paths["stdout"])
    shim.start()
    got = b""
    deadline = time.monotonic() + 60
    while b"line 50\n" not in got:
        assert time.monotonic() < deadline
        try:
            got += os.read(first, 4096)
        except BlockingIOError:
            time.sleep(0.005)
    os.close(first)  # containerd stops
    again = os.open(pipes.paths["stdout"], os.O_RDONLY)  # … and comes back
    while data := os.read(again, 4096):
        got += data
    os.close(again)
    assert shim.wait().exit_status == 0
    assert got == b"".join(b"line %d\n" % number for number in range(400))


def test_stdio_to_file(shims: Shims) -> None:
    log = shims.directory / "logs" / "c1.log"
    shim = shims.start("c1", shims.spec("sh", "-c", "echo to the log; echo and errors >&2"))
    shim.create(rootfs=shims.rootfs(), stdout=f"file://{log}", stderr=f"file://{log}")
    shim.start()
    assert shim.wait().exit_status == 0
    assert sorted(log.read_text().splitlines()) == ["and errors", "to the log"]


def test_no_stdio(shims: Shims) -> None:
    shim = shims.start("c1", shims.spec("sh", "-c", "echo no reader; cat; exit 5"))
    shim.run(rootfs=shims.rootfs())
    assert shim.wait().exit_status == 5


def test_stdio_that_cannot_be_opened_is_refused(shims: Shims) -> None:
    shim = shims.start("c1", shims.spec("true"))
    missing = str(shims.directory / "no" / "such" / "fifo")
    assert missing in refused(status.UNKNOWN, shim.create, rootfs=shims.rootfs(), stdout=missing)
    refused(status.NOT_FOUND, shim.state)
    shim.create(rootfs=shims.rootfs())

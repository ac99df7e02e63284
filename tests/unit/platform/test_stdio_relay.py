"""The stdio relay with real FIFOs, pipes and terminals: how bytes move while a process runs."""

from __future__ import annotations

import _thread
import fcntl
import hashlib
import os
import pty
import select
import termios
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from shim.task.stdio.process_io import relay
from shim.ttrpc.status import StatusError
from tests.support.eventually import eventually
from tests.unit.platform.stdio_fixtures import Lab, Process, Reader, read_all, reader, write_all


def test_output_reaches_client_with_eof(lab: Lab) -> None:
    stdio = lab.open(stdout=lab.stdout, stderr=lab.stderr)
    assert list(stdio.requested_pipes().values()) == [False, True, True]
    out, err = Reader(lab.stdout), Reader(lab.stderr)
    process = lab.start(stdio)
    os.write(process.inside[1], b"hello")
    os.write(process.inside[2], b"trouble")
    process.exit()
    assert stdio.drain(30)
    stdio.close()
    assert out.end() == b"hello"
    assert err.end() == b"trouble"


def test_stdin_eof_closes_only_stdin(lab: Lab) -> None:
    stdio = lab.open(lab.stdin, lab.stdout)
    out = Reader(lab.stdout)
    process = lab.start(stdio)
    # No writer yet: that is not EOF.
    time.sleep(0.05)
    writer = os.open(lab.stdin, os.O_WRONLY)
    os.write(writer, b"question")
    assert os.read(process.inside[0], 100) == b"question"
    os.close(writer)
    assert os.read(process.inside[0], 100) == b""
    eventually(lambda: process.modified == [{"Operation": "CloseHandle", "CloseHandle": {"Handle": "StdIn"}}])
    os.write(process.inside[1], b"answer")  # the other direction stays open
    process.exit()
    assert stdio.drain(30)
    stdio.close()
    assert out.end() == b"answer"
    assert len(process.modified) == 1


def test_stdin_of_a_pod_outlives_its_clients_until_close_io(lab: Lab) -> None:
    """containerd may restart: its FIFOs have no writer then, and a new one later."""
    stdio = lab.open(lab.stdin, stdin_outlives_client=True)
    process = lab.start(stdio)
    for question in (b"first", b"second"):
        writer = os.open(lab.stdin, os.O_WRONLY)
        os.write(writer, question)
        os.close(writer)
        assert os.read(process.inside[0], 100) == question
    assert not process.modified
    stdio.close_stdin()
    assert os.read(process.inside[0], 100) == b""
    eventually(lambda: len(process.modified) == 1)


def test_stdin_is_closed_by_hcs_before_our_end(lab: Lab) -> None:
    """HCS refuses to close a pipe that is closed."""
    open_at_call: list[bool] = []
    stdio = lab.open(lab.stdin)
    process = lab.start(stdio)

    def modify(settings: dict[str, object], timeout: float | None = None) -> None:
        hangup = select.poll()
        hangup.register(process.inside[0], 0)
        open_at_call.append(hangup.poll(0) == [])

    process.modify = modify  # type: ignore[method-assign]
    os.close(os.open(lab.stdin, os.O_WRONLY))
    assert os.read(process.inside[0], 100) == b""
    assert open_at_call == [True]


@pytest.mark.parametrize("when", ["before the start", "after it"])
def test_close_io_delivers_pending_stdin(lab: Lab, when: str) -> None:
    stdio = lab.open(lab.stdin)
    writer = os.open(lab.stdin, os.O_WRONLY)
    os.write(writer, b"x" * 50_000)
    if when == "before the start":
        stdio.close_stdin()
        process = lab.start(stdio)
    else:
        process = lab.start(stdio)
        stdio.close_stdin()
        stdio.close_stdin()
    received = b""
    while data := os.read(process.inside[0], 1 << 16):
        received += data
    assert received == b"x" * 50_000
    eventually(lambda: len(process.modified) == 1)
    with pytest.raises(BrokenPipeError):
        os.write(writer, b"too late")
    os.close(writer)


def test_close_io_before_relay_add_is_applied(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pump is known before the relay has it, and CloseIO comes by another thread."""
    stdio = lab.open(lab.stdin)
    writer = os.open(lab.stdin, os.O_WRONLY)
    os.write(writer, b"all of it")
    add = relay.add
    monkeypatch.setattr(relay, "add", lambda pump: (stdio.close_stdin(), add(pump)))
    process = lab.start(stdio)
    with os.fdopen(os.dup(process.inside[0]), "rb") as stdin:
        assert stdin.read() == b"all of it"
    eventually(lambda: len(process.modified) == 1)
    os.close(writer)


def test_close_io_without_pending_stdin(lab: Lab) -> None:
    stdio = lab.open(lab.stdin)
    writer = os.open(lab.stdin, os.O_WRONLY)
    process = lab.start(stdio)
    stdio.close_stdin()
    assert os.read(process.inside[0], 1) == b""
    os.close(writer)


def test_large_stdin_to_slow_process_arrives_whole(lab: Lab) -> None:
    stdio = lab.open(lab.stdin)
    process = lab.start(stdio)
    payload = os.urandom(1 << 20) * 24
    writer = os.open(lab.stdin, os.O_WRONLY)

    def send() -> None:
        write_all(writer, payload)
        os.close(writer)

    sending = threading.Thread(target=send)
    sending.start()
    digest, count = hashlib.sha256(), 0
    while data := os.read(process.inside[0], 7_777):
        digest.update(data)
        count += 1
        if count % 500 == 0:
            time.sleep(0.001)
    sending.join()
    assert digest.digest() == hashlib.sha256(payload).digest()


def test_process_closing_stdin_ends_pump(lab: Lab) -> None:
    stdio = lab.open(lab.stdin, lab.stdout)
    process = lab.start(stdio)
    writer = os.open(lab.stdin, os.O_WRONLY)
    os.close(process.inside.pop(0))
    os.write(writer, b"nobody reads this")
    eventually(lambda: stdio._stdin_pump is not None and stdio._stdin_pump.closed)
    os.close(writer)
    for descriptor in process.inside:
        os.close(descriptor)
    process.inside = []
    assert stdio.drain(30)


@pytest.mark.timeout(600)
def test_gibibyte_of_output_arrives_whole(lab: Lab) -> None:
    stdio = lab.open(stdout=lab.stdout)
    out = reader(lab.stdout)
    process = lab.start(stdio)
    block = os.urandom(1 << 20)
    rounds = 1024
    expected, received, total = hashlib.blake2b(), hashlib.blake2b(), 0

    def produce() -> None:
        for number in range(rounds):
            piece = number.to_bytes(8, "big") + block[8:]
            expected.update(piece)
            write_all(process.inside[1], piece)
        process.exit()

    producing = threading.Thread(target=produce)
    producing.start()
    os.set_blocking(out, True)
    while data := os.read(out, 1 << 20):
        received.update(data)
        total += len(data)
        if total == rounds << 20:
            break
    producing.join()
    assert stdio.drain(30)
    stdio.close()
    assert read_all(out) == b""
    assert total == rounds << 20
    assert received.digest() == expected.digest()


def test_client_reconnect_gets_all_output(lab: Lab) -> None:
    stdio = lab.open(stdout=lab.stdout)
    process = lab.start(stdio)
    first = reader(lab.stdout)
    payload = b"".join(b"%07d\n" % number for number in range(1_000_000))  # more than all pipes hold
    writing = threading.Thread(target=write_all, args=(process.inside[1], payload))
    writing.start()
    received = b""
    while len(received) < 100_000:
        try:
            received += os.read(first, 10_000)
        except BlockingIOError:
            time.sleep(0.001)
    os.close(first)
    pump: Any = stdio._outputs[0]
    eventually(lambda: pump.stalled_since is not None)  # back-pressure: no client reads
    assert writing.is_alive()
    second = reader(lab.stdout)
    os.set_blocking(second, True)
    while len(received) < len(payload):
        received += os.read(second, 1 << 20)
    writing.join()
    os.close(second)
    assert received == payload


def test_terminal_is_one_duplex_stream(lab: Lab) -> None:
    stdio = lab.open(lab.stdin, lab.stdout, lab.stderr, terminal=True)
    assert list(stdio.requested_pipes().values()) == [True, True, False]
    assert stdio.stderr == lab.stderr  # State returns what the client gave, even if it is not opened
    master, slave = pty.openpty()
    attributes = termios.tcgetattr(slave)
    attributes[3] &= ~termios.ECHO
    termios.tcsetattr(slave, termios.TCSANOW, attributes)
    ended = threading.Event()
    out = reader(lab.stdout)
    writer = os.open(lab.stdin, os.O_WRONLY)
    stdio.attach_handles(master, master, None, ended.set)
    os.write(writer, b"typed\n")
    assert os.read(slave, 100) == b"typed\n"
    os.write(slave, b"shown\n")
    received = b""
    while len(received) < 7:
        try:
            received += os.read(out, 100)
        except BlockingIOError:
            time.sleep(0.001)
    assert received == b"shown\r\n"
    os.close(writer)
    assert ended.wait(30)
    os.close(slave)
    assert stdio.drain(30)
    stdio.close()
    assert read_all(out) == b""


def test_terminal_without_stdin_relays_output(lab: Lab) -> None:
    stdio = lab.open(stdout=lab.stdout, terminal=True)
    master, slave = pty.openpty()
    out = Reader(lab.stdout)
    stdio.attach_handles(master, master, None, lambda: None)
    os.write(slave, b"shown")
    os.close(slave)
    assert stdio.drain(30)
    stdio.close()
    assert out.end() == b"shown"


def test_attach_after_close_closes_handles(lab: Lab) -> None:
    stdio = lab.open(lab.stdin, lab.stdout, lab.stderr)
    stdio.close()
    process = Process()
    with pytest.raises(StatusError, match="closed already"):
        stdio.attach(process)
    assert (process.stdin, process.stdout, process.stderr) == (None, None, None)
    process.exit()


def test_idle_stream_is_not_stalled(lab: Lab) -> None:
    stdio = lab.open(stdout=lab.stdout, retry_seconds=0.05)
    out = Reader(lab.stdout)
    process = lab.start(stdio)
    for number in range(3):
        os.write(process.inside[1], b"%d" % number)
        time.sleep(0.1)
    process.exit()
    assert stdio.drain(30)
    stdio.close()
    assert out.end() == b"012"


def test_no_endpoints_request_no_pipes(lab: Lab) -> None:
    stdio = lab.open()
    assert list(stdio.requested_pipes().values()) == [False, False, False]
    process = lab.start(stdio)
    stdio.close_stdin()
    process.exit()
    assert stdio.drain(30)


@pytest.mark.usefixtures("no_streams_left")
def test_closed_streams_close_without_relay_thread(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    stdio = lab.open(stdout=lab.stdout, stderr=lab.stderr)
    out, err = Reader(lab.stdout), Reader(lab.stderr)
    process = lab.start(stdio)
    process.exit()
    assert stdio.drain()
    monkeypatch.setattr(relay, "call", lambda _: pytest.fail("the relay's thread would be started without need"))
    stdio.close()
    assert out.end() == err.end() == b""


def test_many_streams_share_one_thread(tmp_path: Path) -> None:
    labs = []
    for number in range(40):
        (tmp_path / str(number)).mkdir()
        labs.append(Lab(tmp_path / str(number)))
    before = _thread._count()
    opened = [lab.open(lab.stdin, lab.stdout, lab.stderr) for lab in labs]
    started = [(lab, stdio, lab.start(stdio)) for lab, stdio in zip(labs, opened, strict=True)]
    assert _thread._count() == before + 1
    for number, (lab, stdio, process) in enumerate(started):
        out = Reader(lab.stdout)
        os.write(process.inside[1], b"%d" % number)
        process.exit()
        assert stdio.drain(30)
        stdio.close()
        assert out.end() == b"%d" % number


def test_pipes_are_enlarged(lab: Lab) -> None:
    stdio = lab.open(stdout=lab.stdout)
    out = reader(lab.stdout)
    process = lab.start(stdio)
    eventually(lambda: fcntl.fcntl(out, 1032) == 1 << 20)
    assert fcntl.fcntl(process.inside[1], 1032) == 1 << 20
    os.close(out)

"""Draining output after the exit: which clients are waited for, and how long."""

from __future__ import annotations

import errno
import os
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from shim.platform import stdio_endpoints as platform
from shim.platform.linux import fifos
from shim.platform.linux.pump import bytes_pending
from shim.task.stdio import drain
from shim.task.stdio.process_io import Stdio
from tests.support.eventually import eventually
from tests.unit.platform.stdio_fixtures import Lab, Reader, read_all, reader, write_all


def fill(descriptor: int) -> int:
    """Write until every pipe on the way is full; returns the number of bytes."""
    os.set_blocking(descriptor, False)
    written = 0
    stuck = 0
    while stuck < 20:
        try:
            written += os.write(descriptor, bytes(1 << 16))
            stuck = 0
        except BlockingIOError:
            stuck += 1
            time.sleep(0.005)
    return written


class ClientWait:
    """A `waits_for_late_client` or `waits_for_reader` that counts its calls: they show that drain waits for a
    client."""

    def __init__(self) -> None:
        self.left = True
        self.calls = 0

    def __call__(self) -> bool:
        self.calls += 1
        return self.left


class Draining:
    """`drain` in a thread, by default with no idle timeout."""

    def __init__(self, stdio: Stdio, timeout: float = 0.0) -> None:
        self.late_wait = ClientWait()
        self.reader_wait = ClientWait()
        self._results: list[bool] = []
        self._thread = threading.Thread(
            target=lambda: self._results.append(
                stdio.drain(timeout, waits_for_late_client=self.late_wait, waits_for_reader=self.reader_wait)
            ),
            daemon=True,
        )
        self._thread.start()

    def expect_waiting(self, wait: ClientWait | None = None) -> None:
        wait = wait or self.late_wait
        calls = wait.calls
        eventually(lambda: wait.calls > calls + 1)

    @property
    def result(self) -> bool:
        self._thread.join(60)
        return self._results[0]


class TestLateClients:
    """A client may open its end after a short process has exited."""

    @pytest.fixture(autouse=True)
    def long_limit(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A client may be late for the whole test, however slow the machine."""
        monkeypatch.setattr(drain, "LATE_CLIENT_SECONDS", 600.0)

    def test_late_client_is_waited_for(self, lab: Lab) -> None:
        stdio = lab.open(stdout=lab.stdout, stderr=lab.stderr)
        process = lab.start(stdio)
        os.write(process.inside[1], b"quick")
        process.exit()
        draining = Draining(stdio, 30)
        draining.expect_waiting()
        late = Reader(lab.stdout)
        assert draining.result
        stdio.close()
        assert late.end() == b"quick"

    def test_late_client_gets_more_than_the_fifo_holds(self, lab: Lab) -> None:
        stdio = lab.open(stdout=lab.stdout)
        process = lab.start(stdio)
        written = fill(process.inside[1])
        process.exit()
        draining = Draining(stdio, 30)
        draining.expect_waiting()
        late = Reader(lab.stdout)
        assert draining.result
        stdio.close()
        assert len(late.end()) == written

    def test_late_client_gets_output_held_open_by_orphan(self, lab: Lab) -> None:
        stdio = lab.open(stdout=lab.stdout)
        process = lab.start(stdio)
        os.write(process.inside[1], b"all of it")
        draining = Draining(stdio)  # process.inside stays open
        draining.expect_waiting()
        late = Reader(lab.stdout)
        draining.result  # noqa: B018 it has opened the FIFO in time, whether it has read or not
        stdio.close()
        assert late.end() == b"all of it"

    def test_client_later_than_limit_is_not_waited_for(self, lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(drain, "LATE_CLIENT_SECONDS", 0.0)
        stdio = lab.open(stdout=lab.stdout)
        process = lab.start(stdio)
        os.write(process.inside[1], b"unheard")
        process.exit()
        assert not stdio.drain(0.1)

    def test_late_client_is_dropped_when_caller_stops_waiting(self, lab: Lab) -> None:
        stdio = lab.open(stdout=lab.stdout)
        process = lab.start(stdio)
        os.write(process.inside[1], b"unheard")
        process.exit()
        draining = Draining(stdio)
        draining.expect_waiting()
        draining.late_wait.left = False
        assert not draining.result

    def test_client_that_has_left_is_not_late(self, lab: Lab) -> None:
        """A client that was there at the start and has left is a detached one: none will come."""
        stdio = lab.open(stdout=lab.stdout)
        first = reader(lab.stdout)
        process = lab.start(stdio)
        os.close(first)
        os.write(process.inside[1], b"unheard")
        process.exit()
        draining = Draining(stdio, 0.1)
        assert not draining.result
        assert draining.late_wait.calls == 0

    def test_client_blocked_in_open_counts_as_seen(self, lab: Lab) -> None:
        """The kernel counts a reader that blocks in its open, which is how a Go client opens."""
        with subprocess.Popen(["cat", lab.stdout], stdout=subprocess.PIPE) as client:
            status = Path(f"/proc/{client.pid}/stat")
            eventually(lambda: "(cat) S" in status.read_text())
            stdio = lab.open(stdout=lab.stdout)
            process = lab.start(stdio)
            os.write(process.inside[1], b"heard")
            process.exit()
            assert all(fifo.client_seen for fifo in stdio._fifos)
            assert stdio.drain(30)
            stdio.close()
            assert client.communicate(timeout=60)[0] == b"heard"


def test_drain_waits_for_client_to_read(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may not have read yet, and may stop reading when it learns of the exit."""
    looks: list[float] = []
    monkeypatch.setattr(drain, "sleep", lambda pause: (looks.append(pause), time.sleep(pause)))
    stdio = lab.open(stdout=lab.stdout)
    client = reader(lab.stdout)
    process = lab.start(stdio)
    os.write(process.inside[1], b"unread yet")
    process.exit()
    draining = Draining(stdio, 30)
    eventually(lambda: len(looks) > 1)
    assert os.read(client, 100) == b"unread yet"
    assert draining.result
    assert draining.late_wait.calls == 0
    os.close(client)


class TestConnectedClients:
    """A client that has its end open and reads nothing may have no CPU. It gets longer than one that has left."""

    @pytest.fixture(autouse=True)
    def long_limits(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A client may have no CPU for up to MAX_DRAIN, however slow the machine."""
        monkeypatch.setattr(drain, "READER_TIMEOUT", 600.0)

    @pytest.fixture(params=["in the FIFO", "before the FIFO"])
    def unread(self, lab: Lab, request: pytest.FixtureRequest) -> tuple[Stdio, int, int]:
        """Output of a process that has exited, the client's end, and the number of bytes."""
        stdio = lab.open(stdout=lab.stdout)
        client = reader(lab.stdout)
        process = lab.start(stdio)
        if request.param == "in the FIFO":
            written = os.write(process.inside[1], b"unread")
            eventually(lambda: bytes_pending(client) == written)
        else:
            written = fill(process.inside[1])
        process.exit()
        return stdio, client, written

    def test_client_without_cpu_gets_all_output(self, unread: tuple[Stdio, int, int]) -> None:
        stdio, client, written = unread
        draining = Draining(stdio)
        draining.expect_waiting(draining.reader_wait)
        received: list[bytes] = []
        reading = threading.Thread(target=lambda: received.append(read_all(client)))
        reading.start()
        assert draining.result
        stdio.close()
        reading.join(60)
        assert len(received[0]) == written

    def test_client_that_leaves_is_not_waited_for(self, unread: tuple[Stdio, int, int]) -> None:
        stdio, client, _ = unread
        draining = Draining(stdio)
        draining.expect_waiting(draining.reader_wait)
        os.close(client)
        assert not draining.result

    def test_caller_stops_waiting(self, unread: tuple[Stdio, int, int]) -> None:
        stdio, client, _ = unread
        draining = Draining(stdio)
        draining.expect_waiting(draining.reader_wait)
        draining.reader_wait.left = False
        assert not draining.result
        os.close(client)

    def test_wait_has_a_limit(self, unread: tuple[Stdio, int, int], monkeypatch: pytest.MonkeyPatch) -> None:
        stdio, client, _ = unread
        monkeypatch.setattr(drain, "READER_TIMEOUT", 0.1)
        assert not Draining(stdio).result
        os.close(client)

    def test_other_output_of_a_connected_client_does_not_count(self, lab: Lab) -> None:
        """A child process holds stderr open, which is read; what is left of stdout has no reader."""
        stdio = lab.open(stdout=lab.stdout, stderr=lab.stderr)
        left, err = reader(lab.stdout), Reader(lab.stderr)
        process = lab.start(stdio)
        os.close(left)
        fill(process.inside[1])
        assert not Draining(stdio, 0.1).result
        stdio.close()
        assert err.end() == b""

    def test_relay_continues_if_the_client_cannot_be_asked_for(
        self, unread: tuple[Stdio, int, int], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """No descriptor is free: the drain gives up as for a client that has left."""
        stdio, client, _ = unread

        def fail(*_: object) -> bool:
            raise OSError(errno.EMFILE, "Too many open files")

        monkeypatch.setattr(fifos, "_has_other_reader", fail)
        monkeypatch.setattr(platform, "has_reader", lambda _: False)
        assert not Draining(stdio).result
        os.close(client)


def test_slow_client_gets_all_output_after_exit(lab: Lab) -> None:
    stdio = lab.open(stdout=lab.stdout)
    out = reader(lab.stdout)
    process = lab.start(stdio)
    payload = os.urandom(1_500_000)  # more than one pipe holds: some of it is pending when the process exits
    received = bytearray()

    def read_slowly() -> None:
        os.set_blocking(out, True)
        while data := os.read(out, 60_000):
            received.extend(data)
            time.sleep(0.02)

    reading = threading.Thread(target=read_slowly)
    reading.start()
    write_all(process.inside[1], payload)
    process.exit()
    assert stdio.drain(10)
    stdio.close()
    reading.join()
    os.close(out)
    assert bytes(received) == payload


def test_client_that_has_left_does_not_delay_exit(lab: Lab) -> None:
    stdio = lab.open(stdout=lab.stdout)
    first = reader(lab.stdout)
    process = lab.start(stdio)
    os.close(first)
    fill(process.inside[1])
    process.exit()
    assert not stdio.drain(0.1)
    stdio.close()


def test_drain_has_an_upper_bound(lab: Lab) -> None:
    stdio = lab.open(stdout=lab.stdout)
    out = reader(lab.stdout)
    process = lab.start(stdio)
    stop = threading.Event()

    def trickle() -> None:
        os.set_blocking(out, True)
        while not stop.wait(0.01):
            os.read(out, 4096)

    reading = threading.Thread(target=trickle)
    reading.start()
    write_all(process.inside[1], bytes(1 << 21))
    process.exit()
    assert not stdio.drain(10, max_seconds=0.2)
    stop.set()
    reading.join()
    os.close(out)


def test_orphan_does_not_delay_exit(lab: Lab) -> None:
    stdio = lab.open(stdout=lab.stdout)
    out = Reader(lab.stdout)
    process = lab.start(stdio)
    os.write(process.inside[1], b"all there is")
    stop = threading.Event()

    def chatter() -> None:
        with suppress(BrokenPipeError):  # once drain has closed the streams
            while not stop.wait(0.005):
                os.write(process.inside[1], b"x")

    talking = threading.Thread(target=chatter)
    talking.start()
    assert stdio.drain(0.2), "what the process itself wrote has arrived"
    stop.set()
    talking.join()
    stdio.close()
    assert out.end().startswith(b"all there is")


class TestOutputInTransit:
    """More output than is pending at the exit: a VM's is in the buffers of its guest and of a socket, too."""

    SIZE = 6 << 20

    @pytest.fixture
    def feeding(self, lab: Lab) -> tuple[Stdio, int]:
        """Output of a process that has exited, most of which is still behind the pipe, and the client's end."""
        stdio = lab.open(stdout=lab.stdout)
        client = reader(lab.stdout)
        process = lab.start(stdio)
        behind = process.inside[1]
        process.inside.remove(behind)

        def feed() -> None:
            with os.fdopen(behind, "wb", buffering=0) as file, suppress(BrokenPipeError):
                write_all(file.fileno(), bytes(self.SIZE))

        threading.Thread(target=feed, daemon=True).start()
        eventually(lambda: bytes_pending(client) >= 1 << 20)
        return stdio, client

    def test_client_slower_than_the_idle_timeout_gets_all(self, feeding: tuple[Stdio, int]) -> None:
        stdio, client = feeding
        received = bytearray()

        def read_slowly() -> None:
            os.set_blocking(client, True)
            while data := os.read(client, 1 << 16):
                received.extend(data)
                time.sleep(0.02)
            os.close(client)

        reading = threading.Thread(target=read_slowly)
        reading.start()
        assert stdio.drain(1.0), "the client needs two seconds"
        stdio.close()
        reading.join(60)
        assert len(received) == self.SIZE

    def test_caller_that_does_not_want_it_does_not_wait(self, feeding: tuple[Stdio, int]) -> None:
        stdio, client = feeding
        stop = threading.Event()
        received = 0

        def read_slowly() -> None:
            nonlocal received
            os.set_blocking(client, True)
            while not stop.wait(0.02) and (data := os.read(client, 1 << 16)):
                received += len(data)

        reading = threading.Thread(target=read_slowly)
        reading.start()
        stdio.drain(0.1, waits_for_reader=lambda: False)
        stdio.close()
        stop.set()
        reading.join(60)
        os.close(client)
        assert received < self.SIZE

    def test_orphan_that_writes_without_a_pause_has_a_limit(self, lab: Lab) -> None:
        stdio = lab.open(stdout=lab.stdout)
        out = Reader(lab.stdout)
        process = lab.start(stdio)
        stop = threading.Event()

        def flood() -> None:
            with suppress(BrokenPipeError):
                while not stop.is_set():
                    os.write(process.inside[1], bytes(1 << 16))

        flooding = threading.Thread(target=flood)
        flooding.start()
        eventually(lambda: stdio._outputs[0].bytes_moved > 1 << 20)  # type: ignore[union-attr]
        assert not stdio.drain(0.05, max_seconds=0.5)
        stdio.close()
        stop.set()
        flooding.join(60)
        assert len(out.end()) > 1 << 20


def test_on_held_open_is_called_once_for_orphan(lab: Lab) -> None:
    stdio = lab.open(stdout=lab.stdout)
    out = Reader(lab.stdout)
    process = lab.start(stdio)
    os.write(process.inside[1], b"all there is")
    called: list[int] = []

    def end() -> None:
        called.append(stdio._outputs[0].bytes_moved)  # type: ignore[union-attr]
        os.write(process.inside[1], b", and a last word")
        process.exit()

    assert stdio.drain(60, on_held_open=end), "by EOF, not by the timeout"
    assert called == [len(b"all there is")], "once, when all pending bytes had moved"
    stdio.close()
    assert out.end() == b"all there is, and a last word"


def test_on_held_open_is_not_called_without_orphan(lab: Lab) -> None:
    stdio = lab.open(stdout=lab.stdout)
    out = Reader(lab.stdout)
    process = lab.start(stdio)
    write_all(process.inside[1], bytes(1 << 21))
    process.exit()
    assert stdio.drain(60, on_held_open=lambda: pytest.fail("there is no orphan"))
    stdio.close()
    assert out.end() == bytes(1 << 21)


def test_output_is_discarded_after_retry_timeout(lab: Lab) -> None:
    stdio = lab.open(stdout=lab.stdout, retry_seconds=0.1)
    process = lab.start(stdio)
    write_all(process.inside[1], bytes(8 << 20))  # returns: the process is not blocked
    process.exit()
    assert stdio.drain(30)

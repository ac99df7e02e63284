"""Draining output after the exit: which clients are waited for, and how long."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from shim.task.stdio import process_io as stdio_module
from shim.task.stdio.process_io import Stdio
from tests.support.eventually import eventually
from tests.unit.platform.stdio_fixtures import Lab, Reader, reader, write_all


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


class LateClientWait:
    """A `waits_for_late_client` that counts its calls: they show that drain waits for a client."""

    def __init__(self) -> None:
        self.left = True
        self.calls = 0

    def __call__(self) -> bool:
        self.calls += 1
        return self.left


class Draining:
    """`drain` in a thread, by default with no idle timeout."""

    def __init__(self, stdio: Stdio, timeout: float = 0.0) -> None:
        self.late_wait = LateClientWait()
        self._results: list[bool] = []
        self._thread = threading.Thread(
            target=lambda: self._results.append(stdio.drain(timeout, waits_for_late_client=self.late_wait)), daemon=True
        )
        self._thread.start()

    def expect_waiting(self) -> None:
        calls = self.late_wait.calls
        eventually(lambda: self.late_wait.calls > calls + 1)

    @property
    def result(self) -> bool:
        self._thread.join(60)
        return self._results[0]


class TestLateClients:
    """A client may open its end after a short process has exited."""

    @pytest.fixture(autouse=True)
    def long_limit(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A client may be late for the whole test, however slow the machine."""
        monkeypatch.setattr(stdio_module, "LATE_CLIENT_SECONDS", 600.0)

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
        monkeypatch.setattr(stdio_module, "LATE_CLIENT_SECONDS", 0.0)
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
    monkeypatch.setattr(stdio_module, "sleep", lambda pause: (looks.append(pause), time.sleep(pause)))
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


def test_drain_times_out_if_client_does_not_read(lab: Lab) -> None:
    stdio = lab.open(stdout=lab.stdout)
    stuck = reader(lab.stdout)
    process = lab.start(stdio)
    os.write(process.inside[1], b"unread")
    process.exit()
    assert not Draining(stdio, 0.1).result
    os.close(stuck)


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

"""Draining output after the exit: which clients are waited for, and how long."""

from __future__ import annotations

import errno
import os
import subprocess
import threading
import time
from pathlib import Path

import pytest

from shim.platform import stdio_endpoints as platform
from shim.platform.linux import fifos
from shim.task.stdio import drain
from shim.task.stdio.process_io import Stdio
from tests.support.eventually import eventually
from tests.unit.platform.stdio_fixtures import Lab, Reader, fill, read_all, reader


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

    @pytest.fixture
    def unread(self, lab: Lab) -> tuple[Stdio, int, int]:
        """Output of a process that has exited, more than the FIFO holds; the client's end, and the number of bytes."""
        stdio = lab.open(stdout=lab.stdout)
        client = reader(lab.stdout)
        process = lab.start(stdio)
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

    def test_client_may_read_its_fifo_after_the_exit(self, lab: Lab) -> None:
        stdio = lab.open(stdout=lab.stdout)
        client = reader(lab.stdout)
        process = lab.start(stdio)
        os.write(process.inside[1], b"read later")
        process.exit()
        assert Draining(stdio, 0.1).result, "neither lost nor waited for until READER_TIMEOUT"
        stdio.close()
        assert read_all(client) == b"read later"

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

"""Draining output after the exit: slow clients, output in transit, and orphans."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from shim.platform.linux.pump import bytes_pending
from shim.task.stdio.process_io import Stdio
from tests.support.eventually import eventually
from tests.unit.platform.stdio_fixtures import Lab, Reader, fill, reader, write_all


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

    def test_client_slower_than_the_idle_timeout_gets_all(self, lab: Lab) -> None:
        stdio = lab.open(stdout=lab.stdout)
        client = reader(lab.stdout)
        process = lab.start(stdio)
        behind = process.inside.pop(1)

        def feed() -> None:
            write_all(behind, bytes(self.SIZE))
            os.close(behind)

        feeding = threading.Thread(target=feed)
        feeding.start()
        eventually(lambda: bytes_pending(client) >= 1 << 20)
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
        feeding.join(60)
        reading.join(60)
        assert len(received) == self.SIZE

    @pytest.fixture
    def flooded(self, lab: Lab) -> Iterator[Stdio]:
        """A process has exited, and an orphan writes without a pause."""
        stdio = lab.open(stdout=lab.stdout)
        out = Reader(lab.stdout)
        process = lab.start(stdio)

        def flood() -> None:
            with suppress(BrokenPipeError):  # once the streams are closed
                while True:
                    os.write(process.inside[1], bytes(1 << 16))

        flooding = threading.Thread(target=flood)
        flooding.start()
        eventually(lambda: stdio._outputs[0].bytes_moved > 1 << 20)  # type: ignore[union-attr]
        yield stdio
        stdio.close()
        flooding.join(60)
        assert len(out.end()) > 1 << 20

    def test_orphan_that_writes_without_a_pause_has_a_limit(self, flooded: Stdio) -> None:
        assert not flooded.drain(0.05, max_seconds=0.5)

    def test_caller_that_does_not_wait_for_it_has_what_was_pending(self, flooded: Stdio) -> None:
        assert flooded.drain(0.05, waits_for_reader=lambda: False)


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

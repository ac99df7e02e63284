"""After the exit of a process: wait, with a bound, until its client has the rest of the output.

Path of an output's bytes, and what is waited for:

    process -> pipe of HCS -> Pump -> the client's FIFO or named pipe -> client
               bytes_pending          held open by ClientFifo.writer

    MOVING   the pumps move what is in the pipes of HCS
     |  both outputs are at EOF ........................................ READING
     |  all bytes that were pending at the exit have moved, but a child
     |  that the process left behind (an orphan) holds the pipe open:
     |  call on_held_open once, give idle_timeout for EOF .............. READING
     |  more bytes are in transit: give them the same again ............ MOVING
     |  no progress for too long, or max_seconds have passed ........... output lost (False)
    READING  the client reads what is in its FIFO (Linux; a named pipe keeps its bytes)
     |  the FIFOs are empty ............................................ drained (True)
     |  no progress for idle_timeout, or max_seconds have passed:
     |  a client has the FIFO open, so the kernel keeps its bytes ...... drained (True)
     |  no client has it open .......................................... output lost (False)

What is pending at the exit is not always all: a VM's output is in the buffers of its guest and of a socket, too. It is
in transit if bytes are pending again after idle_timeout, or if BULK came in that time. An orphan that writes lines is
not waited for; one that writes without a pause is, up to max_seconds.

A client that has its end open and reads nothing may have no CPU: it gets READER_TIMEOUT while bytes have still to move.
A client that was seen and has left gets idle_timeout. One that reads slowly is waited for as long as it makes progress,
up to max_seconds: with pipes of 1 MiB that suffices for any reader above 35 KiB/s. After SIGKILL or Delete no client
waits for the output: then no progress for idle_timeout is too long. What has moved to a FIFO that a client has open
cannot be lost, and a client may read it only after the exit: it delays the exit by idle_timeout at most.

A client may open its FIFO late: Go's clients drop a FIFO if they learn of the exit before their own open of it has
returned. A client that was not seen at the start counts as late, and stops both timeouts, until LATE_CLIENT_SECONDS
after the streams were opened. Not so if the process was signalled: its caller does not wait for the output of a short
command.
"""

from __future__ import annotations

from time import monotonic, sleep

from shim.platform import stdio_endpoints as platform

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from shim.platform.stdio_endpoints import Pump, Relay
    from shim.task.one_shot import OneShotEvent

IDLE_TIMEOUT = 1.0
MAX_DRAIN = 30.0
LATE_CLIENT_SECONDS = 10.0
READER_TIMEOUT = 10.0
#: Less is what an orphan writes now and then.
BULK = 64 << 10
_POLL_INTERVAL = 0.05
_FIRST_POLL_INTERVAL = 0.001


class ClientFifo:
    """An output that is a client's FIFO. `writer`, a second writing end, keeps its bytes until they are read."""

    __slots__ = ("client_seen", "pump", "writer")

    def __init__(self, pump: Pump, writer: int, client_seen: bool) -> None:
        self.pump = pump
        self.writer = writer
        #: Whether the client had the FIFO open when the process started.
        self.client_seen = client_seen

    def bytes_pending(self) -> int:
        return platform.bytes_pending(self.writer) if self.pump.sink >= 0 else 0

    def has_reader(self) -> bool:
        """Whether the client has the FIFO open. Valid once the pump is closed."""
        return platform.has_reader(self.writer)

    def client_may_be_late(self) -> bool:
        """Whether the client has still to open the FIFO. Valid once the pump is closed."""
        return not self.client_seen and not self.has_reader()


class Drain:
    """The wait for the output of one process. The predicates may change their answers at any time."""

    __slots__ = (
        "_closed", "_fifos", "_idle_timeout", "_max_seconds", "_on_held_open", "_opened_at", "_pumps", "_relay",
        "_waits_for_late_client", "_waits_for_reader",
    )  # fmt: skip

    def __init__(
        self,
        relay: Relay,
        pumps: list[Pump],
        fifos: list[ClientFifo],
        closed: OneShotEvent,
        opened_at: float,
        *,
        idle_timeout: float,
        max_seconds: float,
        waits_for_late_client: Callable[[], bool],
        waits_for_reader: Callable[[], bool],
        on_held_open: Callable[[], None] | None,
    ) -> None:
        """`closed` is set when every output is at EOF. `fifos` are those of the pumps that end in a FIFO.
        `on_held_open` is called at most once."""
        self._relay = relay
        self._pumps = pumps
        self._fifos = fifos
        self._closed = closed
        self._opened_at = opened_at
        self._idle_timeout = idle_timeout
        self._max_seconds = max_seconds
        self._waits_for_late_client = waits_for_late_client
        self._waits_for_reader = waits_for_reader
        self._on_held_open = on_held_open

    def run(self) -> bool:
        """False if output is lost."""
        if self._pumps and not self._closed.wait(0) and not self._wait_moved():
            return False
        # Output of an orphan from here on is dropped. Without our own reading end the kernel tells whether another
        # process has the FIFO open.
        self._relay.stop([fifo.pump for fifo in self._fifos if not fifo.pump.closed])
        return self._wait_read()

    # MOVING

    def _wait_moved(self) -> bool:
        end = monotonic() + self._max_seconds
        expected = self._sums_with_pending()
        while True:
            if not self._wait_expected(expected, end):
                return False
            if self._wait_eof() or not self._waits_for_reader():
                return True
            moved = sum(pump.bytes_moved for pump in self._pumps)
            pending = self._sums_with_pending()
            if sum(pending) <= moved < sum(expected) + BULK:
                return True
            if monotonic() >= end:
                return False
            expected = pending

    def _wait_expected(self, expected: list[int], end: float) -> bool:
        """Wait until each pump has moved so many bytes, or is closed. False if they are lost."""
        progress = monotonic()
        before = [pump.bytes_moved for pump in self._pumps]
        while unmoved := [
            pump
            for pump, sum_ in zip(self._pumps, expected, strict=True)
            if not pump.closed and pump.bytes_moved < sum_
        ]:
            now = monotonic()
            left = self._deadline(now, progress, end, unmoved) - now
            if left <= 0:
                return False
            if self._closed.wait(min(left, _POLL_INTERVAL)):
                return True
            moved = [pump.bytes_moved for pump in self._pumps]
            if moved != before:
                before, progress = moved, monotonic()
        return True

    def _deadline(self, now: float, progress: float, end: float, unmoved: list[Pump]) -> float:
        timeout = self._idle_timeout
        if now >= progress + timeout and self._waits_for_reader() and self._is_client_connected(unmoved):
            timeout = max(timeout, READER_TIMEOUT)
        deadline = min(progress + timeout, end)
        has_late_client = any(not fifo.client_seen and not fifo.pump.closed for fifo in self._fifos)
        if has_late_client and self._waits_for_late_client():
            deadline = max(deadline, self._opened_at + LATE_CLIENT_SECONDS)
        return deadline

    def _wait_eof(self) -> bool:
        if self._closed.wait(min(self._idle_timeout, _POLL_INTERVAL)):
            return True
        on_held_open, self._on_held_open = self._on_held_open, None
        if on_held_open is not None:
            on_held_open()
        return self._closed.wait(self._idle_timeout)

    def _is_client_connected(self, pumps: list[Pump]) -> bool:
        """Whether a client has the output of one of these pumps open."""
        writers = {id(fifo.pump): fifo.writer for fifo in self._fifos}
        return any(platform.is_client_connected(self._relay, pump, writers.get(id(pump))) for pump in pumps)

    def _sums_with_pending(self) -> list[int]:
        """For each pump the bytes that it has moved and those that are ready to be moved."""
        pumps = self._pumps
        sums = self._relay.call(lambda: [pump.bytes_moved + pump.bytes_pending() for pump in pumps])
        return sums or [0] * len(pumps)

    # READING

    def _wait_read(self) -> bool:
        begin = progress = monotonic()
        before = 0
        pause = _FIRST_POLL_INTERVAL
        while pending := [(fifo, count) for fifo in self._fifos if (count := fifo.bytes_pending())]:
            now, sum_ = monotonic(), sum(count for _, count in pending)
            if sum_ != before:
                before, progress = sum_, now
            is_young = now < self._opened_at + LATE_CLIENT_SECONDS
            if is_young and any(fifo.client_may_be_late() for fifo, _ in pending) and self._waits_for_late_client():
                progress = now
            elif now > min(progress + self._idle_timeout, begin + self._max_seconds):
                return all(fifo.has_reader() for fifo, _ in pending)
            sleep(pause)
            pause = min(2 * pause, _POLL_INTERVAL)
        return True

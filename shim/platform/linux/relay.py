"""One thread that moves the bytes of all streams of the shim.

Everything is non-blocking. A pump waits either for its source or for its sink, never for both, with a one-shot epoll
registration: a hang-up that cannot be handled yet must not make the thread spin.

The relay owns the descriptors from `add` on, and only its thread touches them, so none is closed during a call that
uses it. The thread starts with the first pump and ends with the last.
"""

from __future__ import annotations

import posix
import select
import sys
from _thread import allocate_lock
from time import monotonic

from shim.threads import run_soon

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _thread import LockType
    from collections.abc import Callable
    from typing import TypeVar

    from shim.platform.linux.pump import Pump

    Result = TypeVar("Result")

CALL_TIMEOUT = 5.0


class Relay:
    def __init__(self) -> None:
        self._lock: LockType = allocate_lock()
        self._calls: list[Callable[[], None]] = []
        self._pumps: set[Pump] = set()
        self._waiting: dict[int, tuple[Pump, bool]] = {}  # descriptor -> its pump, and whether it is the sink
        self._ready: list[tuple[Pump, bool]] = []  # epoll rejects their descriptor (a regular file): always ready
        self._running = False
        self._epoll: select.epoll
        self._wake = -1

    def add(self, pump: Pump) -> None:
        self.call(lambda: self._add(pump))

    def stop(self, pumps: list[Pump]) -> None:
        """Close the pumps at once and drop what they have not moved."""
        if pumps:
            self.call(lambda: self._stop(pumps))

    def finish(self, pump: Pump) -> None:
        """Close the pump when the bytes that are pending now have moved. Waits for nothing."""

        def mark() -> None:
            if not pump.closed:
                pump.finishing = True
                self.watch_again(pump)

        with self._lock:
            self._post(mark)

    def watch_again(self, pump: Pump) -> None:
        """Only for the relay's thread: a descriptor of the pump has been replaced, of which epoll does not know."""
        self._unwatch(pump)
        self._run_pump(pump, False)

    def call(self, function: Callable[[], Result]) -> Result | None:
        """Run the function in the relay's thread and return its result; None after CALL_TIMEOUT."""
        done = allocate_lock()
        done.acquire()
        results: list[Result] = []
        failures: list[BaseException] = []

        def run() -> None:
            try:
                results.append(function())
            except BaseException as error:
                failures.append(error)
            finally:
                done.release()

        with self._lock:
            self._post(run)
        if not done.acquire(True, CALL_TIMEOUT):
            return None
        if failures:
            raise failures[0]
        return results[0]

    def _post(self, function: Callable[[], None]) -> None:
        """Let the relay's thread run the function, which must not raise. Called with the lock held."""
        self._calls.append(function)
        if not self._running:
            self._begin()
        posix.eventfd_write(self._wake, 1)

    # -- the thread

    def _begin(self) -> None:
        self._epoll = select.epoll()
        self._wake = posix.eventfd(0, posix.EFD_NONBLOCK | posix.EFD_CLOEXEC)
        try:
            self._epoll.register(self._wake, select.EPOLLIN)
            run_soon(self._run)
        except BaseException:
            self._calls.clear()
            self._epoll.close()
            posix.close(self._wake)
            raise
        self._running = True

    def _run(self) -> None:
        while True:
            with self._lock:
                calls, self._calls = self._calls, []
                if not calls and not self._pumps:
                    self._running = False
                    self._epoll.close()
                    posix.close(self._wake)
                    return
            for call in calls:
                call()
            ready, self._ready = self._ready, []
            for pump, is_sink in ready:
                if not pump.closed:
                    self._run_pump(pump, is_sink)
            if not self._pumps:
                continue
            for descriptor, _ in self._epoll.poll(0 if self._ready else self._abandon_stalled_sinks()):
                if descriptor == self._wake:
                    posix.eventfd_read(self._wake)
                    continue
                entry = self._waiting.pop(descriptor, None)
                if entry is not None:
                    self._run_pump(*entry)

    def _abandon_stalled_sinks(self) -> float | None:
        """Abandon sinks that have taken nothing for their stall timeout; returns the seconds to the next timeout."""
        due: float | None = None
        for pump in list(self._pumps):
            if not pump.stall_timeout or pump.stalled_since is None:
                continue
            left = pump.stalled_since + pump.stall_timeout - monotonic()
            if left <= 0:
                self._unwatch(pump)
                pump.abandon_sink()
                self._run_pump(pump, True)
            elif due is None or left < due:
                due = left
        return due

    def _add(self, pump: Pump) -> None:
        if pump.closed:
            return  # CloseIO came before the start had finished
        self._pumps.add(pump)
        # Wait before the first read: a FIFO that no writer has opened yet reads as EOF, but epoll does not report it.
        self._wait(pump, pump.source)

    def _run_pump(self, pump: Pump, woken_by_sink: bool) -> None:
        try:
            descriptor = pump.run(woken_by_sink)
            if descriptor >= 0:
                self._wait(pump, descriptor)
                return
        except OSError:
            pass  # a stream that epoll refuses must not end the thread
        except Exception:  # such as a lack of memory: one stream is lost, not those of all containers
            sys.excepthook(*sys.exc_info())
        self._close(pump)

    def _wait(self, pump: Pump, descriptor: int) -> None:
        is_sink = descriptor == pump.sink
        events = (select.EPOLLOUT if is_sink else select.EPOLLIN) | select.EPOLLONESHOT
        try:
            try:
                self._epoll.modify(descriptor, events)
            except FileNotFoundError:
                self._epoll.register(descriptor, events)
        except PermissionError:
            self._ready.append((pump, is_sink))  # a regular file
            return
        self._waiting[descriptor] = (pump, is_sink)

    def _stop(self, pumps: list[Pump]) -> None:
        for pump in pumps:
            if not pump.closed:
                self._close(pump)

    def _unwatch(self, pump: Pump) -> None:
        for descriptor in (pump.source, pump.sink):
            entry = self._waiting.get(descriptor)
            if entry is not None and entry[0] is pump:
                del self._waiting[descriptor]

    def _close(self, pump: Pump) -> None:
        self._unwatch(pump)
        self._pumps.discard(pump)
        # close(2) does not remove them from epoll if another process shares the open file description.
        for descriptor in (pump.source, pump.sink):
            if descriptor >= 0:
                try:
                    self._epoll.unregister(descriptor)
                except OSError:
                    pass
        pump.close()

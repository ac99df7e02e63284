"""One thread that fails calls at their deadline; it ends when there has been no call with a deadline for a while.

The entry of a call that ended in time stays in the heap and is skipped later. The heap is rebuilt when such entries are
the majority, so quick calls with far deadlines do not accumulate. Nor do they keep the thread alive: it checks now and
then, with growing intervals, whether any call is still pending.
"""

from __future__ import annotations

import sys
from _thread import allocate_lock
from time import monotonic

from shim.threads import run_soon

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _thread import LockType
    from typing import Protocol

    class Expiring(Protocol):
        deadline: float | None

        @property
        def done(self) -> bool: ...
        def expire(self) -> None: ...


LINGER = 3.0
# The upper bound of a lock's timeout is far below the longest deadline that a client may send.
LONGEST_PAUSE = 3600.0
_MANY = 64


class Deadlines:
    __slots__ = ("_closed", "_ended", "_heap", "_lock", "_number", "_running", "_wake")

    def __init__(self) -> None:
        self._lock: LockType = allocate_lock()
        self._wake: LockType = allocate_lock()
        self._wake.acquire()
        self._heap: list[tuple[float, int, Expiring]] = []
        self._number = 0  # orders entries of the same instant
        self._ended = 0  # entries whose call has ended
        self._running = False
        self._closed = False

    def __len__(self) -> int:
        return len(self._heap)

    def watch(self, call: Expiring) -> None:
        deadline = call.deadline
        if deadline is None:
            return
        from _heapq import heappush  # an extension module that the first responses do not need

        with self._lock:
            if self._closed:
                return
            self._number += 1
            heappush(self._heap, (deadline, self._number, call))
            if not self._running:
                run_soon(self._run)
                self._running = True
            elif self._heap[0][2] is call and self._wake.locked():
                self._wake.release()

    def call_ended(self) -> None:
        """A watched call has ended."""
        with self._lock:
            self._ended += 1
            if self._ended > _MANY and self._ended * 2 > len(self._heap):
                from _heapq import heapify

                self._heap = [entry for entry in self._heap if not entry[2].done]
                heapify(self._heap)
                self._ended = 0

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._heap.clear()
            if self._wake.locked():
                self._wake.release()

    def _run(self) -> None:
        from _heapq import heappop

        longest = LINGER
        while True:
            due: list[Expiring] = []
            with self._lock:
                now = monotonic()
                while self._heap and (self._heap[0][0] <= now or self._heap[0][2].done):
                    due.append(heappop(self._heap)[2])
                if self._closed:
                    self._running = False
                    return
                if not self._heap:
                    longest = LINGER
                pause = min(self._heap[0][0] - now, longest) if self._heap else LINGER
            for call in due:
                try:
                    call.expire()
                except Exception:  # such as a lack of memory: the deadlines of the other calls still matter
                    sys.excepthook(*sys.exc_info())
            if due:
                del due, call
                continue
            if self._wake.acquire(True, pause):
                longest = LINGER
            else:
                longest = min(longest * 2, LONGEST_PAUSE)
                with self._lock:
                    if not self._heap:
                        self._running = False
                        return

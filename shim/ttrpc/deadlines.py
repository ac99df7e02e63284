"""One thread that answers calls whose time is up; there is none when no call with a deadline has come for a while.

A call that is answered in time is not searched for: its entry stays in the heap and is passed over. Only when such
entries are the greater part is the heap built anew, so quick calls with far deadlines do not pile up. Nor do they keep
the thread: it looks now and then, less and less often, whether any call is still waited for.
"""

from __future__ import annotations

from _thread import allocate_lock, start_new_thread
from time import monotonic

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
    __slots__ = ("_closed", "_heap", "_lock", "_number", "_running", "_settled", "_wake")

    def __init__(self) -> None:
        self._lock: LockType = allocate_lock()
        self._wake: LockType = allocate_lock()
        self._wake.acquire()
        self._heap: list[tuple[float, int, Expiring]] = []
        self._number = 0  # orders entries of the same instant
        self._settled = 0
        self._running = False
        self._closed = False

    def __len__(self) -> int:
        return len(self._heap)

    def watch(self, call: Expiring) -> None:
        deadline = call.deadline
        if deadline is None:
            return
        from _heapq import heappush  # a library of its own, and the first answers do without

        with self._lock:
            if self._closed:
                return
            self._number += 1
            heappush(self._heap, (deadline, self._number, call))
            if not self._running:
                self._running = True
                start_new_thread(self._run, ())
            elif self._heap[0][2] is call and self._wake.locked():
                self._wake.release()

    def settled(self) -> None:
        """A watched call is done."""
        with self._lock:
            self._settled += 1
            if self._settled > _MANY and self._settled * 2 > len(self._heap):
                from _heapq import heapify

                self._heap = [entry for entry in self._heap if not entry[2].done]
                heapify(self._heap)
                self._settled = 0

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._heap.clear()
            if self._wake.locked():
                self._wake.release()

    def _run(self) -> None:
        from _heapq import heappop

        patience = LINGER
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
                    patience = LINGER
                pause = min(self._heap[0][0] - now, patience) if self._heap else LINGER
            for call in due:
                call.expire()
            if due:
                del due, call
                continue
            if self._wake.acquire(True, pause):
                patience = LINGER
            else:
                patience = min(patience * 2, LONGEST_PAUSE)
                with self._lock:
                    if not self._heap:
                        self._running = False
                        return

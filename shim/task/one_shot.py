"""One thing that happens once, and everybody who waits for it.

A Wait of the task API may stay open for months and there may be any number of them, so a waiter is a callback, not a
thread. The few callers that do own a thread (Delete, teardown) use `wait`, which always has a bound.

Bare locks, here and in the rest of the task's domain: importing `threading` would cost a first Create more than
everything it runs.
"""

from __future__ import annotations

from _thread import allocate_lock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class Waiters:
    __slots__ = ("_callbacks", "_lock", "released")

    def __init__(self) -> None:
        self._lock = allocate_lock()
        self._callbacks: list[Callable[[], object]] = []
        #: It has happened.
        self.released = False

    def add(self, callback: Callable[[], object]) -> None:
        """Call `callback`, which must not raise, when it has happened: at once, in this thread, if it has already."""
        with self._lock:
            if not self.released:
                self._callbacks.append(callback)
                return
        callback()

    def remove(self, callback: Callable[[], object]) -> None:
        """Whoever it was for does not wait any more."""
        with self._lock:
            if callback in self._callbacks:
                self._callbacks.remove(callback)

    def release(self) -> None:
        """It has happened. Calling this again changes nothing."""
        with self._lock:
            self.released = True
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()

    def wait(self, timeout: float) -> bool:
        if self.released:
            return True
        gate = allocate_lock()
        gate.acquire()
        opened = gate.release
        self.add(opened)
        if gate.acquire(timeout=max(0.0, timeout)):
            return True
        self.remove(opened)
        return self.released

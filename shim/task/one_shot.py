"""An event that happens once, and the callers that wait for it.

A Wait of the task API may stay open for months, and there may be any number of them, so a waiter is a callback and not
a thread. The few callers that own a thread (Delete, teardown) use `wait`, which always has a timeout.

Bare locks, here and in the rest of the task package: importing `threading` would cost a first Create more time than all
the code it runs.
"""

from __future__ import annotations

from _thread import allocate_lock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class OneShotEvent:
    __slots__ = ("_callbacks", "_lock", "is_set")

    def __init__(self) -> None:
        self._lock = allocate_lock()
        self._callbacks: list[Callable[[], object]] = []
        self.is_set = False

    def add_callback(self, callback: Callable[[], object]) -> None:
        """Call `callback`, which must not raise, when the event is set: at once, in this thread, if it is already."""
        with self._lock:
            if not self.is_set:
                self._callbacks.append(callback)
                return
        callback()

    def remove_callback(self, callback: Callable[[], object]) -> None:
        with self._lock:
            if callback in self._callbacks:
                self._callbacks.remove(callback)

    def set(self) -> None:
        """Set the event and call the callbacks. A second call does nothing."""
        with self._lock:
            self.is_set = True
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()

    def wait(self, timeout: float) -> bool:
        if self.is_set:
            return True
        gate = allocate_lock()
        gate.acquire()
        opened = gate.release
        self.add_callback(opened)
        if gate.acquire(timeout=max(0.0, timeout)):
            return True
        self.remove_callback(opened)
        return self.is_set

"""The end of a process: noted once, and told to everybody who wants to know, however late they ask."""

from __future__ import annotations

from _thread import allocate_lock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class Exit:
    """How a process ended."""

    __slots__ = ("code",)

    def __init__(self, code: int) -> None:
        self.code = code


class EndsOnce:
    """What every kind of process has in common. `_lock` guards `_exit`, and whatever else must not change with it."""

    def __init__(self) -> None:
        self._lock = allocate_lock()
        self._exit: Exit | None = None
        self._callbacks: list[Callable[[Exit], object]] = []

    def on_exit(self, callback: Callable[[Exit], object]) -> None:
        """Call back once it has ended: at once if it has already."""
        with self._lock:
            if self._exit is None:
                self._callbacks.append(callback)
                return
        callback(self._exit)

    def finish(self, code: int) -> bool:
        """It has ended. False: that was known."""
        with self._lock:
            if self._exit is not None:
                return False
            self._exit = ended = Exit(code)
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback(ended)
        return True

"""The exit of a process: recorded once, and passed to every callback, however late it is registered."""

from __future__ import annotations

from _thread import allocate_lock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class Exit:
    """The exit status of a process."""

    __slots__ = ("code",)

    def __init__(self, code: int) -> None:
        self.code = code


class ExitEvent:
    """Base class of every kind of process. `_lock` guards `_exit` and the state that changes with it."""

    def __init__(self) -> None:
        self._lock = allocate_lock()
        self._exit: Exit | None = None
        self._callbacks: list[Callable[[Exit], object]] = []

    def on_exit(self, callback: Callable[[Exit], object]) -> None:
        """Call back once, when the process has exited; at once if it has exited already."""
        with self._lock:
            if self._exit is None:
                self._callbacks.append(callback)
                return
        callback(self._exit)

    def finish(self, code: int) -> bool:
        """Record the exit. False: it was recorded before."""
        with self._lock:
            if self._exit is not None:
                return False
            self._exit = status = Exit(code)
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback(status)
        return True

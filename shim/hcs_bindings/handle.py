"""When a native handle may be closed: once, and never while a call is inside HCS with it.

`close` forbids new calls at once and releases who waits. If calls are in flight, the last of them to return closes
the handle; so close never blocks behind a guest that does not answer, and no call ever loses the handle it works with
(which crashes computecore).
"""

from __future__ import annotations

from _thread import allocate_lock

from shim.hcs_bindings import errors, events, operation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Any, Self

    from shim.hcs_bindings.events import Exit, Subscription


class NativeHandle:
    """An HCS_SYSTEM or HCS_PROCESS with the calls that are using it."""

    __slots__ = ("_calls", "_close", "_closed", "_lock", "_raw", "_subscription")

    def __init__(self, raw: Any, close: Callable[[Any], object], subscription: Subscription) -> None:
        self._raw = raw
        self._close = close
        self._subscription = subscription
        self._calls = 0
        self._closed = False
        self._lock = allocate_lock()
        subscription.native = self

    @property
    def closed(self) -> bool:
        return self._closed

    def acquire(self, name: str) -> Any:
        with self._lock:
            if self._closed:
                raise errors.AlreadyClosed(name)
            self._calls += 1
            return self._raw

    def release(self) -> None:
        with self._lock:
            self._calls -= 1
            last = self._closed and self._calls == 0
        if last:
            self._close(self._raw)

    def close(self) -> None:
        with self._lock:
            if self._closed:
                return
            self._closed = True
            idle = self._calls == 0
        self._subscription.release()
        if idle:
            self._close(self._raw)


class Handle:
    """What compute systems and processes have in common: calls by name, an exit, and an end."""

    __slots__ = ("__weakref__", "_native", "_subscription")

    def __init__(self, native: NativeHandle, subscription: Subscription) -> None:
        self._native = native
        self._subscription = subscription

    def _name(self, verb: str) -> str:
        raise AssertionError("a subclass says how its operations are called")

    def _run(self, verb: str, call: Callable[[Any, Any], int], timeout: float | None = None) -> str:
        """One tracked call with this handle: `call(handle, operation)`."""
        name = self._name(verb)
        raw = self._native.acquire(name)
        try:
            return operation.run(name, lambda op: call(raw, op), timeout)
        finally:
            self._native.release()

    @property
    def exited(self) -> Exit | None:
        """How it ended, if it has and HCS has said so."""
        return self._subscription.exit

    @property
    def closed(self) -> bool:
        return self._native.closed

    def on_exit(self, callback: Callable[[Exit], object]) -> None:
        """Call `callback(exit)` once when it has ended, on the bindings' own thread; at once if it has ended already.

        Never after close.
        """
        self._subscription.on_exit(callback)

    def on_event(self, callback: Callable[[int, str], object]) -> None:
        """Call `callback(event type, event data)` for every event, exit included, on the bindings' own thread."""
        self._subscription.on_event(callback)

    def wait_exit(self, timeout: float | None = None) -> Exit:
        """Wait for the end.

        OPERATION_TIMEOUT if it does not come in time, AlreadyClosed if the handle is closed meanwhile.
        """
        return self._subscription.wait(timeout)

    def close(self) -> None:
        """Give the handle back. Neither the system nor the process ends by it (unless the document said so)."""
        self._native.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        # The collector may run anywhere, even inside HCS's own callback, where closing would deadlock: the dispatcher
        # does it.
        native = getattr(self, "_native", None)
        if native is not None and not native.closed:
            events.post(native.close)

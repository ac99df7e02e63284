"""Native handles, which are closed once, and never while a call uses them.

`close` rejects new calls at once and wakes waiters. If calls are in flight, the last of them to return closes the
handle: so `close` never blocks on a guest that does not respond, and no call loses its handle (which crashes
computecore).
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
    """An HCS_SYSTEM or HCS_PROCESS, and the number of calls in flight."""

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
    """Base class of compute systems and processes: calls, exit, close."""

    __slots__ = ("__weakref__", "_native", "_subscription")

    def __init__(self, native: NativeHandle, subscription: Subscription) -> None:
        self._native = native
        self._subscription = subscription

    def _name(self, verb: str) -> str:
        raise AssertionError("a subclass names its operations")

    def _run(self, verb: str, call: Callable[[Any, Any], int], timeout: float | None = None) -> str:
        """Run one operation with this handle: `call(handle, operation)`."""
        name = self._name(verb)
        raw = self._native.acquire(name)
        try:
            return operation.run(name, lambda op: call(raw, op), timeout)
        finally:
            self._native.release()

    @property
    def exited(self) -> Exit | None:
        """The exit, if HCS has reported it."""
        return self._subscription.exit

    @property
    def closed(self) -> bool:
        return self._native.closed

    def on_exit(self, callback: Callable[[Exit], object]) -> None:
        """Call `callback(exit)` once after the exit, on the dispatcher's thread; at once if it has exited already.

        Never after `close`.
        """
        self._subscription.on_exit(callback)

    def on_event(self, callback: Callable[[int, str], object]) -> None:
        """Call `callback(event type, event data)` for every event, the exit too, on the dispatcher's thread."""
        self._subscription.on_event(callback)

    def wait_exit(self, timeout: float | None = None) -> Exit:
        """Wait for the exit.

        Raises OPERATION_TIMEOUT if it does not exit in time, AlreadyClosed if the handle is closed meanwhile.
        """
        return self._subscription.wait(timeout)

    def close(self) -> None:
        """Close the handle. The system or process continues (unless its document says otherwise)."""
        self._native.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        # The collector may run anywhere, even in HCS's callback, where closing would deadlock: the dispatcher closes.
        native = getattr(self, "_native", None)
        if native is not None and not native.closed:
            events.post(native.close)

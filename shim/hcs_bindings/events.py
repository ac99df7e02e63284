"""The native callback of HCS, and the dispatcher thread that delivers exits and events.

HCS calls back on its own threads, at any time: before the call that registered has returned, after the handle was
closed, during interpreter shutdown. So there is *one* callback object for the whole process. Its context is a small
integer; it copies the event, queues it and returns; it takes no lock of ours and raises nothing. The dispatcher thread
looks the integer up in a table and calls the subscription; an integer that is no longer in the table belongs to a late
callback, which is dropped.

An exit is delivered once: the first of the exit event and the loss of the service. Closing a handle is *not* an exit:
waiters get AlreadyClosed, and callbacks are dropped. Callbacks run one after the other, so they must be short; they may
close the handle.

At interpreter exit all open handles are closed: HCS guarantees no callbacks after a close, and a callback into a
finalized interpreter would crash.
"""

from __future__ import annotations

from _queue import SimpleQueue
from _thread import LockType, allocate_lock

from shim import observers
from shim.hcs_bindings import errors
from shim.hcs_bindings._hcs_cffi import ffi
from shim.threads import for_own_pod, run_soon

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from shim.hcs_bindings.handle import NativeHandle

SYSTEM_EXITED = 0x00000001
SYSTEM_CRASH_INITIATED = 0x00000002
SYSTEM_CRASH_REPORT = 0x00000003
SYSTEM_GUEST_CONNECTION_CLOSED = 0x00000006
PROCESS_EXITED = 0x00010000
SERVICE_DISCONNECT = 0x02000000


class Exit:
    """The exit of a system or process.

    `code`: a process's exit code (32 bits, unsigned), or a system's status; -1 where it is not known. `type`,
    `attribution`: of a system, as HCS says (`GracefulExit`, `ForcedExit`, `UnexpectedExit` …; empty on old builds).
    `error`: set after an unexpected exit.
    """

    __slots__ = ("attribution", "code", "error", "type")

    def __init__(
        self, code: int, type: str = "", attribution: list[Any] | None = None, error: errors.HcsError | None = None
    ) -> None:
        self.code = code
        self.type = type
        self.attribution = attribution or []
        self.error = error

    def __repr__(self) -> str:
        return f"Exit(code={self.code}, type={self.type!r}, error={self.error!r})"


class Subscription:
    """The callbacks and waiters of one handle: for its exit, once, and for its other events."""

    __slots__ = (
        "_closed",
        "_decode",
        "_exit_event",
        "_lock",
        "_on_event",
        "_on_exit",
        "_waiters",
        "exit",
        "name",
        "native",
        "number",
    )

    def __init__(self, name: str, exit_event: int, decode: Callable[[str, str], Exit]) -> None:
        self.name = name
        self.number = 0
        self.native: NativeHandle | None = None
        self.exit: Exit | None = None
        self._exit_event = exit_event
        self._decode = decode
        self._closed = False
        self._lock = allocate_lock()
        self._waiters: list[LockType] = []  # one held lock per waiting thread; released on exit or close
        self._on_exit: list[Callable[[Exit], object]] = []
        self._on_event: list[Callable[[int, str], object]] = []

    def on_exit(self, callback: Callable[[Exit], object]) -> None:
        """Call back once after the exit, on the dispatcher's thread; at once if it has exited already."""
        callback = for_own_pod(callback)
        with self._lock:
            if self.exit is None:
                if self._closed:
                    raise errors.AlreadyClosed(f"{self.name}::OnExit")
                self._on_exit.append(callback)
                return
        post(callback, self.exit)

    def on_event(self, callback: Callable[[int, str], object]) -> None:
        with self._lock:
            self._on_event.append(for_own_pod(callback))

    def wait(self, timeout: float | None) -> Exit:
        with self._lock:
            waiter = None
            if self.exit is None and not self._closed:
                waiter = allocate_lock()
                waiter.acquire()
                self._waiters.append(waiter)
        if waiter is not None:
            waiter.acquire(timeout=-1 if timeout is None else max(timeout, 0))
        with self._lock:
            if waiter in self._waiters:
                self._waiters.remove(waiter)
            if self.exit is not None:
                return self.exit
            if self._closed:
                raise errors.AlreadyClosed(f"{self.name}::Wait")
        raise errors.HcsError(errors.OPERATION_TIMEOUT, f"{self.name}::Wait")

    def _wake(self) -> None:
        for waiter in self._waiters:
            waiter.release()
        self._waiters = []

    def deliver(self, type: int, data: str) -> None:
        """One event, on the dispatcher's thread."""
        if type == self._exit_event:
            self.finish(self._decode(data, self.name))
        elif type == SERVICE_DISCONNECT:
            self.finish(Exit(-1, error=errors.HcsError(errors.SERVICE_DISCONNECT, self.name)))
        with self._lock:
            callbacks = list(self._on_event)
        for callback in callbacks:
            _run(callback, type, data)

    def finish(self, exit: Exit) -> None:
        """Record the exit, if it is the first."""
        with self._lock:
            if self.exit is not None or self._closed:
                return
            self.exit = exit
            callbacks, self._on_exit = self._on_exit, []
            self._wake()
        for callback in callbacks:
            post(callback, exit)

    def release(self) -> None:
        """The handle is closed: drop callbacks and wake waiters, without an exit."""
        with self._lock:
            self._closed = True
            self._on_exit = []
            self._on_event = []
            self.native = None  # breaks the reference cycle
            self._wake()
        with _lock:
            _table.pop(self.number, None)


_lock = allocate_lock()
_table: dict[int, Subscription] = {}
_next = 0
_dispatching = False
# SimpleQueue.put() is reentrant: a callback may run while this thread is inside put().
_queue: SimpleQueue[tuple[Any, ...]] = SimpleQueue()


def _on_native_event(event: Any, context: Any) -> None:
    data = event.EventData
    copy = ffi.string(data) if data != ffi.NULL else ""
    _queue.put((_route, int(ffi.cast("uintptr_t", context)), event.Type & 0xFFFFFFFF, copy))


def _never_raise(kind: object, value: object, trace: object) -> None:
    """Replaces cffi's traceback. The callback can fail only during interpreter shutdown."""


native_callback = ffi.callback("HCS_EVENT_CALLBACK", _on_native_event, onerror=_never_raise)


def register(subscription: Subscription) -> Any:
    """Add it to the table; returns its callback context. The first registration starts the dispatcher."""
    global _next, _dispatching
    with _lock:
        _next += 1
        subscription.number = _next
        _table[_next] = subscription
        if not _dispatching:
            import atexit

            run_soon(_dispatch, native_callback)
            atexit.register(_at_exit)
            _dispatching = True
    return ffi.cast("void *", subscription.number)


def post(function: Callable[..., object], *arguments: object) -> None:
    """Run the function on the dispatcher's thread."""
    _queue.put((function, *arguments))


def _route(number: int, type: int, data: str) -> None:
    if observers.event is not None:
        observers.event(number, type, data)
    with _lock:
        subscription = _table.get(number)
    if subscription is not None:
        subscription.deliver(type, data)


def _run(function: Callable[..., object], *arguments: object) -> None:
    try:
        function(*arguments)
    except Exception:
        import sys

        sys.excepthook(*sys.exc_info())


def _dispatch(callback: object) -> None:
    """Run what is queued, until the process exits. The argument keeps `callback` alive as long as the thread."""
    while True:
        item = _queue.get()
        _run(*item)
        del item


def _at_exit() -> None:
    """Close all handles. One with a call in flight stays open; its callbacks still find the callback object."""
    with _lock:
        subscriptions = list(_table.values())
    for subscription in subscriptions:
        native = subscription.native
        if native is not None:
            native.close()

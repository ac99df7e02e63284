"""One debug line for each RPC, written when the call ends. Imported at debug level, or when a call has failed.

    level=debug msg=rpc code=OK duration=1.204ms eid=e1 method=Start service=containerd.task.v2.Task tid=web

A call ends with its answer, or, when its handler defers it (Wait), when it is answered or cancelled later.
"""

from __future__ import annotations

from time import perf_counter_ns

from shim.api.wire import DecodeError, read_string_entry
from shim.ttrpc import status
from shim.ttrpc.status import StatusError, status_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from shim.logs import Log
    from shim.ttrpc.server import Call

# Requests whose field 2 is an exec id. Field 1 is the id of a task or sandbox in all requests but the diagnostic ones.
_WITH_EXEC_ID = frozenset(("State", "Start", "Delete", "Exec", "ResizePty", "Kill", "CloseIO", "Wait"))
_WITHOUT_ID = frozenset(("DiagExecInHost", "DiagStacks", "DiagTasks", "DiagShare", "DiagPid", "Shim", "Record"))


def request_ids(method: str, payload: bytes) -> dict[str, object]:
    """The log fields `tid` and `eid` of a request."""
    if method in _WITHOUT_ID:
        return {}
    try:
        task_id, exec_id = read_string_entry(payload, 0, len(payload))
    except DecodeError:
        return {}
    return {"tid": task_id, "eid": exec_id} if method in _WITH_EXEC_ID and exec_id else {"tid": task_id}


def log_calls(method: str, handler: Callable[[Call], bytes], log: Log) -> Callable[[Call], bytes]:
    """The handler, with a debug line for each call."""

    def run(call: Call) -> bytes:
        logged = _LoggedCall(call, method, log)
        try:
            response = handler(logged)  # type: ignore[arg-type]
        except StatusError as error:
            logged.ended(error.code)
            raise
        if not logged.is_deferred:
            logged.ended(status.OK)
        return response

    return run


class _LoggedCall:
    """A `Call` that logs its end. Everything else is the call's own."""

    __slots__ = ("_begin", "_call", "_is_logged", "_log", "_method", "is_deferred")

    def __init__(self, call: Call, method: str, log: Log) -> None:
        self._begin = perf_counter_ns()
        self._call = call
        self._method = method
        self._log = log
        self._is_logged = False
        self.is_deferred = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._call, name)

    def defer(self, cancelled: Callable[[], None] | None = None) -> bytes:
        self.is_deferred = True

        def on_cancel() -> None:
            self.ended(status.CANCELLED)
            if cancelled is not None:
                cancelled()

        return self._call.defer(on_cancel)

    def reply(self, payload: bytes) -> bool:
        sent = self._call.reply(payload)
        self.ended(status.OK if sent else status.CANCELLED)
        return sent

    def fail(self, error: BaseException) -> bool:
        sent = self._call.fail(error)
        self.ended(status_of(error)[0])
        return sent

    def ended(self, code: int) -> None:
        if self._is_logged:
            return
        self._is_logged = True
        duration = (perf_counter_ns() - self._begin) / 1e6
        self._log.debug(
            "rpc",
            service=self._call.service,
            method=self._method,
            duration=f"{duration:.3f}ms",
            code=status.NAMES[code],
            **request_ids(self._method, self._call.payload),
        )

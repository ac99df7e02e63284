"""One tracked call of computecore, from submission to its result.

A call that returns S_OK has only been *accepted*; how it went is the operation's result. There are three ways to
treat one:

    run               submit, wait, return the result document
    run_for_process   the same for calls that answer with a process id and stdio handles
    submit            submit and let go: the service finishes the request and drops the result. For stopping a
                      system, whose end is seen by its exit event, and which must not block on a guest that will not die

An operation is closed and a document freed on every path. A wait that times out cancels, for what it is worth
(Windows documents that cancelling does nothing): the request goes on, and the caller hears OPERATION_TIMEOUT. A
thread is never left behind inside a call.
"""

from __future__ import annotations

from shim.hcs_bindings import errors
from shim.hcs_bindings._hcs_cffi import ffi
from shim.hcs_bindings.library import computecore
from shim.hcs_bindings.strings import NULL, out, take_local

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Submit = Callable[[Any], int]

INFINITE = 0xFFFFFFFF
GENERIC_ALL = 0x10000000


def milliseconds(timeout: float | None) -> int:
    """A caller's patience in seconds as HCS counts it. None is forever; what is already past is 0."""
    if timeout is None:
        return INFINITE
    if timeout <= 0:
        return 0
    return min(int(timeout * 1000) + 1, INFINITE - 1)


def _create(name: str) -> Any:
    operation = computecore.HcsCreateOperation(NULL, NULL)
    if operation == NULL:  # the only function here whose failure is no HRESULT
        raise errors.HcsError(errors.OUT_OF_MEMORY, name, detail="HcsCreateOperation gave no operation")
    return operation


def _refused(operation: Any, code: int, name: str) -> errors.HcsError:
    """The error of a call that was not even accepted; a document may exist all the same."""
    place = out()
    computecore.HcsGetOperationResult(operation, place)
    return errors.from_document(code, name, take_local(place))


def run(name: str, call: Submit, timeout: float | None = None) -> str:
    """Submit, wait, and return the result document ("" if there is none)."""
    wait = computecore.HcsWaitForOperationResult
    return _run(name, call, lambda operation, document: wait(operation, milliseconds(timeout), document))


def run_for_process(name: str, call: Submit, timeout: float | None = None) -> ProcessInfo:
    """Submit, wait, and return the process's id and stdio handles, which are the caller's from then on."""
    info = ffi.new("HCS_PROCESS_INFORMATION *")
    wait = computecore.HcsWaitForOperationResultAndProcessInfo
    _run(name, call, lambda operation, document: wait(operation, milliseconds(timeout), info, document))
    return ProcessInfo(info)


def _run(name: str, call: Submit, wait: Callable[[Any, Any], int]) -> str:
    operation = _create(name)
    try:
        code = call(operation)
        if code < 0:
            raise _refused(operation, code, name)
        place = out()
        code = wait(operation, place)
        document = take_local(place)
        if code < 0:
            _cancel_if_late(operation, code)
            raise errors.from_document(code, name, document)
        return document
    finally:
        computecore.HcsCloseOperation(operation)


def submit(name: str, call: Submit) -> None:
    """Submit and let go. Closing an operation in flight does not cancel the request."""
    operation = _create(name)
    try:
        code = call(operation)
        if code < 0:
            raise _refused(operation, code, name)
    finally:
        computecore.HcsCloseOperation(operation)


def _cancel_if_late(operation: Any, code: int) -> None:
    if errors.normalise(code) == errors.OPERATION_TIMEOUT:
        computecore.HcsCancelOperation(operation)


class ProcessInfo:
    """HCS_PROCESS_INFORMATION: a process id, and the ends of those pipes that were asked for."""

    __slots__ = ("pid", "stderr", "stdin", "stdout")

    def __init__(self, info: Any) -> None:
        self.pid = int(info.ProcessId)
        self.stdin = _pipe(info.StdInput)
        self.stdout = _pipe(info.StdOutput)
        self.stderr = _pipe(info.StdError)

    def close(self) -> None:
        """Close the stdio handles: for a caller that cannot pass them on."""
        from shim.platform.hcs_library import close_handle

        for name in ("stdin", "stdout", "stderr"):
            handle = getattr(self, name)
            if handle is not None:
                setattr(self, name, None)
                close_handle(handle)


def _pipe(handle: Any) -> int | None:
    """The handle as a number; both NULL and INVALID_HANDLE_VALUE mean that there is no pipe."""
    number = int(ffi.cast("intptr_t", handle))
    return None if number in (0, -1) else number

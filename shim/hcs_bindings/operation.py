"""One HCS operation (HCS_OPERATION), from submission to its result.

A call that returns S_OK has only been *accepted*; the operation's result tells whether it succeeded. There are three
ways to run one:

    run               submit, wait, return the result document
    run_for_process   the same for calls that return a process id and stdio handles
    submit            submit without waiting: the service completes the request and drops the result. For stopping a
                      system: its exit event reports the end, and the call must not block on a guest that hangs

An operation is closed and a document freed on every path. A wait that times out calls HcsCancelOperation, which is
documented to do nothing (https://learn.microsoft.com/en-us/virtualization/api/hcs/reference/hcscanceloperation): the
request continues, and the caller gets OPERATION_TIMEOUT. No thread stays behind in a call.
"""

from __future__ import annotations

from shim import spans
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
    """A timeout in seconds as HCS takes it: None is INFINITE, a negative one 0."""
    if timeout is None:
        return INFINITE
    if timeout <= 0:
        return 0
    return min(int(timeout * 1000) + 1, INFINITE - 1)


def _create(name: str) -> Any:
    operation = computecore.HcsCreateOperation(NULL, NULL)
    if operation == NULL:  # the only function here that returns no HRESULT
        raise errors.HcsError(errors.OUT_OF_MEMORY, name, detail="HcsCreateOperation returned no operation")
    return operation


def _refused(operation: Any, code: int, name: str) -> errors.HcsError:
    """The error of a call that was not accepted; it may still have a result document."""
    place = out()
    computecore.HcsGetOperationResult(operation, place)
    return errors.from_document(code, name, take_local(place))


def run(name: str, call: Submit, timeout: float | None = None) -> str:
    """Submit, wait, and return the result document ("" if there is none)."""
    wait = computecore.HcsWaitForOperationResult
    with spans.operation(name):
        return _run(name, call, lambda operation, document: wait(operation, milliseconds(timeout), document))


def run_for_process(name: str, call: Submit, timeout: float | None = None) -> ProcessInfo:
    """Submit, wait, and return the process's id and stdio handles, which the caller then owns."""
    info = ffi.new("HCS_PROCESS_INFORMATION *")
    wait = computecore.HcsWaitForOperationResultAndProcessInfo
    with spans.operation(name):
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
    """Submit without waiting. Closing an operation in flight does not cancel the request."""
    with spans.operation(name):
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
    """HCS_PROCESS_INFORMATION: the process id, and our ends of the requested pipes."""

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
    """The handle as a number; None for NULL and INVALID_HANDLE_VALUE."""
    number = int(ffi.cast("intptr_t", handle))
    return None if number in (0, -1) else number

"""The error type of the bindings, and predicates for it.

A failure of HCS has two codes: computecore returns 0x8037xxxx, vmcompute and the service in a guest return 0xC037xxxx
for the same condition. `code` keeps what was returned; every comparison goes through `normalise`, which maps both to
one. The catalogue has the name of a code, its usual cause and the next step; it is imported only when they are shown.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from shim.hcs_bindings.catalogue import Entry

# The codes that the bindings use. All others are in the catalogue only.
OPERATION_PENDING_V1 = 0xC0370103
INVALID_STATE = 0x80370105
UNEXPECTED_EXIT = 0xC0370106
UNKNOWN_MESSAGE = 0x8037010B
INVALID_JSON = 0x8037010D
SYSTEM_NOT_FOUND = 0x8037010E
SYSTEM_ALREADY_EXISTS = 0x8037010F
SYSTEM_ALREADY_STOPPED = 0x80370110
OPERATION_PENDING = 0x80370117
OPERATION_TIMEOUT = 0x80370118
SERVICE_DISCONNECT = 0x8037011E
PROCESS_ALREADY_STOPPED = 0x8037011F
UNEXPECTED = 0x8000FFFF
ACCESS_DENIED = 0x80070005
INVALID_HANDLE = 0x80070006
INVALID_DATA = 0x8007000D
OUT_OF_MEMORY = 0x8007000E
NOT_READY = 0x80070015
NOT_SUPPORTED = 0x80070032
INVALID_ARGUMENT = 0x80070057
MODULE_NOT_FOUND = 0x8007007E
PROCEDURE_NOT_FOUND = 0x8007007F
NOT_FOUND = 0x80070490
STATUS_INVALID_PARAMETER = 0xC000000D
HCN_NETWORK_NOT_FOUND = 0x803B0001
HCN_ENDPOINT_NOT_FOUND = 0x803B0002


def normalise(code: int) -> int:
    """The code of a condition, unsigned, as computecore returns it."""
    code &= 0xFFFFFFFF
    if code & 0x0FFF0000 == 0x00370000:
        return 0x80370000 | code & 0xFFFF
    if code & 0x1FFF0000 == 0x00070000:
        return 0x80070000 | code & 0xFFFF
    return code


class HcsError(Exception):
    """A call of HCS, HCN or the layer functions that failed.

    `code` is the HRESULT as returned, unsigned; `operation` names the call and its object (`hcs::System::Start
    web1`); `events` are the error events of the result document, as dicts (`Message`, `Source`, `EventId`, `Data` …).
    """

    def __init__(self, code: int, operation: str, events: Sequence[dict[str, Any]] = (), detail: str = "") -> None:
        super().__init__(code, operation)
        self.code = code & 0xFFFFFFFF
        self.operation = operation
        self.events = list(events)
        self.detail = detail

    @property
    def _entry(self) -> Entry:
        from shim.hcs_bindings.catalogue import lookup

        return lookup(self.code)

    @property
    def name(self) -> str:
        return self._entry.name

    @property
    def cause(self) -> str:
        return self._entry.cause

    @property
    def next_step(self) -> str:
        return self._entry.next_step

    @property
    def messages(self) -> list[str]:
        """The messages of HCS: of the error events, or else of the result document."""
        messages = [str(event["Message"]).strip() for event in self.events if event.get("Message")]
        if self.detail and not messages:
            messages.append(self.detail)
        return messages

    def __str__(self) -> str:
        entry = self._entry
        text = f"{self.operation}: {entry.message} (0x{self.code:08X} {entry.name})"
        if messages := self.messages:
            text += ": " + "; ".join(messages)
        return f"{text}; {entry.next_step}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}(0x{self.code:08X}, {self.operation!r})"


class AlreadyClosed(HcsError):  # noqa: N818
    """This process has closed the handle. The system or process may still run."""

    def __init__(self, operation: str) -> None:
        super().__init__(INVALID_HANDLE, operation, detail="the handle was closed by this process")


class ErrorContext:
    """`with ErrorContext("mounting it"):` prefixes the operation of an HcsError."""

    __slots__ = ("_what",)

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, HcsError):
            error.operation = f"{self._what}: {error.operation}"


def from_document(code: int, operation: str, document: str) -> HcsError:
    """The error of a failed call, with the content of its result document (ResultError), if that can be parsed."""
    events: list[dict[str, Any]] = []
    detail = ""
    if document:
        from shim.lean_json import loads

        try:
            result = loads(document)
        except ValueError:
            result = {"ErrorMessage": document[:500]}
        if isinstance(result, dict):
            found = result.get("ErrorEvents")
            if isinstance(found, list):
                events = [event for event in found if isinstance(event, dict)]
            detail = str(result.get("ErrorMessage") or "")
    return HcsError(code, operation, events, detail)


def _is(error: BaseException, *codes: int) -> bool:
    return isinstance(error, HcsError) and normalise(error.code) in codes


def is_not_exist(error: BaseException) -> bool:
    return _is(error, SYSTEM_NOT_FOUND, NOT_FOUND)


def is_network_object_missing(error: BaseException) -> bool:
    """HCN knows no such network, endpoint or namespace."""
    return _is(error, NOT_FOUND, HCN_NETWORK_NOT_FOUND, HCN_ENDPOINT_NOT_FOUND)


def is_already_exists(error: BaseException) -> bool:
    return _is(error, SYSTEM_ALREADY_EXISTS)


def is_already_stopped(error: BaseException) -> bool:
    return _is(error, SYSTEM_ALREADY_STOPPED, PROCESS_ALREADY_STOPPED, NOT_FOUND)


def is_already_closed(error: BaseException) -> bool:
    return isinstance(error, AlreadyClosed)


def is_invalid_state(error: BaseException) -> bool:
    return _is(error, INVALID_STATE)


def is_access_denied(error: BaseException) -> bool:
    return _is(error, ACCESS_DENIED)


def is_invalid_handle(error: BaseException) -> bool:
    return _is(error, INVALID_HANDLE)


def is_not_supported(error: BaseException) -> bool:
    return _is(error, INVALID_JSON, INVALID_DATA, NOT_SUPPORTED, UNKNOWN_MESSAGE)


def is_timeout(error: BaseException) -> bool:
    return isinstance(error, TimeoutError) or _is(error, OPERATION_TIMEOUT)


def is_pending(error: BaseException) -> bool:
    return _is(error, normalise(OPERATION_PENDING_V1), OPERATION_PENDING)


def is_service_lost(error: BaseException) -> bool:
    """The compute service died or was restarted: every handle of this process is invalid."""
    return _is(error, SERVICE_DISCONNECT, 0x800706BA, 0x800706BE, 0x800706EF)


def stats_not_found(error: BaseException) -> bool:
    """The system is stopped or stopping: it has no statistics, and that is no failure."""
    return is_not_exist(error) or is_invalid_state(error) or is_access_denied(error) or is_invalid_handle(error)


def vm_not_available(error: BaseException) -> bool:
    return is_not_exist(error) or is_already_stopped(error) or is_already_closed(error) or is_invalid_state(error)


def is_stopped_or_stopping(error: BaseException) -> bool:
    """Shutdown or terminate found the system stopped, removed or stopping."""
    return _is(error, SYSTEM_ALREADY_STOPPED, SYSTEM_NOT_FOUND, normalise(OPERATION_PENDING_V1))


def is_process_exited(error: BaseException) -> bool:
    """A signal or terminate found that the process, or its system, has exited."""
    return is_invalid_state(error) or is_not_exist(error) or is_already_stopped(error)

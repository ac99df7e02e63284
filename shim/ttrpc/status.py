"""gRPC status codes, and the exception that carries one."""

from __future__ import annotations

OK = 0
CANCELLED = 1
UNKNOWN = 2
INVALID_ARGUMENT = 3
DEADLINE_EXCEEDED = 4
NOT_FOUND = 5
ALREADY_EXISTS = 6
PERMISSION_DENIED = 7
RESOURCE_EXHAUSTED = 8
FAILED_PRECONDITION = 9
ABORTED = 10
OUT_OF_RANGE = 11
UNIMPLEMENTED = 12
INTERNAL = 13
UNAVAILABLE = 14
DATA_LOSS = 15
UNAUTHENTICATED = 16

NAMES = (
    "OK", "Canceled", "Unknown", "InvalidArgument", "DeadlineExceeded", "NotFound", "AlreadyExists", "PermissionDenied",
    "ResourceExhausted", "FailedPrecondition", "Aborted", "OutOfRange", "Unimplemented", "Internal", "Unavailable",
    "DataLoss", "Unauthenticated",
)  # fmt: skip


class StatusError(Exception):
    """The status of a failed call. Any other exception of a handler becomes UNKNOWN."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message

    @property
    def name(self) -> str:
        return NAMES[self.code] if 0 <= self.code < len(NAMES) else f"code {self.code}"

    def __str__(self) -> str:
        return f"{self.name}: {self.message}"


class ClosedError(Exception):
    """The connection was closed before the response; whether the call was executed is unknown."""

    def __init__(self, message: str = "ttrpc: closed") -> None:
        super().__init__(message)


def status_of(error: BaseException) -> tuple[int, str]:
    """The code and one line of text that a client gets for an exception."""
    if isinstance(error, StatusError):
        return error.code, error.message
    if isinstance(error, TimeoutError):
        return DEADLINE_EXCEEDED, one_line(error)
    return UNKNOWN, one_line(error)


def one_line(error: BaseException) -> str:
    """What an error says, without anything that a terminal or a log would take for a command."""
    text = " ".join(str(error).split())[:1000]
    if not text.isprintable():
        text = "".join(char if char.isprintable() else f"\\u{ord(char):04x}" for char in text)[:1000]
    return text if text else type(error).__name__

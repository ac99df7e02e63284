"""Errors of jobs as HcsError, which is what callers handle."""

from __future__ import annotations

from shim.hcs_bindings.errors import SYSTEM_ALREADY_EXISTS, HcsError
from shim.platform.job_types import ALREADY_EXISTS, JobError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType

_WIN32 = 0x80070000


class as_hcs_error:  # noqa: N801 - used like a function: with as_hcs_error("start of c1")
    """Within it, a JobError becomes an HcsError that names the operation."""

    __slots__ = ("_operation",)

    def __init__(self, operation: str) -> None:
        self._operation = f"job::{operation}"

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, JobError):
            code = SYSTEM_ALREADY_EXISTS if error.code == ALREADY_EXISTS else _WIN32 | error.code
            raise HcsError(code, self._operation, detail=error.message) from error

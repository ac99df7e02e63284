"""The DLLs for jobs, loaded with their first call, and their errors."""

from __future__ import annotations

from shim.platform.hcs_library import system_library
from shim.platform.job_types import JobError
from shim.platform.windows import _jobs_cffi

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

ffi: Any = _jobs_cffi.ffi
_loaded: dict[str, Any] = {}
_MODULE_NOT_FOUND = 126


def library(name: str) -> Any:
    if name not in _loaded:
        path = system_library(name)
        try:
            _loaded[name] = ffi.dlopen(path)
        except OSError as error:
            raise JobError(_MODULE_NOT_FOUND, f"{path} cannot be loaded: {error}") from error
    return _loaded[name]


def failure(doing: str) -> JobError:
    """The error of the call that has just failed in this thread."""
    code, message = ffi.getwinerror()
    return JobError(code, f"{doing}: {message.strip()}")


def check(result: Any, doing: str) -> None:
    if not result:
        raise failure(doing)


def handle(number: int) -> Any:
    return ffi.cast("void *", number)


def number(raw: Any) -> int:
    return int(ffi.cast("uintptr_t", raw))


def close(raw: int) -> None:
    import _winapi

    if raw:
        _winapi.CloseHandle(raw)

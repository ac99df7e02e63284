"""Child processes that end with this process, however it ends: a job whose only handle this process has."""

from __future__ import annotations

from shim.platform.windows.job import EXTENDED_LIMITS, LIMIT_KILL_ON_CLOSE
from shim.platform.windows.job_library import check, ffi, handle, library

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Open until this process exits.
_jobs: list[Any] = []


def adopt(process: int) -> None:
    """`process` is the handle of a child. Raises JobError."""
    kernel32 = library("kernel32")
    job = kernel32.CreateJobObjectW(ffi.NULL, ffi.NULL)
    check(job, "a job for a child process cannot be created")
    _jobs.append(job)
    limits = ffi.new("EXTENDED_LIMITS *")
    limits.Basic.LimitFlags = LIMIT_KILL_ON_CLOSE
    size = ffi.sizeof("EXTENDED_LIMITS")
    check(kernel32.SetInformationJobObject(job, EXTENDED_LIMITS, limits, size), "the job's limits cannot be set")
    check(kernel32.AssignProcessToJobObject(job, handle(process)), "a child process cannot be added to its job")

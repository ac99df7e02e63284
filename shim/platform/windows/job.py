r"""A job object, `Global\JobContainer_<id>`: limits, statistics and termination of host processes
(https://learn.microsoft.com/en-us/windows/win32/procthread/job-objects).

Only this process has a handle of it, and it is terminated with its last handle: a killed shim leaves no process. If
there is a bind filter, the job is promoted to a silo, in which files can be bound at other paths. A completion port
reports when a process hits the memory limit.
"""

from __future__ import annotations

import os
import time
from _thread import start_new_thread

from shim.platform.hcs_library import system_library
from shim.platform.job_types import ALREADY_EXISTS, JobError
from shim.platform.windows import job_process, job_stats, job_users
from shim.platform.windows.job_library import check, close, failure, ffi, handle, library, number
from shim.platform.windows.security import administrators_only

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from shim.platform.job_types import Identity, Launch, Limits

    Document = dict[str, Any]

# JOBOBJECTINFOCLASS.
_COMPLETION_PORT, _EXTENDED_LIMITS, _GROUP_MASKS, _CPU_RATE, _CREATE_SILO = 7, 9, 14, 15, 35
_LIMIT_JOB_MEMORY, _LIMIT_KILL_ON_CLOSE = 0x200, 0x2000
_RATE_ENABLE, _RATE_BY_WEIGHT, _RATE_HARD_CAP = 1, 2, 4
_IO_RATE_ENABLE = 1
_PROCESS_MEMORY_LIMIT, _JOB_MEMORY_LIMIT = 9, 10
_READ_ONLY_MAPPING, _SILO_MAPPING = 1, 4
_INVALID_HANDLE = 0xFFFFFFFFFFFFFFFF
_INFINITE = 0xFFFFFFFF
_FORCED = 1
_POLL_SECONDS = 0.02
# Completion keys: of the job's messages, and of the one that ends the reading thread.
_ABOUT_JOB, _END = 1, 2


class Job:
    def __init__(self, id: str) -> None:
        self.memory_breached = False
        self.unenforced: list[str] = []
        self._started_at = time.time()
        self._token = 0
        self._port = 0
        kernel32 = library("kernel32")
        # Our own process group ignores Ctrl-C, which children would inherit.
        kernel32.SetConsoleCtrlHandler(ffi.NULL, 0)
        name = f"Global\\JobContainer_{id}"
        self._job = kernel32.CreateJobObjectW(handle(administrators_only()), name)
        check(self._job, f"the job {name} cannot be created")
        if ffi.getwinerror()[0] == ALREADY_EXISTS:
            close(number(self._job))
            raise JobError(ALREADY_EXISTS, f"there is a job {name} already")
        try:
            self._set_memory(0)
            self.can_bind = self._become_silo()
            self._listen()
        except BaseException:
            self.close()
            raise

    def _set(self, kind: int, information: Any, doing: str) -> None:
        size = 0 if information == ffi.NULL else ffi.sizeof(ffi.typeof(information).item)
        check(library("kernel32").SetInformationJobObject(self._job, kind, information, size), doing)

    def _become_silo(self) -> bool:
        """False if Windows has no bind filter, or is Wine."""
        if not os.path.exists(system_library("bindfltapi")):
            return False
        return bool(library("kernel32").SetInformationJobObject(self._job, _CREATE_SILO, ffi.NULL, 0))

    def _listen(self) -> None:
        port = library("kernel32").CreateIoCompletionPort(handle(_INVALID_HANDLE), ffi.NULL, 0, 1)
        check(port, "no completion port for a job")
        self._port = number(port)
        settings = ffi.new("COMPLETION_PORT *", {"Key": handle(_ABOUT_JOB), "Port": port})
        self._set(_COMPLETION_PORT, settings, "the job's completion port cannot be set")
        start_new_thread(self._read_messages, (port,))

    def _read_messages(self, port: Any) -> None:
        kernel32 = library("kernel32")
        message, key, about = ffi.new("uint32_t *"), ffi.new("uintptr_t *"), ffi.new("void **")
        while kernel32.GetQueuedCompletionStatus(port, message, key, about, _INFINITE) and key[0] != _END:
            if message[0] in (_PROCESS_MEMORY_LIMIT, _JOB_MEMORY_LIMIT):
                self.memory_breached = True
        close(number(port))

    # Files, limits, identity.

    def bind(self, source: str, target: str, read_only: bool) -> None:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        flags = _SILO_MAPPING | (_READ_ONLY_MAPPING if read_only else 0)
        code = library("bindfltapi").BfSetupFilter(self._job, flags, target, source, ffi.NULL, 0)
        if code < 0:
            result = f"the bind filter returns 0x{code & 0xFFFFFFFF:08X}"
            raise JobError(code & 0xFFFF, f"{source} cannot be bound at {target}: {result}")

    def set_limits(self, limits: Limits) -> None:
        self._set_memory(limits.memory)
        flags = value = 0
        if limits.rate:
            flags, value = _RATE_ENABLE | _RATE_HARD_CAP, limits.rate
        elif limits.weight:
            flags, value = _RATE_ENABLE | _RATE_BY_WEIGHT, limits.weight
        if flags or self._has_rate:
            rate = ffi.new("CPU_RATE *", {"Flags": flags, "Value": value})
            self._set(_CPU_RATE, rate, "the job's share of the processors cannot be set")
        self._has_rate = bool(flags)
        if limits.iops or limits.bandwidth:
            limit = {"MaxIops": limits.iops, "MaxBandwidth": limits.bandwidth, "Flags": _IO_RATE_ENABLE}
            result = library("kernel32").SetIoRateControlInformationJobObject(self._job, ffi.new("IO_RATE *", limit))
            check(result, "the job's input and output cannot be limited")

    _has_rate = False

    def _set_memory(self, limit: int) -> None:
        """Set the memory limit and kill-on-close, which are in one structure."""
        limits = ffi.new("EXTENDED_LIMITS *")
        limits.Basic.LimitFlags = _LIMIT_KILL_ON_CLOSE | (_LIMIT_JOB_MEMORY if limit else 0)
        limits.JobMemory = limit
        self._set(_EXTENDED_LIMITS, limits, "the job's limits cannot be set")

    def set_affinity(self, processors: Sequence[tuple[int, int]]) -> None:
        masks = ffi.new("GROUP_MASK[]", [{"Mask": mask, "Group": group} for mask, group in processors])
        size = ffi.sizeof(masks)
        result = library("kernel32").SetInformationJobObject(self._job, _GROUP_MASKS, masks, size)
        check(result, "the job's processors cannot be set")

    def log_on(self, identity: Identity) -> None:
        self._token = job_users.log_on(identity)

    def environment(self) -> dict[str, str]:
        if self._token:
            return job_users.environment(self._token)
        token = job_users.own_token()
        try:
            return job_users.environment(token)
        finally:
            close(token)

    # Processes.

    def spawn(self, launch: Launch) -> job_process.JobProcess:
        return job_process.spawn(self._job, self._token, launch, self._signal_tree)

    def _signal_tree(self, pid: int, event: str) -> bool:
        """Signal a process and its descendants: processes that share a console all get its events."""
        pids = [pid]
        for entry in self.process_list():
            if entry["ParentId"] in pids and entry["ProcessId"] not in pids:
                pids.append(entry["ProcessId"])
        sent = [job_process.send_event(one, event) for one in pids]
        return sent[0]

    def statistics(self) -> Document:
        return job_stats.statistics(self._job, self._started_at)

    def process_list(self) -> list[Document]:
        return job_stats.process_list(self._job)

    # Termination.

    def signal_all(self, event: str) -> int:
        members = job_stats.pids(self._job)
        for pid in members:
            try:
                job_process.send_event(pid, event)
            except JobError:
                pass  # it will be terminated
        return len(members)

    def wait_empty(self, timeout: float) -> bool:
        end = time.monotonic() + timeout
        while job_stats.pids(self._job):
            if time.monotonic() > end:
                return False
            time.sleep(_POLL_SECONDS)
        return True

    def terminate(self) -> None:
        if not library("kernel32").TerminateJobObject(self._job, _FORCED):
            raise failure("the job cannot be terminated")
        self.wait_empty(5.0)

    def on_lost(self, callback: Callable[[], object]) -> None:
        """Never called: only this process has a handle of the job."""

    def close(self) -> None:
        job, self._job = number(self._job), ffi.NULL
        close(job)
        token, self._token = self._token, 0
        close(token)
        port, self._port = self._port, 0
        if port:
            library("kernel32").PostQueuedCompletionStatus(handle(port), 0, _END, ffi.NULL)

r"""A job object, `Global\JobContainer_<id>`: limits, statistics and termination of host processes
(https://learn.microsoft.com/en-us/windows/win32/procthread/job-objects).

Only this process has a handle of it, and it is terminated with its last handle: a killed shim leaves no process. If
there is a bind filter, the job is promoted to a silo, in which files can be bound at other paths. A completion port
reports when a process hits the memory limit.
"""

from __future__ import annotations

import os
import time
from _thread import allocate_lock

from shim.platform import host
from shim.platform.hcs_library import system_library
from shim.platform.job_types import ALREADY_EXISTS, INVALID_HANDLE, JobError
from shim.platform.windows import job_process, job_stats, job_users
from shim.platform.windows.job_library import check, close, ffi, handle, library, number
from shim.platform.windows.security import administrators_only
from shim.threads import run_soon

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, TypeVar

    from shim.platform.job_types import Identity, Launch, Limits

    Document = dict[str, Any]
    Result = TypeVar("Result")

# JOBOBJECTINFOCLASS.
_COMPLETION_PORT, EXTENDED_LIMITS, _GROUP_MASKS, _CPU_RATE, _CREATE_SILO = 7, 9, 14, 15, 35
_LIMIT_JOB_MEMORY, LIMIT_KILL_ON_CLOSE = 0x200, 0x2000
_RATE_ENABLE, _RATE_BY_WEIGHT, _RATE_HARD_CAP = 1, 2, 4
_IO_RATE_ENABLE = 1
_PROCESS_MEMORY_LIMIT, _JOB_MEMORY_LIMIT = 9, 10
_READ_ONLY_MAPPING, _SILO_MAPPING = 1, 4
_E_NOTIMPL = 0x80004001 - (1 << 32)
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
        self._lock = allocate_lock()
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
            self._enable_io_attribution()
            self.can_bind = self._become_silo()
            self._listen()
        except BaseException:
            self.close()
            raise

    def _with_job(self, use: Callable[[Any], Result]) -> Result:
        """Use the job's handle while it is open. For job functions NULL is the job of the calling process: after
        `close` they would act on the shim itself, and on containerd."""
        with self._lock:
            if self._job == ffi.NULL:
                raise JobError(INVALID_HANDLE, "the job is closed")
            return use(self._job)

    def _set(self, kind: int, information: Any, doing: str) -> None:
        size = 0 if information == ffi.NULL else ffi.sizeof(ffi.typeof(information).item)
        set_information = library("kernel32").SetInformationJobObject
        self._with_job(lambda job: check(set_information(job, kind, information, size), doing))

    def _enable_io_attribution(self) -> None:
        """Let Windows count what the disks do for the job. Without it, statistics have the counters of processes."""
        settings = ffi.new("IO_ATTRIBUTION *", {"ControlFlags": job_stats.IO_ATTRIBUTION_ENABLE})
        try:
            self._set(job_stats.IO_ATTRIBUTION, settings, "I/O cannot be attributed to the job")
        except JobError:
            pass

    def _become_silo(self) -> bool:
        """False if there is no bind filter. A silo that cannot be created is an error: without it the container's files
        would be visible to all processes, and its read-only mounts writable."""
        if not os.path.exists(system_library("bindfltapi")):
            return False
        try:
            self._set(_CREATE_SILO, ffi.NULL, "the job cannot be promoted to a silo")
        except JobError as error:
            if self._bind_filter_is_stub():
                return False
            raise error
        return True

    def _bind_filter_is_stub(self) -> bool:
        """Wine has no silos; a bindfltapi.dll that programs need to load there implements nothing."""
        setup = library("bindfltapi").BfSetupFilter
        return bool(self._with_job(lambda job: setup(job, _SILO_MAPPING, "", "", ffi.NULL, 0)) == _E_NOTIMPL)

    def _listen(self) -> None:
        port = library("kernel32").CreateIoCompletionPort(handle(_INVALID_HANDLE), ffi.NULL, 0, 1)
        check(port, "no completion port for a job")
        self._port = number(port)
        settings = ffi.new("COMPLETION_PORT *", {"Key": handle(_ABOUT_JOB), "Port": port})
        self._set(_COMPLETION_PORT, settings, "the job's completion port cannot be set")
        run_soon(self._read_messages, port)

    def _read_messages(self, port: Any) -> None:
        kernel32 = library("kernel32")
        message, key, about = ffi.new("uint32_t *"), ffi.new("uintptr_t *"), ffi.new("void **")
        while kernel32.GetQueuedCompletionStatus(port, message, key, about, _INFINITE) and key[0] != _END:
            if message[0] in (_PROCESS_MEMORY_LIMIT, _JOB_MEMORY_LIMIT):
                self.memory_breached = True
        close(number(port))

    # Files, limits, identity.

    def bind(self, source: str, target: str, read_only: bool) -> None:
        host.make_directories(os.path.dirname(target))
        flags = _SILO_MAPPING | (_READ_ONLY_MAPPING if read_only else 0)
        setup = library("bindfltapi").BfSetupFilter
        code = self._with_job(lambda job: setup(job, flags, target, source, ffi.NULL, 0))
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
            rate = ffi.new("IO_RATE *", limit)
            set_rate = library("kernel32").SetIoRateControlInformationJobObject
            self._with_job(lambda job: check(set_rate(job, rate), "the job's input and output cannot be limited"))

    _has_rate = False

    def _set_memory(self, limit: int) -> None:
        """Set the memory limit and kill-on-close. Other limits of the structure, such as the affinity, stay as they
        are."""
        limits = ffi.new("EXTENDED_LIMITS *")
        query, size = library("kernel32").QueryInformationJobObject, ffi.sizeof("EXTENDED_LIMITS")
        doing = "the job's limits cannot be read"
        self._with_job(lambda job: check(query(job, EXTENDED_LIMITS, limits, size, ffi.NULL), doing))
        limits.Basic.LimitFlags &= ~_LIMIT_JOB_MEMORY
        limits.Basic.LimitFlags |= LIMIT_KILL_ON_CLOSE | (_LIMIT_JOB_MEMORY if limit else 0)
        limits.JobMemory = limit
        self._set(EXTENDED_LIMITS, limits, "the job's limits cannot be set")

    def set_affinity(self, processors: Sequence[tuple[int, int]]) -> None:
        masks = ffi.new("GROUP_MASK[]", [{"Mask": mask, "Group": group} for mask, group in processors])
        size = ffi.sizeof(masks)
        set_information = library("kernel32").SetInformationJobObject
        doing = "the job's processors cannot be set"
        self._with_job(lambda job: check(set_information(job, _GROUP_MASKS, masks, size), doing))

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
        return self._with_job(lambda job: job_process.spawn(job, self._token, launch, self._signal_tree))

    def _signal_tree(self, pid: int, event: str) -> bool:
        """Signal a process and its descendants: processes that share a console all get its events."""
        pids = [pid]
        for entry in self.process_list():
            if entry["ParentId"] in pids and entry["ProcessId"] not in pids:
                pids.append(entry["ProcessId"])
        sent = [job_process.send_event(one, event) for one in pids]
        return sent[0]

    def statistics(self) -> Document:
        return self._with_job(lambda job: job_stats.statistics(job, self._started_at))

    def process_list(self) -> list[Document]:
        return self._with_job(job_stats.process_list)

    # Termination.

    def signal_all(self, event: str) -> int:
        members = self._with_job(job_stats.pids)
        for pid in members:
            try:
                job_process.send_event(pid, event)
            except JobError:
                pass  # it will be terminated
        return len(members)

    def wait_empty(self, timeout: float) -> bool:
        end = time.monotonic() + timeout
        while self._with_job(job_stats.pids):
            if time.monotonic() > end:
                return False
            time.sleep(_POLL_SECONDS)
        return True

    def terminate(self) -> None:
        terminate = library("kernel32").TerminateJobObject
        self._with_job(lambda job: check(terminate(job, _FORCED), "the job cannot be terminated"))
        self.wait_empty(5.0)

    def on_lost(self, callback: Callable[[], object]) -> None:
        """Never called: only this process has a handle of the job."""

    def close(self) -> None:
        with self._lock:
            job, self._job = number(self._job), ffi.NULL
        close(job)
        token, self._token = self._token, 0
        close(token)
        port, self._port = self._port, 0
        if port:
            library("kernel32").PostQueuedCompletionStatus(handle(port), 0, _END, ffi.NULL)

"""Processes and statistics of a job, in HCS's units (100 ns, bytes) and member names."""

from __future__ import annotations

import time

from shim.platform.windows.job_library import check, close, ffi, library, number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    Document = dict[str, Any]

_PROCESS_IDS = 3
_EXTENDED_LIMITS = 9
_BASIC_ACCOUNTING = 1
_ACCOUNTING = 8
_MEMORY_USAGE = 28
_ALL_PROCESSES = 5
_VM_COUNTERS = 3
_QUERY_LIMITED = 0x1000
#: JobObjectIoAttribution, and its flag.
IO_ATTRIBUTION, IO_ATTRIBUTION_ENABLE = 42, 1
_MORE_DATA = 234
_TOO_SMALL = 0xC0000004
# From 1601 to 1970, in 100 ns.
_EPOCH = 116_444_736_000_000_000


def pids(job: Any) -> list[int]:
    count = 64
    while True:
        ids = ffi.new("PROCESS_IDS *", {"Ids": count})
        size = ffi.sizeof("PROCESS_IDS") + count * ffi.sizeof("uintptr_t")
        if library("kernel32").QueryInformationJobObject(job, _PROCESS_IDS, ids, size, ffi.NULL):
            return [int(ids.Ids[at]) for at in range(ids.Listed)]
        if ffi.getwinerror()[0] != _MORE_DATA:
            check(0, "the processes of a job cannot be listed")
        count = max(2 * count, ids.Assigned + 16)


def statistics(job: Any, started_at: float) -> Document:
    now = time.time()
    whole = _accounting(job)
    accounting, io = whole.Basic, whole.Io
    commit, peak = _memory(job)
    private = _private_working_set(job)
    return {
        "Timestamp": timestamp(now),
        "ContainerStartTime": timestamp(started_at),
        "Uptime100ns": int((now - started_at) * 10_000_000),
        "Processor": {
            "TotalRuntime100ns": accounting.TotalUserTime + accounting.TotalKernelTime,
            "RuntimeUser100ns": accounting.TotalUserTime,
            "RuntimeKernel100ns": accounting.TotalKernelTime,
        },
        "Memory": {
            "MemoryUsageCommitBytes": commit,
            "MemoryUsageCommitPeakBytes": peak,
            "MemoryUsagePrivateWorkingSetBytes": private,
        },
        "Storage": _storage(job, io),
    }


def _storage(job: Any, counters: Any) -> Document:
    """What the disks did for the job, as HCS reports it. The counters of its processes, if Windows does not attribute
    I/O to jobs (Wine), include pipes and cached files."""
    found = ffi.new("IO_ATTRIBUTION *", {"ControlFlags": IO_ATTRIBUTION_ENABLE})
    query, size = library("kernel32").QueryInformationJobObject, ffi.sizeof("IO_ATTRIBUTION")
    if query(job, IO_ATTRIBUTION, found, size, ffi.NULL):
        read, write = (found.Read.Count, found.Read.Size), (found.Write.Count, found.Write.Size)
    else:
        read = (counters.ReadOperations, counters.ReadBytes)
        write = (counters.WriteOperations, counters.WriteBytes)
    return {
        "ReadCountNormalized": read[0],
        "ReadSizeBytes": read[1],
        "WriteCountNormalized": write[0],
        "WriteSizeBytes": write[1],
    }


def _private_working_set(job: Any) -> int:
    """Of each process by itself: HCS lists all processes of the machine for it, which takes long on a busy node."""
    total = 0
    kernel32, ntdll = library("kernel32"), library("ntdll")
    counters = ffi.new("VM_COUNTERS *")
    size = ffi.sizeof("VM_COUNTERS")
    for pid in pids(job):
        process = kernel32.OpenProcess(_QUERY_LIMITED, 0, pid)
        if not process:
            continue  # it has exited
        try:
            code = ntdll.NtQueryInformationProcess(process, _VM_COUNTERS, counters, size, ffi.NULL)
        finally:
            close(number(process))
        if code < 0:  # Wine has a shorter structure
            return sum(entry["MemoryWorkingSetPrivateBytes"] for entry in process_list(job))
        total += counters.PrivateWorkingSetSize
    return total


def _accounting(job: Any) -> Any:
    """Times, and I/O counters if available (not on Wine)."""
    query = library("kernel32").QueryInformationJobObject
    whole = ffi.new("ACCOUNTING *")
    if not query(job, _ACCOUNTING, whole, ffi.sizeof("ACCOUNTING"), ffi.NULL):
        result = query(job, _BASIC_ACCOUNTING, ffi.addressof(whole.Basic), ffi.sizeof("BASIC_ACCOUNTING"), ffi.NULL)
        check(result, "the statistics of a job cannot be read")
    return whole


def _memory(job: Any) -> tuple[int, int]:
    """Committed memory, now and peak. Older systems report only the peak."""
    kernel32 = library("kernel32")
    usage = ffi.new("MEMORY_USAGE *")
    if kernel32.QueryInformationJobObject(job, _MEMORY_USAGE, usage, ffi.sizeof("MEMORY_USAGE"), ffi.NULL):
        return usage.JobMemory, usage.PeakJobMemory
    limits = ffi.new("EXTENDED_LIMITS *")
    size = ffi.sizeof("EXTENDED_LIMITS")
    if kernel32.QueryInformationJobObject(job, _EXTENDED_LIMITS, limits, size, ffi.NULL):
        return sum(entry["MemoryCommitBytes"] for entry in process_list(job)), limits.PeakJobMemory
    return 0, 0


def process_list(job: Any) -> list[Document]:
    """One entry for each process, oldest first."""
    members = set(pids(job))
    if not members:
        return []
    entries = []
    for info in all_processes():
        pid = int(info.ProcessId)
        if pid not in members:
            continue
        name = info.ImageName
        entries.append(
            {
                "ProcessId": pid,
                "ParentId": int(info.ParentId),
                "ImageName": str(ffi.string(name.Buffer, name.Length // 2)) if name.Buffer else "",
                "CreateTimestamp": timestamp((info.CreateTime - _EPOCH) / 10_000_000),
                "UserTime100ns": info.UserTime,
                "KernelTime100ns": info.KernelTime,
                "MemoryCommitBytes": info.PrivatePageCount or info.PagefileUsage,
                "MemoryWorkingSetPrivateBytes": info.WorkingSetPrivateSize,
                "MemoryWorkingSetSharedBytes": max(0, info.WorkingSetSize - info.WorkingSetPrivateSize),
            }
        )
    return sorted(entries, key=lambda entry: str(entry["CreateTimestamp"]))


def all_processes() -> Iterator[Any]:
    """Of the machine."""
    size = 1 << 18
    while True:
        buffer = ffi.new("char[]", size)
        used = ffi.new("uint32_t *")
        code = library("ntdll").NtQuerySystemInformation(_ALL_PROCESSES, buffer, size, used)
        if code & 0xFFFFFFFF != _TOO_SMALL:
            break
        size = max(2 * size, used[0] + 65536)
    at = 0
    while code >= 0:
        entry = ffi.cast("SYSTEM_PROCESS_INFORMATION *", buffer + at)
        yield entry  # its name is in the buffer, too: the caller must not keep it
        if not entry.NextEntryOffset:
            return
        at += entry.NextEntryOffset


def timestamp(seconds: float) -> str:
    """With Windows' resolution: seven digits. "" for an invalid time, so that the other statistics are not lost."""
    try:
        return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{int(seconds % 1 * 10_000_000):07d}Z"
    except (OSError, OverflowError, ValueError):
        return ""

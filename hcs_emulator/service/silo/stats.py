"""Stats of the processes in a silo, in HCS's units (100 ns, bytes).

They come from /proc. Exited processes are included: the kernel adds what a process used to its parent when it is
reaped, and the parent of every orphan is pid 1 of the silo. A cgroup, if there is one, is more exact for memory.
"""

from __future__ import annotations

import datetime
import os
import time
from collections.abc import Iterable
from typing import Any

from hcs_emulator.service.silo.cgroup import Cgroup

_TICK_100NS = 10_000_000 // os.sysconf("SC_CLK_TCK")
_STORAGE = {"syscr": "read_count", "read_bytes": "read_bytes", "syscw": "write_count", "write_bytes": "write_bytes"}


def descendants(pid: int) -> list[int]:
    """All descendants of `pid`, parents first."""
    found: list[int] = []
    queue = [pid]
    while queue:
        parent = queue.pop()
        try:
            threads = os.listdir(f"/proc/{parent}/task")
        except OSError:
            continue
        for thread in threads:
            children = _read(f"/proc/{parent}/task/{thread}/children")
            numbers = [int(number) for number in children.split()]
            found += numbers
            queue += numbers
    return found


class ProcessUsage:
    """Processor time and storage I/O of a process and of the children that it has reaped."""

    __slots__ = ("kernel", "storage", "user")

    def __init__(self, pid: int | None) -> None:
        """None: of no process, a sum to add to."""
        self.user, self.kernel = _times(pid) if pid is not None else (0, 0)
        self.storage = _storage(pid) if pid is not None else dict.fromkeys(_STORAGE.values(), 0)

    def add(self, other: ProcessUsage) -> None:
        self.user += other.user
        self.kernel += other.kernel
        for name, value in other.storage.items():
            self.storage[name] += value


class StatsCollector:
    """Collects the stats of one silo; remembers the memory peak."""

    def __init__(self) -> None:
        self._peak = 0

    def record_peak(self, size: int) -> None:
        """Record the peak memory of a process."""
        self._peak = max(self._peak, size)

    def statistics(self, pid: int, started_at: float, cgroup: Cgroup | None) -> dict[str, Any]:
        """The Statistics property of all processes below `pid`, the silo program."""
        processes = descendants(pid)
        return self.document([ProcessUsage(process) for process in (pid, *processes)], processes, started_at, cgroup)

    def document(
        self, used: Iterable[ProcessUsage], processes: Iterable[int], started_at: float, cgroup: Cgroup | None
    ) -> dict[str, Any]:
        """The Statistics property: `used` by running and exited processes, and the memory of the running ones."""
        now = time.time()
        private = 0
        total = ProcessUsage(None)
        for one in used:
            total.add(one)
        for process in processes:
            memory = _memory(process)
            private += memory["private"]
            self.record_peak(memory["peak"])
        accounted = cgroup.memory() if cgroup is not None else None
        commit = accounted.usage if accounted is not None else private
        self.record_peak(max(commit, accounted.peak if accounted is not None else 0))
        return {
            "Timestamp": timestamp(now),
            "ContainerStartTime": timestamp(started_at),
            "Uptime100ns": int((now - started_at) * 10_000_000),
            "Processor": {
                "TotalRuntime100ns": total.user + total.kernel,
                "RuntimeUser100ns": total.user,
                "RuntimeKernel100ns": total.kernel,
            },
            "Memory": {
                "MemoryUsageCommitBytes": commit,
                "MemoryUsageCommitPeakBytes": self._peak,
                "MemoryUsagePrivateWorkingSetBytes": private,
            },
            "Storage": {
                "ReadCountNormalized": total.storage["read_count"],
                "ReadSizeBytes": total.storage["read_bytes"],
                "WriteCountNormalized": total.storage["write_count"],
                "WriteSizeBytes": total.storage["write_bytes"],
            },
        }


def process_list(pid: int) -> list[dict[str, Any]]:
    """One entry for each process of the silo except pid 1, the silo program."""
    entries = [process_entry(process) for process in descendants(pid)]
    return sorted((entry for entry in entries if entry), key=lambda entry: str(entry["CreateTimestamp"]))


def process_entry(process: int) -> dict[str, Any]:
    """An entry of HCS's ProcessList property; empty when the process has exited."""
    fields = _stat(process)
    if fields is None or fields[1] in "ZX":
        return {}
    memory = _memory(process)
    return {
        "ProcessId": process,
        "ImageName": fields[0],
        "CreateTimestamp": timestamp(time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + started(process)),
        "UserTime100ns": int(fields[2][11]) * _TICK_100NS,
        "KernelTime100ns": int(fields[2][12]) * _TICK_100NS,
        "MemoryCommitBytes": memory["private"],
        "MemoryWorkingSetPrivateBytes": memory["private"] - memory["swapped"],
        "MemoryWorkingSetSharedBytes": memory["shared"],
    }


def started(process: int) -> float:
    """The start time in seconds since boot; 0.0 when the process has exited."""
    fields = _stat(process)
    return int(fields[2][19]) * _TICK_100NS / 10_000_000 if fields is not None else 0.0


def timestamp(seconds: float) -> str:
    """An ISO 8601 time with seven digits, as Windows writes it."""
    # Not strftime: each call leaves a name in the interpreter's cache of methods.
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).isoformat(timespec="microseconds")[:26] + "0Z"


def _stat(pid: int) -> tuple[str, str, list[str]] | None:
    """Name, state, and the fields from the state on (field n of proc(5) is at n - 3)."""
    text = _read(f"/proc/{pid}/stat")
    start, end = text.find("("), text.rfind(")")
    if end < 0:
        return None
    values = text[end + 2 :].split()
    return text[start + 1 : end], values[0], values


def _times(pid: int) -> tuple[int, int]:
    """User and kernel time, including those of reaped children."""
    fields = _stat(pid)
    if fields is None:
        return 0, 0
    user, kernel, of_children_user, of_children_kernel = (int(value) for value in fields[2][11:15])
    return (user + of_children_user) * _TICK_100NS, (kernel + of_children_kernel) * _TICK_100NS


def _memory(pid: int) -> dict[str, int]:
    sizes = {"RssAnon": 0, "RssFile": 0, "RssShmem": 0, "VmSwap": 0, "VmHWM": 0}
    for line in _read(f"/proc/{pid}/status").splitlines():
        name, _, value = line.partition(":")
        if name in sizes:
            sizes[name] = int(value.split()[0]) * 1024
    return {
        "private": sizes["RssAnon"] + sizes["VmSwap"],
        "swapped": sizes["VmSwap"],
        "shared": sizes["RssFile"] + sizes["RssShmem"],
        "peak": sizes["VmHWM"],
    }


def _storage(pid: int) -> dict[str, int]:
    counters = dict.fromkeys(_STORAGE.values(), 0)
    for line in _read(f"/proc/{pid}/io").splitlines():
        name, _, value = line.partition(":")
        if name in _STORAGE:
            counters[_STORAGE[name]] = int(value)
    return counters


def _read(path: str) -> str:
    """The content of a file in /proc; empty when the process has exited. It uses no file object, which would cost more
    than the system calls: task exits wait for these stats.
    """
    data = b""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            while piece := os.read(descriptor, 1 << 16):
                data += piece
        finally:
            os.close(descriptor)
    except OSError:
        return ""
    return data.decode("utf-8", "replace")

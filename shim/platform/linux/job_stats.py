"""Statistics of a job's processes, from /proc, in HCS's units (100 ns, bytes) and member names.

Exited processes count: the kernel adds a process's times to its parent when it is reaped, and the keeper is the parent
of every orphan. Memory comes from a cgroup, if there is one.
"""

from __future__ import annotations

import os
import time

from shim.platform.linux.job_cgroups import read

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Document = dict[str, Any]

_TICK = 10_000_000 // os.sysconf("SC_CLK_TCK")
_STORAGE = {"syscr": "ReadCountNormalized", "read_bytes": "ReadSizeBytes", "syscw": "WriteCountNormalized",
            "write_bytes": "WriteSizeBytes"}  # fmt: skip


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
            numbers = [int(number) for number in read(f"/proc/{parent}/task/{thread}/children").split()]
            found += numbers
            queue += numbers
    return found


class JobStats:
    """Statistics of a job since its start; remembers the peak."""

    def __init__(self) -> None:
        self.started_at = time.time()
        self._peak = 0

    def record_peak(self, size: int) -> None:
        self._peak = max(self._peak, size)

    def statistics(self, keeper: int, memory: tuple[int, int]) -> Document:
        now = time.time()
        user, kernel = _times(keeper, own=False)
        private = 0
        storage = dict.fromkeys(_STORAGE.values(), 0)
        for pid in descendants(keeper):
            its_user, its_kernel = _times(pid)
            user += its_user
            kernel += its_kernel
            usage = _memory(pid)
            private += usage["private"]
            self.record_peak(usage["peak"])
            for name, value in _storage(pid).items():
                storage[name] += value
        commit = memory[0] or private
        self.record_peak(max(commit, memory[1]))
        return {
            "Timestamp": timestamp(now),
            "ContainerStartTime": timestamp(self.started_at),
            "Uptime100ns": int((now - self.started_at) * 10_000_000),
            "Processor": {
                "TotalRuntime100ns": user + kernel, "RuntimeUser100ns": user, "RuntimeKernel100ns": kernel,
            },
            "Memory": {
                "MemoryUsageCommitBytes": commit,
                "MemoryUsageCommitPeakBytes": self._peak,
                "MemoryUsagePrivateWorkingSetBytes": private,
            },
            "Storage": storage,
        }  # fmt: skip


def process_list(keeper: int) -> list[Document]:
    """One entry for each process but the keeper itself, oldest first."""
    entries = []
    epoch = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    for pid in descendants(keeper):
        name, values = _stat(pid)
        if not values or values[0] in "ZX":
            continue
        memory = _memory(pid)
        entries.append(
            {
                "ProcessId": pid,
                "ImageName": name,
                "CreateTimestamp": timestamp(epoch + int(values[19]) * _TICK / 10_000_000),
                "UserTime100ns": int(values[11]) * _TICK,
                "KernelTime100ns": int(values[12]) * _TICK,
                "MemoryCommitBytes": memory["private"],
                "MemoryWorkingSetPrivateBytes": memory["private"] - memory["swapped"],
                "MemoryWorkingSetSharedBytes": memory["shared"],
            }
        )
    return sorted(entries, key=lambda entry: str(entry["CreateTimestamp"]))


def timestamp(seconds: float) -> str:
    """With Windows' resolution: seven digits."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{int(seconds % 1 * 10_000_000):07d}Z"


def _stat(pid: int) -> tuple[str, list[str]]:
    """The name, and the fields from the state on (field n of proc(5) is at n - 3); empty if it has exited."""
    text = read(f"/proc/{pid}/stat")
    name, _, rest = text.partition("(")[2].rpartition(")")
    return name, rest.split()


def _times(pid: int, own: bool = True) -> tuple[int, int]:
    """User and kernel time, with that of exited children."""
    _, values = _stat(pid)
    if not values:
        return 0, 0
    user, kernel, of_children_user, of_children_kernel = (int(value) * _TICK for value in values[11:15])
    return of_children_user + (user if own else 0), of_children_kernel + (kernel if own else 0)


def _memory(pid: int) -> dict[str, int]:
    values = {"RssAnon": 0, "RssFile": 0, "RssShmem": 0, "VmSwap": 0, "VmHWM": 0}
    for line in read(f"/proc/{pid}/status").splitlines():
        name, _, value = line.partition(":")
        if name in values:
            values[name] = int(value.split()[0]) * 1024
    return {
        "private": values["RssAnon"] + values["VmSwap"],
        "swapped": values["VmSwap"],
        "shared": values["RssFile"] + values["RssShmem"],
        "peak": values["VmHWM"],
    }


def _storage(pid: int) -> dict[str, int]:
    values = {}
    for line in read(f"/proc/{pid}/io").splitlines():
        name, _, value = line.partition(":")
        if name in _STORAGE:
            values[_STORAGE[name]] = int(value)
    return values

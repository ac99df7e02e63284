"""The stats messages of a container, from HCS's statistics.

HCS counts in units of 100 ns, the messages in nanoseconds or microseconds. Clients on Windows read
`containerd.runhcs.stats.v1.Statistics`. On Linux, where the shim runs only with the emulator, some clients know nothing
but cgroup metrics and fail on other types; `shim.platform` decides which type a response has.
"""

from __future__ import annotations

from shim.api import runhcs_stats
from shim.api.packing import pack
from shim.task.stats.hcs_time import timestamp

TYPE_CHECKING = False
if TYPE_CHECKING:
    from shim.api import cgroups_v1
    from shim.api.wellknown import Any
    from shim.task.interfaces import Document

# How cgroups report that there is no limit.
UNLIMITED = (1 << 64) - 1


def statistics(
    windows: runhcs_stats.WindowsContainerStatistics | None,
    vm: runhcs_stats.VirtualMachineStatistics | None = None,
    linux: cgroups_v1.Metrics | None = None,
) -> Any:
    """The stats of a container, of its own VM, or of both; packed as Microsoft's shim does."""
    return pack(runhcs_stats.Statistics(windows=windows, linux=linux, vm=vm))


def windows_statistics(document: Document) -> runhcs_stats.WindowsContainerStatistics:
    """`Statistics` of HCS's properties."""
    processor, memory, storage = (document.get(part) or {} for part in ("Processor", "Memory", "Storage"))
    return runhcs_stats.WindowsContainerStatistics(
        timestamp=timestamp(document.get("Timestamp") or ""),
        container_start_time=timestamp(document.get("ContainerStartTime") or ""),
        uptime_ns=document.get("Uptime100ns", 0) * 100,
        processor=runhcs_stats.WindowsContainerProcessorStatistics(
            total_runtime_ns=processor.get("TotalRuntime100ns", 0) * 100,
            runtime_user_ns=processor.get("RuntimeUser100ns", 0) * 100,
            runtime_kernel_ns=processor.get("RuntimeKernel100ns", 0) * 100,
        ),
        memory=runhcs_stats.WindowsContainerMemoryStatistics(
            memory_usage_commit_bytes=memory.get("MemoryUsageCommitBytes", 0),
            memory_usage_commit_peak_bytes=memory.get("MemoryUsageCommitPeakBytes", 0),
            memory_usage_private_working_set_bytes=memory.get("MemoryUsagePrivateWorkingSetBytes", 0),
        ),
        storage=runhcs_stats.WindowsContainerStorageStatistics(
            read_count_normalized=storage.get("ReadCountNormalized", 0),
            read_size_bytes=storage.get("ReadSizeBytes", 0),
            write_count_normalized=storage.get("WriteCountNormalized", 0),
            write_size_bytes=storage.get("WriteSizeBytes", 0),
        ),
    )


def cgroup_metrics(document: Document, processes: int, memory_limit: int = 0) -> Any:
    """The same stats as cgroup v2 metrics, for clients that know only those."""
    from shim.api import cgroups_v2

    processor, memory, storage = (document.get(part) or {} for part in ("Processor", "Memory", "Storage"))
    metrics = cgroups_v2.Metrics(
        pids=cgroups_v2.PidsStat(current=processes),
        cpu=cgroups_v2.CPUStat(
            usage_usec=processor.get("TotalRuntime100ns", 0) // 10,
            user_usec=processor.get("RuntimeUser100ns", 0) // 10,
            system_usec=processor.get("RuntimeKernel100ns", 0) // 10,
        ),
        memory=cgroups_v2.MemoryStat(
            usage=memory.get("MemoryUsageCommitBytes", 0),
            usage_limit=memory_limit or UNLIMITED,
            max_usage=memory.get("MemoryUsageCommitPeakBytes", 0),
            anon=memory.get("MemoryUsagePrivateWorkingSetBytes", 0),
        ),
        io=cgroups_v2.IOStat(
            usage=[
                cgroups_v2.IOEntry(
                    rbytes=storage.get("ReadSizeBytes", 0),
                    wbytes=storage.get("WriteSizeBytes", 0),
                    rios=storage.get("ReadCountNormalized", 0),
                    wios=storage.get("WriteCountNormalized", 0),
                )
            ]
        ),
        memory_events=cgroups_v2.MemoryEvents(),
    )
    return pack(metrics)

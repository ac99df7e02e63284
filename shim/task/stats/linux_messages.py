"""The stats of a Linux container in a VM: cgroup v1 metrics, whatever cgroups its guest has.

The guest reports them as `LCOWMetrics`, whose members have the names of the message's fields; zeros are left out. They
come from the VM, which runs the workload: a member of another type than expected counts as absent.
"""

from __future__ import annotations

from shim.api import cgroups_v1

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from shim.task.interfaces import Document

METRICS = "LCOWMetrics"
_MAX = (1 << 64) - 1
_MEMORY_ENTRIES = ("usage", "swap", "kernel", "kernel_tcp")
_NETWORK_NUMBERS = cgroups_v1.NetworkStat.__slots__[1:]
_MEMORY_NUMBERS = tuple(name for name in cgroups_v1.MemoryStat.__slots__ if name not in _MEMORY_ENTRIES)


def is_linux(document: Document) -> bool:
    """Whether statistics of a container are those of a Linux guest."""
    return METRICS in document


def metrics(document: Document) -> cgroups_v1.Metrics:
    """Statistics of a Linux container, as the guest reports them."""
    found = _object(document, METRICS)
    cpu, memory = _object(found, "cpu"), _object(found, "memory")
    throttling = _numbers(_object(cpu, "throttling"), "periods", "throttled_periods", "throttled_time")
    return cgroups_v1.Metrics(
        hugetlb=[
            cgroups_v1.HugetlbStat(**_numbers(entry, "usage", "max", "failcnt"), pagesize=_text(entry, "pagesize"))
            for entry in _objects(found, "hugetlb")
        ],
        pids=cgroups_v1.PidsStat(**_numbers(_object(found, "pids"), "current", "limit")),
        cpu=cgroups_v1.CPUStat(
            usage=cgroups_v1.CPUUsage(
                **_numbers(_object(cpu, "usage"), "total", "kernel", "user"),
                per_cpu=[value for value in _list(_object(cpu, "usage"), "per_cpu") if _is_number(value)],
            ),
            throttling=cgroups_v1.Throttle(**throttling),
        ),
        memory=cgroups_v1.MemoryStat(
            **_numbers(memory, *_MEMORY_NUMBERS),
            usage=_memory_entry(memory, "usage"),
            swap=_memory_entry(memory, "swap"),
            kernel=_memory_entry(memory, "kernel"),
            kernel_tcp=_memory_entry(memory, "kernel_tcp"),
        ),
        blkio=_blkio(found),
        rdma=_rdma(found),
        network=[
            cgroups_v1.NetworkStat(**_numbers(entry, *_NETWORK_NUMBERS), name=_text(entry, "name"))
            for entry in _objects(found, "network")
        ],
        cgroup_stats=_cgroup_stats(found),
        memory_oom_control=cgroups_v1.MemoryOomControl(
            **_numbers(_object(found, "memory_oom_control"), "oom_kill_disable", "under_oom", "oom_kill")
        ),
    )


def _blkio(found: Document) -> cgroups_v1.BlkIOStat | None:
    if not isinstance(found.get("blkio"), dict):
        return None
    stat = cgroups_v1.BlkIOStat()
    for name in cgroups_v1.BlkIOStat.__slots__:
        entries = [
            cgroups_v1.BlkIOEntry(
                **_numbers(entry, "major", "minor", "value"), op=_text(entry, "op"), device=_text(entry, "device")
            )
            for entry in _objects(_object(found, "blkio"), name)
        ]
        setattr(stat, name, entries)
    return stat


def _rdma(found: Document) -> cgroups_v1.RdmaStat | None:
    if not isinstance(found.get("rdma"), dict):
        return None
    current, limit = (
        [
            cgroups_v1.RdmaEntry(**_numbers(entry, "hca_handles", "hca_objects"), device=_text(entry, "device"))
            for entry in _objects(_object(found, "rdma"), name)
        ]
        for name in ("current", "limit")
    )
    return cgroups_v1.RdmaStat(current=current, limit=limit)


def _cgroup_stats(found: Document) -> cgroups_v1.CgroupStats | None:
    if not isinstance(found.get("cgroup_stats"), dict):
        return None
    return cgroups_v1.CgroupStats(**_numbers(_object(found, "cgroup_stats"), *cgroups_v1.CgroupStats.__slots__))


def oom_kills(document: Document) -> int | None:
    """How many processes of the container were killed for want of memory; None if the guest does not report it."""
    found = _object(document, METRICS)
    if not isinstance(found.get("memory_oom_control"), dict):
        return None
    return _numbers(_object(found, "memory_oom_control"), "oom_kill")["oom_kill"]


def _memory_entry(memory: Document, name: str) -> cgroups_v1.MemoryEntry | None:
    if not isinstance(memory.get(name), dict):
        return None
    return cgroups_v1.MemoryEntry(**_numbers(_object(memory, name), "limit", "usage", "max", "failcnt"))


def _numbers(document: Document, *names: str) -> dict[str, int]:
    return {name: document[name] if _is_number(document.get(name)) else 0 for name in names}


def _is_number(value: object) -> bool:
    return type(value) is int and 0 <= value <= _MAX


def _object(document: Document, name: str) -> Document:
    value: Any = document.get(name)
    return value if isinstance(value, dict) else {}


def _list(document: Document, name: str) -> list[Any]:
    value: Any = document.get(name)
    return value if isinstance(value, list) else []


def _objects(document: Document, name: str) -> list[Document]:
    return [entry for entry in _list(document, name) if isinstance(entry, dict)]


def _text(document: Document, name: str) -> str:
    value: Any = document.get(name)
    return value if isinstance(value, str) else ""

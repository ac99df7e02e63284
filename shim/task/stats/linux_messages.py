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
            for entry in _list(found, "hugetlb")
            if isinstance(entry, dict)
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
        memory_oom_control=cgroups_v1.MemoryOomControl(
            **_numbers(_object(found, "memory_oom_control"), "oom_kill_disable", "under_oom", "oom_kill")
        ),
    )


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


def _text(document: Document, name: str) -> str:
    value: Any = document.get(name)
    return value if isinstance(value, str) else ""

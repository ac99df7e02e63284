"""Statistics of a container's cgroup, with the members of containerd's cgroup1 metrics. Zero members are left out."""

from __future__ import annotations

import os
from typing import Any

from hcs_emulator.vm.linux.agent import cgroups
from hcs_emulator.vm.linux.agent.errors import GuestError, reason

_TICK = 10_000_000  # nanoseconds of cpuacct.stat's unit
_UNLIMITED = 0xFFFFFFFFFFFFFFFF
_MEMORY = (
    ("cache", "cache"),
    ("rss", "rss"),
    ("rss_huge", "rss_huge"),
    ("mapped_file", "mapped_file"),
    ("dirty", "dirty"),
    ("writeback", "writeback"),
    ("pg_pg_in", "pgpgin"),
    ("pg_pg_out", "pgpgout"),
    ("pg_fault", "pgfault"),
    ("pg_maj_fault", "pgmajfault"),
    ("inactive_anon", "inactive_anon"),
    ("active_anon", "active_anon"),
    ("inactive_file", "inactive_file"),
    ("active_file", "active_file"),
    ("unevictable", "unevictable"),
)
_MEMORY_2 = {
    "rss": "anon",
    "cache": "file",
    "mapped_file": "file_mapped",
    "dirty": "file_dirty",
    "writeback": "file_writeback",
    "pg_fault": "pgfault",
    "pg_maj_fault": "pgmajfault",
    "inactive_anon": "inactive_anon",
    "active_anon": "active_anon",
    "inactive_file": "inactive_file",
    "active_file": "active_file",
    "unevictable": "unevictable",
}


def metrics(path: str) -> dict[str, Any]:
    """The LCOWMetrics of a group."""
    return _metrics_2(path) if cgroups.is_version_2() else _metrics_1(path)


def _without_zeros(members: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value not in (0, [], None)}


def _table(path: str) -> dict[str, int]:
    try:
        lines = [line.split() for line in cgroups.read(path).splitlines()]
    except OSError:
        return {}
    return {line[0]: int(line[1]) for line in lines if len(line) == 2 and line[1].isdecimal()}


def _number(path: str) -> int:
    try:
        text = cgroups.read(path).strip()
    except OSError:
        return 0
    if text == "max":
        return _UNLIMITED if cgroups.is_version_2() else 0  # as containerd's readers of the two versions
    return int(text)


# version 1


def _metrics_1(path: str) -> dict[str, Any]:
    present = set(cgroups.controllers())
    groups = {name: cgroups.directory(name, path) for name in present}
    if not any(os.path.isdir(group) for group in groups.values()):
        raise GuestError(f"failed to load v1 cgroup {path}: cgroups: cgroup deleted")
    found: dict[str, Any] = {"cpu": _cpu_1(groups)}
    if "pids" in present:
        group = groups["pids"]
        current, limit = _number(f"{group}/pids.current"), _number(f"{group}/pids.max")
        found["pids"] = _without_zeros({"current": current, "limit": limit})
    if "memory" in present and os.path.isdir(groups["memory"]):
        found.update(_memory_1(groups["memory"]))
    if "blkio" in present:
        found["blkio"] = {}
    if "rdma" in present:
        found["rdma"] = {}
    if "hugetlb" in present:
        found["hugetlb"] = _hugetlb_1(groups["hugetlb"])
    return {name: value for name, value in found.items() if value != []}


def _cpu_1(groups: dict[str, str]) -> dict[str, Any]:
    usage: dict[str, Any] = {}
    if group := groups.get("cpuacct"):
        ticks = _table(f"{group}/cpuacct.stat")
        usage = {
            "total": _number(f"{group}/cpuacct.usage"),
            "kernel": ticks.get("system", 0) * _TICK,
            "user": ticks.get("user", 0) * _TICK,
            "per_cpu": _per_cpu(group),
        }
    throttling = _table(f"{groups['cpu']}/cpu.stat") if "cpu" in groups else {}
    return {
        "usage": _without_zeros(usage),
        "throttling": _without_zeros(
            {
                "periods": throttling.get("nr_periods", 0),
                "throttled_periods": throttling.get("nr_throttled", 0),
                "throttled_time": throttling.get("throttled_time", 0),
            }
        ),
    }


def _per_cpu(group: str) -> list[int]:
    try:
        return [int(value) for value in cgroups.read(f"{group}/cpuacct.usage_percpu").split()]
    except OSError:
        return []


def _memory_1(group: str) -> dict[str, Any]:
    table = _table(f"{group}/memory.stat")
    memory: dict[str, Any] = {name: table.get(key, 0) for name, key in _MEMORY}
    memory["hierarchical_memory_limit"] = table.get("hierarchical_memory_limit", 0)
    memory["hierarchical_swap_limit"] = table.get("hierarchical_memsw_limit", 0)
    memory.update({f"total_{name}": table.get(f"total_{key}", 0) for name, key in _MEMORY})
    memory = _without_zeros(memory)
    complete = True
    for name, prefix in (("usage", ""), ("swap", "memsw."), ("kernel", "kmem."), ("kernel_tcp", "kmem.tcp.")):
        files = {
            "usage": f"{group}/memory.{prefix}usage_in_bytes",
            "max": f"{group}/memory.{prefix}max_usage_in_bytes",
            "failcnt": f"{group}/memory.{prefix}failcnt",
            "limit": f"{group}/memory.{prefix}limit_in_bytes",
        }
        # containerd's reader stops at the first file that the kernel does not have.
        complete = complete and all(map(os.path.exists, files.values()))
        memory[name] = _without_zeros({key: _number(file) for key, file in files.items()}) if complete else {}
    control = _table(f"{group}/memory.oom_control")
    members = {name: control.get(name, 0) for name in ("oom_kill_disable", "under_oom", "oom_kill")}
    return {"memory": memory, "memory_oom_control": _without_zeros(members)}


def _hugetlb_1(group: str) -> list[dict[str, Any]]:
    try:
        sizes = [
            name.split(".")[1] for name in os.listdir(group) if name.endswith("usage_in_bytes") and "rsvd" not in name
        ]
    except OSError as error:
        raise GuestError(f"failed to read {group}: {reason(error)}") from error
    return [
        _without_zeros(
            {
                "usage": _number(f"{group}/hugetlb.{size}.usage_in_bytes"),
                "max": _number(f"{group}/hugetlb.{size}.max_usage_in_bytes"),
                "failcnt": _number(f"{group}/hugetlb.{size}.failcnt"),
                "pagesize": size,
            }
        )
        for size in sorted(sizes)
    ]


# version 2


def _metrics_2(path: str) -> dict[str, Any]:
    group = cgroups.directory("", path)
    if not os.path.isdir(group):
        raise GuestError(f"failed to stat v2 cgroup {path}: no such file or directory")
    cpu, memory = _table(f"{group}/cpu.stat"), _table(f"{group}/memory.stat")
    limit, swap_limit = _number(f"{group}/memory.max"), _number(f"{group}/memory.swap.max")
    used: dict[str, Any] = {name: memory.get(key, 0) for name, key in _MEMORY_2.items()}
    used.update({"hierarchical_memory_limit": limit, "hierarchical_swap_limit": swap_limit})
    used = _without_zeros(used)
    used["usage"] = _without_zeros(
        {"usage": _number(f"{group}/memory.current"), "limit": limit, "max": _number(f"{group}/memory.peak")}
    )
    used["swap"] = _without_zeros({"usage": _number(f"{group}/memory.swap.current"), "limit": swap_limit})
    used["kernel"] = _without_zeros({"usage": memory.get("kernel_stack", 0)})
    used["kernel_tcp"] = _without_zeros({"usage": memory.get("sock", 0)})
    events = _table(f"{group}/memory.events")
    return {
        "pids": _without_zeros({"current": _number(f"{group}/pids.current"), "limit": _number(f"{group}/pids.max")}),
        "cpu": {
            "usage": _without_zeros(
                {
                    "total": cpu.get("usage_usec", 0) * 1000,
                    "user": cpu.get("user_usec", 0) * 1000,
                    "kernel": cpu.get("system_usec", 0) * 1000,
                }
            ),
            "throttling": _without_zeros(
                {
                    "periods": cpu.get("nr_periods", 0),
                    "throttled_periods": cpu.get("nr_throttled", 0),
                    "throttled_time": cpu.get("throttled_usec", 0) * 1000,
                }
            ),
        },
        "memory": used,
        "rdma": {},
        "memory_oom_control": _without_zeros({"oom_kill": events.get("oom_kill", 0)}),
    }

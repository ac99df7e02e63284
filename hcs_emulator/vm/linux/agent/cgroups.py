"""Cgroups of the agent and of pods. runc makes those of containers below them.

The guest has either the hierarchies of version 1, one directory per controller, or version 2. gcs takes a guest with
both for version 2, so the machine gives only one of them.
"""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Callable
from typing import Any

from hcs_emulator.vm.linux.agent import log
from hcs_emulator.vm.linux.agent.errors import GuestError, reason

ROOT = "/sys/fs/cgroup"
PODS, AGENT = "/pods", "/gcs"
_REMOVAL_TIMEOUT = 2.0
_CPU = {"realtimePeriod": "rt_period_us", "realtimeRuntime": "rt_runtime_us", "shares": "shares"}
_CPU_QUOTA = {"period": "cfs_period_us", "quota": "cfs_quota_us"}
_MEMORY = {
    "limit": "limit_in_bytes",
    "reservation": "soft_limit_in_bytes",
    "swap": "memsw.limit_in_bytes",
    "kernelTCP": "kmem.tcp.limit_in_bytes",
    "swappiness": "swappiness",
}


def is_version_2() -> bool:
    return os.path.exists(f"{ROOT}/cgroup.controllers") or os.path.isdir(f"{ROOT}/unified")


def controllers() -> list[str]:
    """The directories of the hierarchies of version 1."""
    return sorted(name for name in os.listdir(ROOT) if os.path.isdir(f"{ROOT}/{name}/"))


def directory(controller: str, path: str) -> str:
    return f"{ROOT}/{controller}{path}" if controller else f"{ROOT}{path}"


def create(path: str, resources: dict[str, Any]) -> None:
    """Create a group, and set its limits: those members of OCI resources that the host sends."""
    try:
        if is_version_2():
            _create_2(path, resources)
        else:
            for controller in controllers():
                _create_1(controller, path, resources)
    except OSError as error:
        raise GuestError(f"failed to create cgroup {path}: {error.filename}: {reason(error)}") from error


def _create_1(controller: str, path: str, resources: dict[str, Any]) -> None:
    group = directory(controller, path)
    os.makedirs(group, exist_ok=True)
    if controller == "cpuset":
        _inherit_cpuset(f"{ROOT}/cpuset", path)
    for name, value in _limits_1(controller, resources):
        write(f"{group}/{controller}.{name}", value)


def _limits_1(controller: str, resources: dict[str, Any]) -> list[tuple[str, str]]:
    cpu, memory = resources.get("cpu") or {}, resources.get("memory") or {}
    if controller == "cpuset":
        return [(name, cpu[name]) for name in ("cpus", "mems") if cpu.get(name)]
    if controller == "cpu":
        return [(file, str(cpu[name])) for name, file in (_CPU | _CPU_QUOTA).items() if cpu.get(name) is not None]
    if controller == "memory":
        return [(file, str(memory[name])) for name, file in _MEMORY.items() if memory.get(name) is not None]
    if controller == "pids" and (resources.get("pids") or {}).get("limit", 0) > 0:
        return [("max", str(resources["pids"]["limit"]))]
    return []


def _inherit_cpuset(root: str, path: str) -> None:
    """A new group has no processors and no memory nodes, and takes no processes then."""
    group = root
    for part in path.strip("/").split("/"):
        parent, group = group, f"{group}/{part}"
        for name in ("cpuset.cpus", "cpuset.mems"):
            if not read(f"{group}/{name}").strip():
                write(f"{group}/{name}", read(f"{parent}/{name}").strip())


def _create_2(path: str, resources: dict[str, Any]) -> None:
    group = ROOT
    for part in path.strip("/").split("/"):
        for controller in read(f"{group}/cgroup.controllers").split():
            _try_write(f"{group}/cgroup.subtree_control", "+" + controller)
        group = f"{group}/{part}"
        os.makedirs(group, exist_ok=True)
    cpu, memory = resources.get("cpu") or {}, resources.get("memory") or {}
    for name, file in (("limit", "memory.max"), ("reservation", "memory.low"), ("swap", "memory.swap.max")):
        if memory.get(name) is not None:
            write(f"{group}/{file}", "max" if memory[name] < 0 else str(memory[name]))
    if cpu.get("shares"):
        write(f"{group}/cpu.weight", str(1 + (max(cpu["shares"], 2) - 2) * 9999 // 262142))
    if cpu.get("quota") is not None and cpu.get("period") is not None:
        quota = "max" if cpu["quota"] <= 0 else str(cpu["quota"])
        write(f"{group}/cpu.max", f"{quota} {cpu['period']}")


def enter(path: str) -> None:
    """Move the calling process into a group."""
    for controller in [""] if is_version_2() else controllers():
        write(f"{directory(controller, path)}/cgroup.procs", str(os.getpid()))


def set_memory_limit(path: str, limit: int) -> None:
    if is_version_2():
        write(f"{ROOT}{path}/memory.max", str(limit))
    elif os.path.isdir(f"{ROOT}/memory{path}"):
        write(f"{ROOT}/memory{path}/memory.limit_in_bytes", str(limit))


def remove(path: str) -> None:
    """Remove a group and those below it. Retries: exited processes stay in a group for a moment."""
    deadline = time.monotonic() + _REMOVAL_TIMEOUT
    groups = [directory(controller, path) for controller in ([""] if is_version_2() else controllers())]
    while True:
        for group in groups:
            for below, _, _ in os.walk(group, topdown=False):
                try:
                    os.rmdir(below)
                except OSError:
                    pass
        groups = [group for group in groups if os.path.isdir(group)]
        if not groups:
            return
        if time.monotonic() >= deadline:
            log.warning("failed to delete pod cgroup", cgroup=path)
            return
        time.sleep(0.01)


def watch_oom(path: str, report: Callable[[], None]) -> None:
    """Call `report` in a thread of its own whenever a process of the group was killed for lack of memory."""
    work = _watch_2 if is_version_2() else _watch_1
    threading.Thread(target=work, args=(path, report), daemon=True).start()


def _watch_1(path: str, report: Callable[[], None]) -> None:
    group = f"{ROOT}/memory{path}"
    try:
        event = os.eventfd(0)
        control = os.open(f"{group}/memory.oom_control", os.O_RDONLY | os.O_CLOEXEC)
        write(f"{group}/cgroup.event_control", f"{event} {control}")
    except OSError as error:
        log.warning("failed to retrieve the pods cgroups oom eventfd", cgroup=path, error=str(error))
        return
    while os.path.isdir(group):
        os.eventfd_read(event)
        report()


def _watch_2(path: str, report: Callable[[], None]) -> None:
    events = f"{ROOT}{path}/memory.events"
    seen = 0
    try:
        with open(events) as file:
            poll = select.poll()
            poll.register(file, select.POLLPRI)
            while True:
                file.seek(0)
                killed = dict(line.split() for line in file).get("oom_kill", "0")
                if int(killed) > seen:
                    seen = int(killed)
                    report()
                poll.poll()
    except OSError as error:
        log.debug("failed to read memory.events", cgroup=path, error=str(error))


def read(path: str) -> str:
    with open(path) as file:
        return file.read()


def write(path: str, value: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, value.encode())
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from None
    finally:
        os.close(descriptor)


def _try_write(path: str, value: str) -> None:
    try:
        write(path, value)
    except OSError:
        pass  # a controller that this group cannot have

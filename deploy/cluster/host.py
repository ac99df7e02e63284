"""What a kubelet changes on its machine, outside of the cluster's directory: control groups and kernel settings."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from pathlib import Path

from deploy.cluster.settings import Settings

CGROUPS = Path("/sys/fs/cgroup")
# The kubelet sets these at its start.
SYSCTLS = (
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
)
# All pods are in one group, which the kernel would otherwise weigh like a single process of the machine.
CPU_WEIGHTS = {"cpu.shares": 64 * 1024, "cpu.weight": 6400}
UMOUNT_TIMEOUT = 30.0
_PROC_SYS = Path("/proc/sys")


def prepare(settings: Settings) -> None:
    """Create the control group of the cluster, and keep the kernel settings for `restore`."""
    values = {name: (_PROC_SYS / name).read_text() for name in SYSCTLS if (_PROC_SYS / name).exists()}
    _saved(settings).write_text(json.dumps(values))
    for group in cgroup_roots(settings):
        group.mkdir(exist_ok=True)
        for name, weight in CPU_WEIGHTS.items():
            if (group / name).exists():
                (group / name).write_text(str(weight))


def restore(settings: Settings) -> None:
    for root in cgroup_roots(settings):
        for directory in _directories(root):
            directory.rmdir()
    try:
        values = json.loads(_saved(settings).read_text())
    except OSError:
        return
    for name, value in values.items():
        if (_PROC_SYS / name).read_text() != value:
            (_PROC_SYS / name).write_text(value)


def cgroup_roots(settings: Settings) -> list[Path]:
    """The group of the cluster in every hierarchy."""
    if (CGROUPS / "cgroup.controllers").exists():
        return [CGROUPS / settings.name]
    mounted = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    return [Path(fields[1]) / settings.name for fields in mounted if fields[2] == "cgroup"]


def pod_cgroups(settings: Settings) -> list[str]:
    """Groups of pods, which the kubelet and runc make below that of the cluster."""
    groups = [directory for root in cgroup_roots(settings) for directory in _directories(root)]
    return [str(group) for group in groups if "/pod" in str(group)]


def remove_pod_cgroups(settings: Settings) -> None:
    """Remove the groups of pods that have no process and no group of a container."""
    for path in pod_cgroups(settings):
        with contextlib.suppress(OSError):
            if Path(path).name.startswith("pod"):
                Path(path).rmdir()


def _directories(root: Path) -> list[Path]:
    """A group with all groups below it, the innermost first."""
    found = [Path(path) for path, _, _ in os.walk(root)]
    return sorted(found, key=lambda path: len(path.parts), reverse=True)


def mounts(directory: Path) -> list[str]:
    """Mount points below a directory, the innermost last."""
    points = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return sorted(point for point in points if point.startswith(f"{directory}/"))


def unmount(directory: Path) -> None:
    """Unmount everything below a directory."""
    for point in reversed(mounts(directory)):
        subprocess.run(["umount", "-l", point], check=False, timeout=UMOUNT_TIMEOUT)


def _saved(settings: Settings) -> Path:
    return settings.directory / "sysctls.json"

"""What pods have left on the node. After the removal of all pods there must be nothing."""

from __future__ import annotations

import os
from pathlib import Path

from deploy.cluster import host, network
from deploy.cluster.containerd import Containerd, Emulator
from deploy.cluster.processes import with_text_in_environment
from deploy.cluster.settings import Settings
from runhcs.emulator import ControlError, command


def pod_resources(settings: Settings) -> list[str]:
    """Everything of pods that exists, while containerd and emulator run."""
    found = [f"process {pid}: {_command_line(pid)}" for pid in _processes(settings)]
    found += [f"compute system {name}" for name in _systems(settings)]
    found += [f"mount {point}" for point in _pod_mounts(settings)]
    found += [f"network namespace {path}" for path in _files(settings.containerd_state / "netns")]
    found += [f"address {address}" for address in network.leases(settings)]
    found += [f"control group {path}" for path in host.pod_cgroups(settings)]
    found += [f"socket {path}" for path in _files(settings.shim_sockets) if not path.name.startswith("standby-")]
    for plugin in ("io.containerd.runtime.v2.task", "io.containerd.sandbox.controller.v1.shim"):
        found += [f"bundle {path}" for path in _files(settings.containerd_state / plugin / "k8s.io")]
    return found


def _processes(settings: Settings) -> list[int]:
    """Shims and what they started, and descendants of the emulator."""
    daemons = {Containerd(settings).pid, Emulator(settings).pid}
    return [pid for pid in with_text_in_environment(f"={settings.emulator}") if pid not in daemons]


def _systems(settings: Settings) -> list[str]:
    try:
        return [str(system["Id"]) for system in command(str(settings.emulator), "status")["systems"]]
    except ControlError:
        return []  # it does not run


def _pod_mounts(settings: Settings) -> list[str]:
    """containerd itself mounts nothing, and the kubelet its own root only."""
    return [point for point in host.mounts(settings.directory) if point != str(settings.directory / "kubelet")]


def _files(directory: Path) -> list[Path]:
    return list(directory.iterdir()) if directory.exists() else []


def _command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")[:200]
    except OSError:
        return os.strerror(3)

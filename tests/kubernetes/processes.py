"""The processes of shims and VMs on the node of a cluster."""

from __future__ import annotations

from pathlib import Path

from deploy.cluster.cluster import Cluster
from deploy.cluster.processes import with_text_in_environment
from deploy.cluster.settings import Settings


def shims(settings: Settings) -> list[int]:
    return _with_word(settings, b"containerd-shim-runhcs-v1")


def vms(cluster: Cluster) -> list[int]:
    """The workers of VMs. The init of a VM is a fork of its worker."""
    found = _with_word(cluster.settings, b"hcs_emulator.vm.linux")
    return [pid for pid in found if _parent(pid) == cluster.emulator.pid]


def _with_word(settings: Settings, word: bytes) -> list[int]:
    found = []
    for pid in with_text_in_environment(f"={settings.emulator}"):
        try:
            if word in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(pid)
        except OSError:
            continue
    return found


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0

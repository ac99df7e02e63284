"""What containers are made of: bundles, specs, root file systems and options, by profile.

- *process*: one container of this machine's own programs. The same Linux spec goes to every shim.
- *hypervisor*: one container in a utility VM of its own, for our shim: a Windows spec with a layer that a VM can boot
  from.
- *pod*: a sandbox and a number of containers that join its shim, by the annotations of Kubernetes' runtime interface.

A container says `ready` on its output and then waits to be ended.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, NamedTuple

from shim.api.runhcs_options import Options
from shim.api.types import Mount
from shim.api.wellknown import Any as PackedAny

# Where programs and what they need are on this machine; the container sees them, read-only.
PROGRAMS = ("/bin", "/lib", "/lib64", "/usr")
NAMESPACES = ("pid", "mount", "ipc", "uts")
# Marks the processes of containers, so that none is taken for another.
MARK = "BENCH_CONTAINER"
READY = b"ready\n"

PROCESS = "process"
HYPERVISOR = "hypervisor"
POD = "pod"
PROFILES = (PROCESS, HYPERVISOR, POD)

WAITS = ["/bin/sh", "-c", "echo ready; exec sleep 1000"]
WINDOWS_WAITS = ["cmd", "/c", "echo ready & ping -t 127.0.0.1 > nul"]
EXEC_WAITS = ["/bin/sleep", "1000"]
EXEC_ENDS = ["/bin/true"]


class Role(NamedTuple):
    """What a container is to its pod."""

    kind: str
    pod: str

    @property
    def annotations(self) -> dict[str, str]:
        return {"io.kubernetes.cri.container-type": self.kind, "io.kubernetes.cri.sandbox-id": self.pod}


class Bundle:
    """A bundle on disk as containerd makes it, and what goes with Create."""

    def __init__(
        self, directory: Path, id: str, profile: str, args: list[str] | None = None, role: Role | None = None
    ) -> None:
        self.id = id
        self.profile = profile
        self.path = directory / id
        self.rootfs: list[Mount] = []
        self.options: PackedAny | None = None
        root = self.path / "rootfs"
        root.mkdir(parents=True)
        if profile == HYPERVISOR:
            spec = _windows_spec(args or WINDOWS_WAITS)
            self.rootfs = [_layers(directory, self.path / "scratch")]
            self.options = _vm_options()
        else:
            for name in ("proc", "dev", *(path.lstrip("/") for path in PROGRAMS)):
                (root / name).mkdir()
            spec = _linux_spec(root, id, args or WAITS)
        if role is not None:
            spec["annotations"] = role.annotations
        self.spec = spec
        (self.path / "config.json").write_text(json.dumps(spec))
        os.mkfifo(self.path / "log", 0o700)


def process(id: str, args: list[str]) -> dict[str, Any]:
    environment = ["PATH=/usr/bin:/bin", f"{MARK}={id}"]
    return {"args": args, "cwd": "/", "env": environment, "user": {"uid": 0, "gid": 0}}


def _linux_spec(root: Path, id: str, args: list[str]) -> dict[str, Any]:
    mounts: list[dict[str, object]] = [{"destination": "/proc", "type": "proc", "source": "proc"}]
    mounts += [
        {"destination": path, "type": "bind", "source": os.path.realpath(path), "options": ["rbind", "ro"]}
        for path in PROGRAMS
        if os.path.isdir(path)
    ]
    return {
        "ociVersion": "1.0.2",
        "process": process(id, args),
        "root": {"path": str(root)},
        "hostname": "bench",
        "mounts": mounts,
        "linux": {"namespaces": [{"type": kind} for kind in NAMESPACES]},
    }


def _windows_spec(args: list[str]) -> dict[str, Any]:
    return {
        "ociVersion": "1.1.0",
        "hostname": "BENCH",
        "process": {"args": args, "cwd": "C:\\", "user": {"username": "ContainerUser"}},
        "root": {"path": ""},
        "windows": {"layerFolders": None, "ignoreFlushesDuringBoot": True, "hyperv": {}},
    }


def _layers(directory: Path, scratch: Path) -> Mount:
    """As the windows snapshotter makes it, on a base layer that all share."""
    base = directory / "layers" / "base"
    if not base.exists():
        (base / "Files").mkdir(parents=True)
        (base / "UtilityVM" / "Files").mkdir(parents=True)
        (base / "UtilityVM" / "SystemTemplate.vhdx").touch()
    scratch.mkdir()
    parents = json.dumps([str(base)])
    return Mount(type="windows-layer", source=str(scratch), options=["rw", f"parentLayerPaths={parents}"])


def _vm_options() -> PackedAny:
    options = Options(sandbox_isolation=Options.SandboxIsolation.HYPERVISOR, sandbox_platform="windows/amd64")
    return PackedAny(type_url=Options.FULL_NAME, value=options.encode())

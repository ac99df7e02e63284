"""Bundles of containers: specs, root file systems and runtime options, by profile.

- *process*: one container that runs programs of this machine, with the same root file system, mounts, command and
  variables for every shim: for our shim in a Windows spec, for runc's in a Linux spec.
- *hypervisor*: one container in its own utility VM, for our shim: a Windows spec with a layer that a VM can boot from.
- *pod*: a sandbox and containers that join its shim, by the annotations of the CRI plugin.

A container prints `ready` and then waits until it is killed.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from attrs import field, frozen
from attrs.validators import in_

from shim.api.runhcs_options import Options
from shim.api.types import Mount
from shim.api.wellknown import Any as PackedAny
from shim.commands import SHIM_SCOPE

# Directories with programs and libraries of this machine, mounted read-only into the container.
PROGRAMS = ("/bin", "/lib", "/lib64", "/usr")
NAMESPACES = ("pid", "mount", "ipc", "uts")
# Environment variable that identifies the processes of a container.
MARK = "BENCH_CONTAINER"

PROCESS = "process"
HYPERVISOR = "hypervisor"
POD = "pod"

WAIT = ["/bin/sh", "-c", "echo ready; exec sleep 1000"]
WINDOWS_WAIT = ["cmd", "/c", "echo ready & ping -t 127.0.0.1 > nul"]
EXEC_WAIT = ["/bin/sleep", "1000"]
EXEC_EXIT = ["/bin/true"]
DEVPTS = {
    "destination": "/dev/pts", "type": "devpts", "source": "devpts",
    "options": ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"],
}  # fmt: skip


@frozen
class Role:
    """The role of a container in its pod: kind is `sandbox` or `container`."""

    kind: str = field(validator=in_(("sandbox", "container")))
    pod: str

    @property
    def annotations(self) -> dict[str, str]:
        return {"io.kubernetes.cri.container-type": self.kind, "io.kubernetes.cri.sandbox-id": self.pod}


class Bundle:
    """A bundle on disk as containerd creates it, and the rootfs and options of the Create request."""

    def __init__(
        self,
        directory: Path,
        id: str,
        profile: str,
        args: list[str] | None = None,
        role: Role | None = None,
        *,
        windows: bool = True,
        scope: str = "",
        terminals: bool = False,
    ) -> None:
        """`windows`: a Windows spec, for our shim; else a Linux spec, for runc's. `scope`: which pods share a shim.
        `terminals`: processes may have one, for which a Linux spec has a mount."""
        self.id = id
        self.profile = profile
        self.path = directory / id
        self.rootfs: list[Mount] = []
        self.options: PackedAny | None = None
        root = self.path / "rootfs"
        root.mkdir(parents=True)
        if profile == HYPERVISOR:
            spec = _vm_spec(args or WINDOWS_WAIT)
            self.rootfs = [_layers(directory, self.path / "scratch")]
            self.options = _vm_options()
        else:
            for name in ("proc", "dev", *(path.lstrip("/") for path in PROGRAMS)):
                (root / name).mkdir()
            spec = (_windows_spec if windows else _linux_spec)(root, id, args or WAIT)
            if terminals and not windows:
                (root / "dev" / "pts").mkdir()
                spec["mounts"].append(DEVPTS)
        annotations = {**(role.annotations if role is not None else {}), **({SHIM_SCOPE: scope} if scope else {})}
        if annotations:
            spec["annotations"] = annotations
        self.spec = spec
        (self.path / "config.json").write_text(json.dumps(spec))
        os.mkfifo(self.path / "log", 0o700)


def process(id: str, args: list[str], *, windows: bool = True) -> dict[str, Any]:
    environment = ["PATH=/usr/bin:/bin", f"{MARK}={id}"]
    if windows:
        return {"args": args, "cwd": "C:\\", "env": environment, "user": {"username": "ContainerAdministrator"}}
    return {"args": args, "cwd": "/", "env": environment, "user": {"uid": 0, "gid": 0}}


def _windows_spec(root: Path, id: str, args: list[str]) -> dict[str, Any]:
    """A process-isolated container. The emulator gives it its own namespaces and /proc, as `_linux_spec` requests."""
    mounts = [
        {"destination": "C:" + path.replace("/", "\\"), "source": source, "options": ["ro"]}
        for path, source in _programs()
    ]
    return {
        "ociVersion": "1.0.2",
        "process": process(id, args),
        "root": {"path": str(root)},
        "hostname": "bench",
        "mounts": mounts,
        "windows": {"ignoreFlushesDuringBoot": True},
    }


def _linux_spec(root: Path, id: str, args: list[str]) -> dict[str, Any]:
    mounts: list[dict[str, object]] = [{"destination": "/proc", "type": "proc", "source": "proc"}]
    mounts += [
        {"destination": path, "type": "bind", "source": source, "options": ["rbind", "ro"]}
        for path, source in _programs()
    ]
    return {
        "ociVersion": "1.0.2",
        "process": process(id, args, windows=False),
        "root": {"path": str(root)},
        "hostname": "bench",
        "mounts": mounts,
        "linux": {"namespaces": [{"type": kind} for kind in NAMESPACES]},
    }


def _programs() -> list[tuple[str, str]]:
    """Where the programs are mounted, and their directories on this machine."""
    return [(path, os.path.realpath(path)) for path in PROGRAMS if os.path.isdir(path)]


def _vm_spec(args: list[str]) -> dict[str, Any]:
    return {
        "ociVersion": "1.1.0",
        "hostname": "BENCH",
        "process": {"args": args, "cwd": "C:\\", "user": {"username": "ContainerUser"}},
        "root": {"path": ""},
        "windows": {"layerFolders": None, "ignoreFlushesDuringBoot": True, "hyperv": {}},
    }


def _layers(directory: Path, scratch: Path) -> Mount:
    """The mount of the windows snapshotter, on a shared base layer."""
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

"""Linux containers in utility VMs, through real shims: images, specs and pods as containerd on Windows makes them."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

from shim.api.runhcs_options import Options
from shim.api.types import Mount
from shim.api.wellknown import Any as PackedAny
from shim.oci.annotations.container import VM_BOOT_FILES
from tests.support.emulator import Emulator
from tests.support.fifo_reader import Reader
from tests.support.lcow_image import make_scratch
from tests.support.shims import Shim, Shims

SLEEP = ("sleep", "600")
LINUX_RESOURCES = "types.containerd.io/opencontainers/runtime-spec/1/LinuxResources"
HYPERVISOR = Options.SandboxIsolation.HYPERVISOR
CAPABILITIES = [
    "CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FSETID", "CAP_FOWNER", "CAP_MKNOD", "CAP_NET_RAW", "CAP_SETGID",
    "CAP_SETUID", "CAP_SETFCAP", "CAP_SETPCAP", "CAP_NET_BIND_SERVICE", "CAP_SYS_CHROOT", "CAP_KILL", "CAP_AUDIT_WRITE",
]  # fmt: skip
MOUNTS = [
    {"destination": "/proc", "type": "proc", "source": "proc", "options": ["nosuid", "noexec", "nodev"]},
    {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "strictatime", "mode=755"]},
    {"destination": "/dev/pts", "type": "devpts", "source": "devpts", "options": ["nosuid", "noexec", "ptmxmode=0666"]},
    {"destination": "/dev/shm", "type": "tmpfs", "source": "shm", "options": ["nosuid", "noexec", "size=65536k"]},
    {"destination": "/sys", "type": "sysfs", "source": "sysfs", "options": ["nosuid", "noexec", "nodev", "ro"]},
    {"destination": "/run", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "size=65536k", "mode=755"]},
]


def options(**fields: Any) -> PackedAny:
    values = Options(sandbox_isolation=HYPERVISOR, sandbox_platform="linux/amd64", **fields)
    return PackedAny(type_url=Options.FULL_NAME, value=values.encode())


class LinuxShims:
    """Shims whose containers run in Linux VMs with one kind of guest (`gcs` or `emulated`)."""

    def __init__(self, emulator: Emulator, shims: Shims, guest: str, layer: Path) -> None:
        self.emulator = emulator
        self.shims = shims
        self.guest = guest
        self.events = shims.events
        self.directory = shims.directory
        self.layer = self.directory / "layers" / "1"
        self.layer.mkdir(parents=True)
        os.link(layer, self.layer / layer.name) if _same_device(layer, self.layer) else shutil.copy(layer, self.layer)

    def scratch(self, id: str) -> Path:
        return self.directory / "snapshots" / id

    def rootfs(self, id: str) -> list[Mount]:
        """The mount of the snapshotter `windows-lcow`, with a new scratch disk."""
        if not self.scratch(id).exists():
            make_scratch(self.scratch(id), size=32 << 20)
        parents = "parentLayerPaths=" + json.dumps([str(self.layer)])
        return [Mount(type="lcow-layer", source=str(self.scratch(id)), options=["rw", parents])]

    @staticmethod
    def process(*args: str, **members: Any) -> dict[str, Any]:
        capabilities = dict.fromkeys(("bounding", "effective", "permitted"), CAPABILITIES)
        return {
            "user": {"uid": 0, "gid": 0}, "args": list(args), "env": ["PATH=/bin:/sbin:/usr/bin"], "cwd": "/",
            "capabilities": capabilities, "noNewPrivileges": True, **members,
        }  # fmt: skip

    def spec(
        self,
        *args: str,
        pod: str = "",
        role: str = "",
        annotations: dict[str, str] | None = None,
        process: dict[str, Any] | None = None,
        mounts: list[dict[str, Any]] | None = None,
        linux: dict[str, Any] | None = None,
        namespaces: tuple[str, ...] = ("pid", "ipc", "uts", "mount", "network"),
        **members: Any,
    ) -> dict[str, Any]:
        """A spec as `ctr` on Windows creates it for the snapshotter `windows-lcow`."""
        boot = {str(VM_BOOT_FILES): str(self.emulator.directory / "LinuxBootFiles" / self.guest)}
        names = {"io.kubernetes.cri.container-type": role, "io.kubernetes.cri.sandbox-id": pod} if pod else {}
        if role == "sandbox":
            names["io.microsoft.cri.skip-pod-networking"] = "true"
        return {
            "ociVersion": "1.1.0",
            "process": self.process(*args, **(process or {})),
            "root": {"path": "rootfs"},
            "mounts": [*MOUNTS, *(mounts or [])],
            "linux": {
                "cgroupsPath": "/tests/x",
                "resources": {"devices": [{"allow": False, "access": "rwm"}]},
                "namespaces": [{"type": name} for name in namespaces],
                **(linux or {}),
            },
            "windows": {},
            "annotations": {**boot, **names, **(annotations or {})},
            **members,
        }

    def start(self, id: str, *args: str, with_log: bool = False, **members: Any) -> Shim:
        return self.shims.start(id, self.spec(*args, **members), with_log=with_log)

    def create(self, shim: Shim, **fields: Any) -> None:
        fields.setdefault("options", options())
        fields.setdefault("rootfs", self.rootfs(shim.id))
        shim.create(**fields)

    def run(self, id: str, *args: str, members: dict[str, Any] | None = None, **fields: Any) -> Shim:
        shim = self.start(id, *args, **(members or {}))
        self.create(shim, **fields)
        shim.start()
        return shim

    def output_of(self, id: str, *args: str, **members: Any) -> str:
        """Run a container to its end, which must be a success; returns what it wrote."""
        stdout = self.fifo(f"{id}-out")
        out = Reader(stdout)
        shim = self.run(id, *args, stdout=stdout, stderr=stdout, members=members)
        exited = shim.wait().exit_status
        text = out.text()
        assert exited == 0, f"exit {exited}: {text}"
        shim.delete()
        return text

    def pod(self, id: str = "pod", *, with_log: bool = False, **members: Any) -> Shim:
        """A running sandbox."""
        shim = self.start(id, *SLEEP, pod=id, role="sandbox", with_log=with_log, **members)
        self.create(shim)
        shim.start()
        return shim

    def workload(self, pod: Shim, id: str, *args: str, **members: Any) -> Shim:
        """A container of the pod, not created yet. It joins the sandbox's namespaces, as CRI requests."""
        sandbox = pod.state().pid
        joined = [{"type": name, "path": f"/proc/{sandbox}/ns/{kind}"} for name, kind in _SHARED]
        linux = {"namespaces": [{"type": "pid"}, {"type": "mount"}, *joined], **members.pop("linux", {})}
        return self.start(id, *args, pod=pod.id, role="container", linux=linux, **members)

    def run_in(self, pod: Shim, id: str, *args: str, members: dict[str, Any] | None = None, **fields: Any) -> Shim:
        shim = self.workload(pod, id, *args, **(members or {}))
        self.create(shim, **fields)
        shim.start()
        return shim

    def output_in(self, pod: Shim, id: str, *args: str, **members: Any) -> str:
        stdout = self.fifo(f"{id}-out")
        out = Reader(stdout)
        shim = self.run_in(pod, id, *args, stdout=stdout, stderr=stdout, members=members)
        exited = shim.wait().exit_status
        text = out.text()
        assert exited == 0, f"exit {exited}: {text}"
        shim.delete()
        return text

    def exec(self, shim: Shim, exec_id: str, *args: str, **members: Any) -> tuple[int, str]:
        """Run an exec to its end; its exit code and what it wrote."""
        stdout = self.fifo(f"{shim.id}-{exec_id}-out")
        out = Reader(stdout)
        shim.exec(exec_id, self.process(*args, **members), stdout=stdout, stderr=stdout)
        shim.start(exec_id)
        code = shim.wait(exec_id).exit_status
        text = out.text()
        shim.delete(exec_id)
        return code, text

    def fifo(self, name: str) -> str:
        path = str(self.directory / name)
        os.mkfifo(path)
        return path

    def vms(self) -> list[str]:
        """The ids of the VMs that exist."""
        return [str(system["Id"]) for system in self.emulator.control("status").get("systems", [])]

    def messages(self, *names: str) -> list[dict[str, Any]]:
        """The bridge messages of these names that guests have answered."""
        entries = self.emulator.journal()
        return [entry for entry in entries if entry.get("call", "").removeprefix("guest:") in names]

    def failures(self) -> list[str]:
        """Requests that guests have refused."""
        entries = [entry for entry in self.emulator.journal() if entry.get("call", "").startswith("guest:")]
        return [str(entry) for entry in entries if int(str(entry["result"]), 16) & 0x80000000]

    def leaked(self) -> list[str]:
        """Resources that the emulator still holds."""
        status = self.emulator.control("status")
        sockets = [str(path) for path in (self.emulator.directory / "hvsock").glob("*/*")]
        leaked = [f"process {pid}" for pid in self.emulator.descendants()] + sockets + self.shims.mounts()
        return leaked + [str(system) for system in status.get("systems", [])]


_SHARED = (("network", "net"), ("ipc", "ipc"), ("uts", "uts"))


def _same_device(one: Path, other: Path) -> bool:
    return one.stat().st_dev == other.stat().st_dev

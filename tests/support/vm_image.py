"""An image that a utility VM can boot from, and bundles and options for containers and pods in a utility VM."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from shim.api.runhcs_options import Options
from shim.api.types import Mount
from shim.api.wellknown import Any as PackedAny
from tests.support.emulator import Emulator
from tests.support.eventually import eventually
from tests.support.image import make_image
from tests.support.shims import Shim, Shims

SLEEP = ("cmd", "/c", "ping -t 127.0.0.1 > nul")
HYPERVISOR = Options.SandboxIsolation.HYPERVISOR


def options(**fields: Any) -> PackedAny:
    values = Options(sandbox_isolation=HYPERVISOR, sandbox_platform="windows/amd64", **fields)
    return PackedAny(type_url=Options.FULL_NAME, value=values.encode())


def fifo(vms: VmShims, name: str) -> str:
    path = str(vms.directory / name)
    os.mkfifo(path)
    return path


class VmShims:
    """Shims whose containers run in utility VMs, with one emulator."""

    def __init__(self, emulator: Emulator, shims: Shims) -> None:
        self.emulator = emulator
        self.shims = shims
        self.events = shims.events
        self.directory = shims.directory
        self.layers = [self.directory / "layers" / name for name in ("2", "1")]
        make_image(self.layers[1] / "Files")
        (self.layers[0] / "Files").mkdir(parents=True)
        (self.layers[1] / "UtilityVM" / "Files").mkdir(parents=True)
        (self.layers[1] / "UtilityVM" / "SystemTemplate.vhdx").write_bytes(b"template")

    def scratch(self, id: str) -> Path:
        return self.directory / "snapshots" / id

    def rootfs(self, id: str) -> list[Mount]:
        parents = "parentLayerPaths=" + json.dumps([str(layer) for layer in self.layers])
        return [Mount(type="windows-layer", source=str(self.scratch(id)), options=["rw", parents])]

    def spec(self, *args: str, pod: str = "", role: str = "", **members: Any) -> dict[str, Any]:
        spec: dict[str, Any] = {**self.shims.spec(*args), **members}
        spec["windows"] = {**spec["windows"], "hyperv": {}}
        if pod:
            names = {"io.kubernetes.cri.container-type": role, "io.kubernetes.cri.sandbox-id": pod}
            spec["annotations"] = {**spec.get("annotations", {}), **names}
        return spec

    def start(self, id: str, *args: str, **members: Any) -> Shim:
        return self.shims.start(id, self.spec(*args, **members))

    def create(self, shim: Shim, **fields: Any) -> None:
        fields.setdefault("options", options())
        shim.create(rootfs=self.rootfs(shim.id), **fields)

    def run(self, id: str, *args: str, members: dict[str, Any] | None = None, **fields: Any) -> Shim:
        shim = self.start(id, *args, **(members or {}))
        self.create(shim, **fields)
        shim.start()
        return shim

    def pod(self, id: str = "pod", *, with_log: bool = False, **members: Any) -> Shim:
        """A running sandbox."""
        shim = self.shims.start(id, self.spec("pause", pod=id, role="sandbox", **members), with_log=with_log)
        self.create(shim)
        assert shim.start() == 1
        return shim

    def workload(self, pod: Shim, id: str, *args: str, **members: Any) -> Shim:
        """A container of the pod, not created yet."""
        return self.shims.start(id, self.spec(*args, pod=pod.id, role="container", **members))

    def run_in(self, pod: Shim, id: str, *args: str, **fields: Any) -> Shim:
        shim = self.workload(pod, id, *args)
        self.create(shim, **fields)
        shim.start()
        return shim

    def workers(self) -> list[int]:
        return vm_workers(self.emulator)

    def documents(self, call: str) -> list[dict[str, Any]]:
        """The documents of all calls of this name so far."""
        found = []
        for entry in self.emulator.journal(call):
            found += [value for value in entry["arguments"].values() if isinstance(value, dict)]
        return found

    def expect_one_exit(self, *names: str) -> None:
        """Wait for the exit event of each of these; there must be exactly one."""
        for name in names:
            eventually(lambda name=name: f"exit {name}" in self.events.received(), f"the exit of {name}")  # type: ignore[misc]
            assert self.events.received().count(f"exit {name}") == 1

    def leaked(self) -> list[str]:
        """Resources that the emulator still holds."""
        status = self.emulator.control("status")
        sockets = [str(path) for path in (self.emulator.directory / "hvsock").glob("*/*")]
        leaked = [f"process {pid}" for pid in self.emulator.descendants()] + sockets + self.shims.mounts()
        return leaked + [str(system) for system in status.get("systems", [])]


def vm_workers(emulator: Emulator) -> list[int]:
    """The worker processes of VMs. The init of a Linux VM is a fork of its worker."""
    found = []
    for pid in emulator.descendants():
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if parent == emulator.pid and {b"hcs_emulator.vm", b"hcs_emulator.vm.linux"} & set(command):
            found.append(pid)
    return found

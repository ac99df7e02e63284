"""A Linux guest whose host and GCS record requests in one list."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from shim.container.ledger import Ledger
from shim.hcs_bindings.errors import UNEXPECTED, HcsError
from shim.logs import Log, NullChannel
from shim.oci.spec import Spec
from shim.uvm.linux.boot_files import BootFiles
from shim.uvm.linux.guest import LinuxGuest
from shim.uvm.linux.settings import LinuxVmSettings
from shim.uvm.scsi import ScsiDisks
from shim.uvm.vpci import VpciDevices

VPMEM = "VirtualMachine/Devices/VirtualPMem/Devices/"
SCSI = "VirtualMachine/Devices/Scsi/df6d0690-79e5-55b6-a5ec-c1e2f77f580a/Attachments/"
PLAN9 = "VirtualMachine/Devices/Plan9/Shares"


class FakeVm:
    """Requests are `(type, path or resource, settings)`; those of the guest have type `guest Add` and so on. A request
    whose type and path contain `fails` is refused."""

    id = "pod@vm"
    has_exited = False
    namespace = ""

    def __init__(self, annotations: dict[str, str] | None = None, build: int = 18362, *, vhd: bool = False) -> None:
        self.requests: list[tuple[str, str, Any]] = []
        self.fails = ""
        spec = Spec({"linux": {}, "annotations": annotations or {}})
        boot = BootFiles(spec.annotations, kernel_direct=True)
        boot.is_vhd = vhd
        settings = LinuxVmSettings(spec, boot, 8, build, lambda warning: None)
        self.guest = LinuxGuest(settings, Log(NullChannel()))
        self.gcs = SimpleNamespace(modify_vm=self._modify_guest)
        self.devices = VpciDevices(self.modify)
        self.disks = ScsiDisks(self.modify, self._grant, self.guest)
        self.guest.attach(self)  # type: ignore[arg-type]

    def modify(self, request: dict[str, Any]) -> None:
        self._take(request["RequestType"], request["ResourcePath"], request.get("Settings"))

    def _modify_guest(self, resource: str, request: str, settings: dict[str, Any]) -> None:
        self._take(f"guest {request}", resource, settings)

    def _grant(self, path: str) -> None:
        self._take("grant", path, None)

    def _take(self, kind: str, path: str, settings: Any) -> None:
        self.requests.append((kind, path, settings))
        if self.fails and self.fails in f"{kind} {path}":
            raise HcsError(UNEXPECTED, path)

    def take(self) -> list[tuple[str, str, Any]]:
        """The requests since the last call."""
        requests, self.requests = self.requests, []
        return requests


class FakeContainer:
    namespace = ""
    owns_vm = True

    def __init__(self, vm: FakeVm, id: str, bundle: Path) -> None:
        self.vm = vm
        self.id = id
        self.log = Log(NullChannel())
        self.ledger = Ledger(str(bundle))
        self.releases: list[Any] = []
        self.layer_releases: list[Any] = []

    def join_network(self) -> None:
        pass

    def release(self) -> None:
        for release in [*reversed(self.releases), *reversed(self.layer_releases)]:
            release()

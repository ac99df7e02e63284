r"""Devices of the host for a container in a VM: given to the VM, then looked up where the guest sees them.

A device is named by its instance path on the host (`PCIP\VEN_…`), with a last part that is a number for a virtual
function of it. The VM gets it on a bus of its own, once for all containers that want it. What the container's document
needs is where the guest put it, which Microsoft's `device-util.exe`, shared with the VM, tells.
"""

from __future__ import annotations

import os
from threading import Lock

from shim.container.network import new_guid
from shim.hcs_bindings.errors import UNEXPECTED, HcsError
from shim.hcs_bindings.windows_version import windows_build
from shim.oci.errors import InvalidSpec
from shim.platform import host
from shim.uvm.gcs.process import output_in_vm

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from shim.oci.spec import Spec
    from shim.uvm.vm import Vm

    Document = dict[str, Any]
    Device = tuple[str, int]

KINDS = ("vpci", "vpci-instance-id", "gpu")
PATH = "VirtualMachine/Devices/VirtualPci/"
TOOL = "device-util.exe"
# The bus of devices that a VM was given.
BUS = "VMBUS\\{44c4f61d-4444-4400-9d52-802e27ede19f}\\"
FIRST_BUILD_WITH_NUMA = 26100


def from_spec(spec: Spec) -> list[Device]:
    """(instance path, virtual function) of each device, checked, with the tool that will be needed."""
    found = []
    for device in spec.windows.sections("devices"):
        kind, name = device.text("idType"), device.text("id")
        if kind not in KINDS:
            raise InvalidSpec(
                f"specified device {name} has unsupported type {kind}: in a utility VM it must be {', '.join(KINDS)}"
            )
        if not name:
            raise InvalidSpec(f"{device.path}.id is empty: give the device's instance path, such as PCIP\\VEN_…")
        found.append(parse(name))
    if found and not os.path.isfile(tool()):
        raise InvalidSpec(
            f"failed to add VSMB share to utility VM for path {tool()}: it is not there, and windows.devices are found "
            "in a utility VM by it: put Microsoft's beside the shim, or use process isolation"
        )
    return found


def tool() -> str:
    return host.beside_program(TOOL)


def parse(name: str) -> Device:
    path, _, last = name.rpartition("\\")
    if path and last.isdecimal() and int(last) <= 0xFFFF:
        return path, int(last)
    return name, 0


class Devices:
    """`modify` changes the VM. What several containers want is given to it once."""

    def __init__(self, modify: Callable[[Document], None]) -> None:
        self._modify = modify
        self._lock = Lock()
        #: Device -> where on the VM's bus it is, and how many use it.
        self._given: dict[Device, tuple[str, int]] = {}

    def give(self, device: Device) -> str:
        """The GUID of its place on the bus."""
        with self._lock:
            place, users = self._given.get(device, ("", 0))
            if not users:
                place = new_guid()
                settings: Document = {"Functions": [{"DeviceInstancePath": device[0], "VirtualFunction": device[1]}]}
                if windows_build() >= FIRST_BUILD_WITH_NUMA:
                    settings["PropagateNumaAffinity"] = True
                self._modify({"ResourcePath": PATH + place, "RequestType": "Add", "Settings": settings})
            self._given[device] = (place, users + 1)
            return place

    def take(self, device: Device) -> None:
        with self._lock:
            place, users = self._given[device]
            if users > 1:
                self._given[device] = (place, users - 1)
                return
            del self._given[device]
            self._modify({"ResourcePath": PATH + place, "RequestType": "Remove"})


def assign(vm: Vm, devices: list[Device], releases: list[Callable[[], None]]) -> list[Document]:
    """What the container's document says of its devices. What was acquired is in `releases`, also on failure."""
    if not devices:
        return []
    held = vm.shares.add(tool(), read_only=True)
    releases.append(held.release)
    assigned: list[Document] = []
    for device in devices:
        place = vm.devices.give(device)
        releases.append(lambda device=device: vm.devices.take(device))  # type: ignore[misc]
        found = _locations(vm, held.guest_path, place)
        assigned += [{"Type": "DeviceInstance", "LocationPath": path} for path in found]
    return assigned


def _locations(vm: Vm, program: str, place: str) -> list[str]:
    code, text = output_in_vm(vm, f"{program} children --parentID={BUS}{{{place}}} --property=location")
    paths = [path.strip() for path in text.split(",") if path.strip()]
    if code or not paths:
        detail = f"{TOOL} ended with {code} and found {len(paths)} devices: does the VM's image have the driver?"
        raise HcsError(UNEXPECTED, f"find device {place} in {vm.id}", detail=detail)
    return paths

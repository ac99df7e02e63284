"""PCI devices for a Windows container in a VM: assigned to the VM, then located where the guest sees them.

The container's document needs the location path in the guest, which Microsoft's `device-util.exe`, shared with the VM,
reports.
"""

from __future__ import annotations

import os

from shim.hcs_bindings.errors import UNEXPECTED, HcsError
from shim.oci.errors import InvalidSpec
from shim.platform import host
from shim.uvm import vpci
from shim.uvm.windows import commands

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from shim.oci.spec import Spec
    from shim.uvm.vm import Vm
    from shim.uvm.vpci import Device

    Document = dict[str, Any]

TOOL = "device-util.exe"
# The VMBus type of devices that were assigned to a VM.
BUS = "VMBUS\\{44c4f61d-4444-4400-9d52-802e27ede19f}\\"


def from_spec(spec: Spec) -> list[Device]:
    """As `vpci.from_spec`; the tool must exist if there is any device."""
    found = vpci.from_spec(spec)
    if found and not os.path.isfile(tool()):
        raise InvalidSpec(
            f"failed to add VSMB share to utility VM for path {tool()}: it is not there, and windows.devices are found "
            "in a utility VM by it: put Microsoft's beside the shim, or use process isolation"
        )
    return found


def tool() -> str:
    return host.beside_program(TOOL)


def assign(vm: Vm, devices: list[Device], releases: list[Callable[[], None]]) -> list[Document]:
    """The devices for the container's document. What undoes each step is in `releases`, also on failure."""
    if not devices:
        return []
    lease = vm.shares.add(tool(), read_only=True)
    releases.append(lease.release)
    assigned: list[Document] = []
    for device in devices:
        channel = vm.devices.add(device)
        releases.append(lambda device=device: vm.devices.remove(device))  # type: ignore[misc]
        found = _locations(vm, lease.guest_path, channel)
        assigned += [{"Type": "DeviceInstance", "LocationPath": path} for path in found]
    return assigned


def _locations(vm: Vm, program: str, channel: str) -> list[str]:
    code, text = commands.run_with_output(vm, f"{program} children --parentID={BUS}{{{channel}}} --property=location")
    paths = [path.strip() for path in text.split(",") if path.strip()]
    if code or not paths:
        detail = f"{TOOL} exited with {code} and found {len(paths)} devices: does the VM's image have the driver?"
        raise HcsError(UNEXPECTED, f"find device {channel} in {vm.id}", detail=detail)
    return paths

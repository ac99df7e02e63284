r"""PCI devices of the host that are assigned to a VM (`VirtualPci`), refcounted.

A device is named by its instance path on the host (`PCIP\VEN_…`), with a last part, after either kind of slash, that
is a number for a virtual function of it. The VM gets it on a bus of its own, once for all containers that request it.
"""

from __future__ import annotations

from threading import Lock

from shim.container.network import new_guid
from shim.hcs_bindings.windows_version import windows_build
from shim.oci.errors import InvalidSpec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from shim.oci.spec import Spec

    Document = dict[str, Any]
    Device = tuple[str, int]

KINDS = ("vpci", "vpci-instance-id", "gpu")
PATH = "VirtualMachine/Devices/VirtualPci/"
FIRST_BUILD_WITH_NUMA = 26100


def from_spec(spec: Spec) -> list[Device]:
    """(instance path, virtual function) of each device, checked."""
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
    return found


def parse(name: str) -> Device:
    path, _, last = name.replace("/", "\\").rpartition("\\")
    if path and last.isascii() and last.isdecimal() and int(last) <= 0xFFFF:
        return path, int(last)
    return name, 0


class VpciDevices:
    """`modify` is HCS's modify of the VM."""

    def __init__(self, modify: Callable[[Document], None]) -> None:
        self._modify = modify
        self._lock = Lock()
        #: Device -> the GUID of its VMBus channel, and its refcount.
        self._assigned: dict[Device, tuple[str, int]] = {}

    def add(self, device: Device) -> str:
        """Assign a device to the VM; returns the GUID of its VMBus channel."""
        with self._lock:
            channel, refcount = self._assigned.get(device, ("", 0))
            if not refcount:
                channel = new_guid()
                settings: Document = {"Functions": [{"DeviceInstancePath": device[0], "VirtualFunction": device[1]}]}
                if windows_build() >= FIRST_BUILD_WITH_NUMA:
                    settings["PropagateNumaAffinity"] = True
                self._modify({"ResourcePath": PATH + channel, "RequestType": "Add", "Settings": settings})
            self._assigned[device] = (channel, refcount + 1)
            return channel

    def adopt(self, device: Device, channel: str) -> None:
        """A device that the VM's own document assigns: it stays for the VM's lifetime."""
        with self._lock:
            self._assigned[device] = (channel, 1)

    def remove(self, device: Device) -> None:
        with self._lock:
            channel, refcount = self._assigned[device]
            if refcount > 1:
                self._assigned[device] = (channel, refcount - 1)
                return
            del self._assigned[device]
            self._modify({"ResourcePath": PATH + channel, "RequestType": "Remove"})

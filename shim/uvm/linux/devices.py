"""PCI devices and kernel drivers for a Linux container in a VM.

A device is assigned to the VM, and the guest waits for it; the guest's spec names it by its VMBus channel. Drivers are
disks with kernel modules, which a program of the VM installs before the network and the devices need them. The
counterparts are devices.go and drivers.go in https://github.com/microsoft/hcsshim/tree/main/internal.
"""

from __future__ import annotations

from shim.hcs_bindings.errors import UNEXPECTED, ErrorContext, HcsError
from shim.oci.annotations import vm as names
from shim.oci.errors import InvalidSpec
from shim.platform import host
from shim.uvm import vpci
from shim.uvm.linux import commands

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from shim.oci.spec import Spec
    from shim.uvm.linux.guest import LinuxGuest

    Document = dict[str, Any]
    Release = Callable[[], None]

INSTALLER = "/bin/install-drivers"
DRIVERS = "/run/drivers/"
# Modules are loaded one by one, and each may wait for hardware.
INSTALL_SECONDS = 120.0
# The namespace of the directories' names, as hcsshim has it.
_NAMESPACE = bytes.fromhex("914aadc8f70043658016ddad0a9d406d")


def drivers(spec: Spec) -> list[str]:
    """Disks with drivers, all of which exist."""
    paths = spec.annotations.texts(names.KERNEL_DRIVERS)
    for path in paths:
        if not host.exists(path):
            raise InvalidSpec(
                f"failed to find path to drivers at {path}: it does not exist; correct annotation "
                f"{names.KERNEL_DRIVERS}"
            )
    return paths


def install(guest: LinuxGuest, path: str) -> Release:
    """Install the drivers of a disk. Returns the release of the disk; the drivers stay loaded."""
    with ErrorContext(f"failed to add SCSI disk to utility VM for path {path}"):
        lease = guest.vm.disks.attach(path, read_only=True)
    try:
        arguments = (INSTALLER, f"{DRIVERS}{guid_of(path)}", lease.guest_path)
        code, output = commands.run(guest, arguments, stderr=True, timeout=INSTALL_SECONDS)
        if code:
            what = f"failed to install driver {lease.guest_path} in uvm with exit code {code}"
            raise HcsError(UNEXPECTED, f"{what}: {path} in {guest.vm.id}", detail=output.strip())
    except BaseException:
        lease.release()
        raise
    return lease.release


def guid_of(path: str) -> str:
    """A GUID of version 5, so that the same disk has the same directory."""
    from hashlib import sha1  # specified, and not for security

    digest = bytearray(sha1(_NAMESPACE + path.encode(), usedforsecurity=False).digest()[:16])
    digest[6] = digest[6] & 0x0F | 0x50
    digest[8] = digest[8] & 0x3F | 0x80
    text = digest.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def check(spec: Spec) -> None:
    """Refuse devices that cannot be assigned to a VM."""
    vpci.from_spec(spec)


def assign(guest: LinuxGuest, spec: Spec, releases: list[Release]) -> list[Document]:
    """The devices for the guest's spec. What undoes each step is in `releases`, also on failure."""
    assigned: list[Document] = []
    for section, device in zip(spec.windows.sections("devices"), vpci.from_spec(spec), strict=True):
        with ErrorContext(f"failed to assign device {device[0]}, function {device[1]} to pod {guest.vm.id}"):
            channel = guest.vm.devices.add(device)
            releases.append(lambda device=device: guest.vm.devices.remove(device))  # type: ignore[misc]
            guest.vm.gcs.modify_vm("VPCIDevice", "Add", {"VMBusGUID": channel})
        assigned.append({**section.values, "id": channel})
    return assigned

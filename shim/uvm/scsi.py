"""Disks of a VM: attached to its one SCSI controller, mounted in the guest, counted.

Attaching is host first, guest second; detaching the other way round. The same disk for two containers is attached and
mounted once. In the guest a disk appears at c:\\mounts\\scsi\\m0, m1 …, the first that is free.
"""

from __future__ import annotations

from threading import Lock

from shim.oci.errors import InvalidSpec
from shim.uvm.lease import Lease
from shim.uvm.windows.document import SCSI_CONTROLLER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from shim.uvm.guest import Guest

    Document = dict[str, Any]

VIRTUAL_DISK = "VirtualDisk"
PHYSICAL_DISK = "PassThru"
EXTENSIBLE_DISK = "ExtensibleVirtualDisk"
LUNS = 64
PATH = f"VirtualMachine/Devices/Scsi/{SCSI_CONTROLLER}/Attachments/"
GUEST_PATH = "c:\\mounts\\scsi\\m"


class _Disk:
    __slots__ = ("guest_path", "lun", "mount", "users")

    def __init__(self, lun: int, mount: int) -> None:
        self.lun = lun
        self.mount = mount
        self.guest_path = f"{GUEST_PATH}{mount}"
        self.users = 0


class Disks:
    """`modify` changes the VM; `grant` lets it open a file of the host."""

    def __init__(
        self, modify: Callable[[Document], None], grant: Callable[[str], None], guest: Guest, reserved: int = 1
    ) -> None:
        self._modify = modify
        self._grant = grant
        self._guest = guest
        self._lock = Lock()
        self._luns = set(range(reserved))
        self._mounts: set[int] = set()
        self._disks: dict[tuple[str, bool, str, str], _Disk] = {}

    def attach(self, path: str, *, read_only: bool = False, kind: str = VIRTUAL_DISK, provider: str = "") -> Lease:
        """`provider` is the type of an extensible disk."""
        key = (path, read_only, kind, provider)
        with self._lock:
            disk = self._disks.get(key)
            if disk is None:
                disk = self._disks[key] = self._attach(path, read_only, kind, provider)
            disk.users += 1
        return Lease(disk.guest_path, lambda: self._release(key))

    def _attach(self, path: str, read_only: bool, kind: str, provider: str) -> _Disk:
        disk = _Disk(_first_free(self._luns, LUNS), _first_free(self._mounts, LUNS))
        if kind != EXTENSIBLE_DISK:
            self._grant(path)
        settings: Document = {"Type": kind, "Path": path}
        if read_only:
            settings["ReadOnly"] = True
        if provider:
            settings["ExtensibleVirtualDiskType"] = provider
        self._modify({"ResourcePath": f"{PATH}{disk.lun}", "RequestType": "Add", "Settings": settings})
        try:
            self._guest.modify_vm("MappedVirtualDisk", "Add", _mapped(disk))
        except BaseException:
            self._detach(disk)
            raise
        self._luns.add(disk.lun)
        self._mounts.add(disk.mount)
        return disk

    def _release(self, key: tuple[str, bool, str, str]) -> None:
        with self._lock:
            disk = self._disks[key]
            disk.users -= 1
            if disk.users:
                return
            del self._disks[key]
            # If the guest does not let go, the slot is lost, and with it the VM's use of this disk, not more.
            self._guest.modify_vm("MappedVirtualDisk", "Remove", _mapped(disk))
            self._mounts.discard(disk.mount)
            self._detach(disk)
            self._luns.discard(disk.lun)

    def _detach(self, disk: _Disk) -> None:
        self._modify({"ResourcePath": f"{PATH}{disk.lun}", "RequestType": "Remove"})


def _mapped(disk: _Disk) -> Document:
    settings: Document = {"ContainerPath": disk.guest_path}
    if disk.lun:
        settings["Lun"] = disk.lun
    return settings


def _first_free(taken: set[int], limit: int) -> int:
    for number in range(limit):
        if number not in taken:
            return number
    raise InvalidSpec(f"the VM has {limit} disks already, which is as many as it can have: use fewer containers")

"""SCSI disks of a VM: attached to its controller by HCS, mounted by the guest, refcounted.

To attach is host first, guest second; to detach is the other way round. The same disk for two containers is attached
and mounted once. The guest decides the path (`Guest.disk_path`) by number, the lowest that is free.
"""

from __future__ import annotations

from threading import Lock

from shim.oci.errors import InvalidSpec
from shim.uvm.guest import Lease

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
CONTROLLER = "df6d0690-79e5-55b6-a5ec-c1e2f77f580a"
PATH = f"VirtualMachine/Devices/Scsi/{CONTROLLER}/Attachments/"


class _Disk:
    __slots__ = ("guest_path", "lun", "mount", "refcount")

    def __init__(self, lun: int, mount: int, guest_path: str) -> None:
        self.lun = lun
        self.mount = mount
        self.guest_path = guest_path
        self.refcount = 0


class ScsiDisks:
    """`modify` is HCS's modify of the VM; `grant` lets the VM open a file of the host."""

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
            disk.refcount += 1
        return Lease(disk.guest_path, lambda: self._release(key))

    def _attach(self, path: str, read_only: bool, kind: str, provider: str) -> _Disk:
        lun, mount = _first_free(self._luns, LUNS), _first_free(self._mounts, LUNS)
        disk = _Disk(lun, mount, self._guest.disk_path(mount))
        if kind != EXTENSIBLE_DISK:
            self._grant(path)
        settings: Document = {"Type": kind, "Path": path}
        if read_only:
            settings["ReadOnly"] = True
        if provider:
            settings["ExtensibleVirtualDiskType"] = provider
        self._modify({"ResourcePath": f"{PATH}{disk.lun}", "RequestType": "Add", "Settings": settings})
        try:
            self._guest.mount_disk(disk.lun, disk.guest_path)
        except BaseException:
            self._detach(disk)
            raise
        self._luns.add(disk.lun)
        self._mounts.add(disk.mount)
        return disk

    def _release(self, key: tuple[str, bool, str, str]) -> None:
        with self._lock:
            disk = self._disks[key]
            disk.refcount -= 1
            if disk.refcount:
                return
            del self._disks[key]
            # If the guest does not unmount it, the slot and the VM's use of this disk are lost, not more.
            self._guest.unmount_disk(disk.lun, disk.guest_path)
            self._mounts.discard(disk.mount)
            self._detach(disk)
            self._luns.discard(disk.lun)

    def _detach(self, disk: _Disk) -> None:
        self._modify({"ResourcePath": f"{PATH}{disk.lun}", "RequestType": "Remove"})


def _first_free(taken: set[int], limit: int) -> int:
    for number in range(limit):
        if number not in taken:
            return number
    raise InvalidSpec(f"the VM has {limit} disks already, which is as many as it can have: use fewer containers")

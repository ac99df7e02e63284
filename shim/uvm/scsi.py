"""SCSI disks of a VM: attached to one of its controllers by HCS, mounted by the guest, refcounted.

To attach is host first, guest second; to detach is the other way round. Attachments and mounts are counted apart: a
disk has one slot whatever it is used for, and a mount for each way of mounting it (`DiskMount`). The guest decides the
path of a mount (`Guest.disk_path`) by number, the lowest that is free, unless the caller gives one. The counterpart is
https://github.com/microsoft/hcsshim/tree/main/internal/uvm/scsi.
"""

from __future__ import annotations

from threading import Lock

from shim.hcs_bindings.errors import ErrorContext
from shim.oci.errors import InvalidSpec
from shim.uvm.guest import Lease

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from shim.uvm.guest import Guest, Slot

    Document = dict[str, Any]
    DiskKey = tuple[str, bool, str, str]

VIRTUAL_DISK = "VirtualDisk"
PHYSICAL_DISK = "PassThru"
EXTENSIBLE_DISK = "ExtensibleVirtualDisk"
LUNS = 64
# By number. A Linux guest finds a controller by its GUID.
CONTROLLERS = (
    "df6d0690-79e5-55b6-a5ec-c1e2f77f580a",
    "0110f83b-de10-5172-a266-78bca56bf50a",
    "b5d2d8d4-3a75-51bf-945b-3444dc6b8579",
    "305891a9-b251-5dfe-91a2-c25d9212275b",
)
CONTROLLER = CONTROLLERS[0]


class DiskMount:
    """How the guest mounts a disk. Only a Linux guest has more than one way."""

    __slots__ = ("block_device", "ensure_filesystem", "filesystem", "options", "partition")

    def __init__(
        self,
        *,
        partition: int = 0,
        options: Sequence[str] = (),
        filesystem: str = "",
        ensure_filesystem: bool = False,
        block_device: bool = False,
    ) -> None:
        """`ensure_filesystem`: format a disk that has another file system, or none."""
        self.partition = partition
        self.options = sorted(options)
        self.filesystem = filesystem
        self.ensure_filesystem = ensure_filesystem
        self.block_device = block_device

    def equals(self, other: DiskMount) -> bool:
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)


PLAIN = DiskMount()


class _Disk:
    __slots__ = ("read_only", "refcount", "slot")

    def __init__(self, slot: Slot, read_only: bool) -> None:
        self.slot = slot
        self.read_only = read_only
        self.refcount = 0


class _Mount:
    __slots__ = ("config", "disk", "guest_path", "refcount")

    def __init__(self, disk: _Disk, config: DiskMount, guest_path: str) -> None:
        self.disk = disk
        self.config = config
        self.guest_path = guest_path
        self.refcount = 0


class ScsiDisks:
    """`modify` is HCS's modify of the VM; `grant` lets the VM open a file of the host."""

    def __init__(self, modify: Callable[[Document], None], grant: Callable[[str], None], guest: Guest) -> None:
        self._modify = modify
        self._grant = grant
        self._guest = guest
        self._lock = Lock()
        self._slots = [(controller, lun) for controller in range(guest.scsi_controllers) for lun in range(LUNS)]
        self._taken = set(guest.reserved_slots)
        self._disks: dict[DiskKey, _Disk] = {}
        self._mounts: dict[int, _Mount] = {}

    def attach(
        self,
        path: str,
        *,
        read_only: bool = False,
        kind: str = VIRTUAL_DISK,
        provider: str = "",
        mount: DiskMount = PLAIN,
        at: str = "",
        grant: bool = True,
    ) -> Lease:
        """`provider` is the type of an extensible disk. `at` is the path of a new mount in the guest; a disk that is
        mounted in the same way already stays where it is. Without `grant` the VM can open the file already."""
        key = (path, read_only, kind, provider)
        if grant and kind != EXTENSIBLE_DISK:
            self._grant(path)
        with self._lock:
            disk = self._disks.get(key) or self._attach(key)
            try:
                number = self._mount(disk, mount, at)
            except BaseException:
                if not disk.refcount:
                    self._detach(key)
                raise
            disk.refcount += 1
            self._mounts[number].refcount += 1
            guest_path = self._mounts[number].guest_path
        return Lease(guest_path, lambda: self._release(key, number))

    def _attach(self, key: DiskKey) -> _Disk:
        path, read_only, kind, provider = key
        slot = next((slot for slot in self._slots if slot not in self._taken), None)
        if slot is None:
            raise InvalidSpec(
                f"no available location: the VM has {len(self._slots)} disks already, which is as many as it can have: "
                "use fewer containers"
            )
        settings: Document = {"Type": kind, "Path": path}
        if read_only:
            settings["ReadOnly"] = True
        if provider:
            settings["ExtensibleVirtualDiskType"] = provider
        with ErrorContext(f"attach {kind}/{path} at controller {slot[0]} lun {slot[1]}"):
            self._modify({"ResourcePath": _path(slot), "RequestType": "Add", "Settings": settings})
        self._taken.add(slot)
        disk = self._disks[key] = _Disk(slot, read_only)
        return disk

    def _mount(self, disk: _Disk, config: DiskMount, at: str) -> int:
        for number, mount in self._mounts.items():
            if mount.disk is disk and mount.config.equals(config):
                return number
        if at and any(mount.guest_path == at for mount in self._mounts.values()):
            raise InvalidSpec(f"cannot mount over an existing mountpoint: {at}: give another container id")
        number = next(number for number in range(len(self._mounts) + 1) if number not in self._mounts)
        mount = _Mount(disk, config, at or self._guest.disk_path(number))
        with ErrorContext(f"mount scsi controller {disk.slot[0]} lun {disk.slot[1]} at {mount.guest_path}"):
            self._guest.mount_disk(disk.slot, mount.guest_path, disk.read_only, config)
        self._mounts[number] = mount
        return number

    def _release(self, key: DiskKey, number: int) -> None:
        with self._lock:
            disk, mount = self._disks[key], self._mounts[number]
            mount.refcount -= 1
            disk.refcount -= 1
            if not mount.refcount:
                # If the guest does not unmount it, the slot and the VM's use of this disk are lost, not more.
                self._guest.unmount_disk(disk.slot, mount.guest_path, disk.read_only, mount.config)
                del self._mounts[number]
            if not disk.refcount:
                self._detach(key)

    def _detach(self, key: DiskKey) -> None:
        disk = self._disks.pop(key)
        self._guest.unplug_disk(disk.slot)
        self._modify({"ResourcePath": _path(disk.slot), "RequestType": "Remove"})
        self._taken.discard(disk.slot)


def _path(slot: Slot) -> str:
    return f"VirtualMachine/Devices/Scsi/{CONTROLLERS[slot[0]]}/Attachments/{slot[1]}"

"""virtdisk.dll's calls. A new disk is a sparse raw image, which a Linux guest partitions or formats; a disk that
`HcsFormatWritableLayerVhd` formats gets a directory for its content (see layers.py)."""

from __future__ import annotations

import os
import uuid

from hcs_emulator.service.errors import (
    ERROR_FILE_EXISTS,
    ERROR_FILE_NOT_FOUND,
    ERROR_NOT_READY,
    ERROR_SHARING_VIOLATION,
    HcsError,
)
from hcs_emulator.service.handles import Handle
from hcs_emulator.service.storage.layers import DEFAULT_SIZE, absolute, disk_content


class VirtualDisk:
    """An open disk. Attached without a permanent lifetime it is detached when its handle closes."""

    PERMANENT = 0x4

    def __init__(self, disks: Disks, path: str) -> None:
        self.disks = disks
        self.path = path

    def attach(self, flags: int) -> None:
        if self.path in self.disks.attached:
            raise HcsError(ERROR_SHARING_VIOLATION, f"{self.path} is attached", data=self.path)
        self.disks.attached[self.path] = (len(self.disks.attached) + 1, bool(flags & self.PERMANENT))

    def detach(self) -> None:
        if self.disks.attached.pop(self.path, None) is None:
            raise HcsError(ERROR_NOT_READY, f"{self.path} is not attached", data=self.path)

    def physical_path(self) -> str:
        if self.path not in self.disks.attached:
            raise HcsError(ERROR_NOT_READY, f"{self.path} is not attached", data=self.path)
        return rf"\\.\PhysicalDrive{self.disks.attached[self.path][0]}"

    def format(self) -> None:
        os.makedirs(disk_content(self.path), exist_ok=True)

    def mount_path(self) -> str:
        return f"\\\\?\\Volume{{{uuid.uuid5(uuid.NAMESPACE_URL, self.path)}}}"

    def handle_closed(self, handle: Handle) -> None:
        attachment = self.disks.attached.get(self.path)
        if attachment is not None and not attachment[1]:
            del self.disks.attached[self.path]


class Disks:
    def __init__(self) -> None:
        self.attached: dict[str, tuple[int, bool]] = {}

    def create(self, path: str | None, parent: str | None, size: int) -> VirtualDisk:
        disk = absolute(path)
        if os.path.exists(disk):
            raise HcsError(ERROR_FILE_EXISTS, f"{disk} exists", data=disk)
        if parent and not os.path.exists(absolute(parent)):
            raise HcsError(ERROR_FILE_NOT_FOUND, f"{parent} does not exist", data=parent)
        try:
            with open(disk, "xb") as image:
                image.truncate(size or DEFAULT_SIZE)
        except FileNotFoundError:
            raise HcsError(ERROR_FILE_NOT_FOUND, f"the directory of {disk} does not exist", data=disk) from None
        return VirtualDisk(self, disk)

    def open(self, path: str | None) -> VirtualDisk:
        disk = absolute(path)
        if not os.path.isfile(disk):
            raise HcsError(ERROR_FILE_NOT_FOUND, f"{disk} does not exist", data=disk)
        return VirtualDisk(self, disk)

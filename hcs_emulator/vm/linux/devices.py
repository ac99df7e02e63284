"""The disks of a Linux VM: loop devices on files of the host, with the nodes and the sysfs entries that a guest sees.

The worker makes them from outside, through /proc/<pid of init>/root. It holds each loop device open: the kernel frees
it when the disk is detached, or the worker has exited, and nothing in the guest uses it any more.
"""

from __future__ import annotations

import os
import shutil
import string
from typing import Any

from hcs_emulator.vm.linux import partitions, syscalls

_VHD_FOOTER = 512
_BLOCK = 0o060600


class Devices:
    """`root` is the path of the guest's root directory."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._disks: dict[str, _Disk] = {}
        self._memory: dict[str, _Disk] = {}

    def add_controllers(self, controllers: list[str]) -> None:
        for index, controller in enumerate(controllers):
            os.makedirs(f"{self._root}/sys/bus/vmbus/devices/{controller.lower()}/host{index}", exist_ok=True)

    def change(self, disks: dict[str, Any], memory: dict[str, Any]) -> None:
        """Attach and detach until these are the disks (`controller:lun`) and PMem devices (`device` or
        `device-offset`).
        """
        self._replace(self._disks, disks, self._attach_disk, self._detach_disk)
        self._replace(self._memory, memory, self._attach_memory, self._detach_memory)

    @staticmethod
    def _replace(present: dict[str, _Disk], wanted: dict[str, Any], attach: Any, detach: Any) -> None:
        for place in [place for place, disk in present.items() if wanted.get(place) != disk.settings]:
            detach(place, present.pop(place))
        for place, settings in wanted.items():
            if place not in present:
                present[place] = attach(place, settings)

    def _attach_disk(self, place: str, settings: dict[str, Any]) -> _Disk:
        controller, lun = place.split(":")
        name = next(name for name in _names() if not os.path.exists(f"{self._root}/dev/{name}"))
        disk = _Disk(settings)
        entry = f"{self._root}/sys/bus/scsi/devices/{controller}:0:0:{lun}"
        try:
            disk.make_node(f"{self._root}/dev/{name}")
            for number, (offset, size) in partitions.read(settings["path"]).items():
                disk.add_partition(f"{self._root}/dev/{name}{number}", offset, size)
                os.makedirs(f"{entry}/block/{name}/{name}{number}")
            os.makedirs(f"{entry}/block/{name}", exist_ok=True)
            with open(f"{entry}/delete", "w"):
                pass
        except BaseException:
            disk.close()
            raise
        return disk

    def _detach_disk(self, place: str, disk: _Disk) -> None:
        controller, lun = place.split(":")
        shutil.rmtree(f"{self._root}/sys/bus/scsi/devices/{controller}:0:0:{lun}", ignore_errors=True)
        disk.close()

    def _attach_memory(self, place: str, settings: dict[str, Any]) -> _Disk:
        disk = _Disk(settings)
        try:
            disk.make_node(f"{self._root}/dev/pmem{place}")
        except BaseException:
            disk.close()
            raise
        return disk

    @staticmethod
    def _detach_memory(place: str, disk: _Disk) -> None:
        disk.close()


class _Disk:
    """A file of the host as open loop devices, for the whole disk and for each partition, and their nodes. A virtual
    disk with a VHD footer is shown without it.
    """

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings
        self._devices: list[int] = []
        self._nodes: list[str] = []

    def make_node(self, path: str) -> None:
        self._add(path, 0, _content_size(self.settings["path"]))

    def add_partition(self, path: str, offset: int, size: int) -> None:
        self._add(path, offset, size)

    def _add(self, path: str, offset: int, size: int) -> None:
        read_only = self.settings["read_only"]
        device, number = syscalls.attach_loop(self.settings["path"], read_only=read_only, offset=offset, size=size)
        self._devices.append(device)
        os.mknod(path, _BLOCK, number)
        self._nodes.append(path)

    def close(self) -> None:
        for path in self._nodes:
            try:
                os.unlink(path)
            except OSError:
                pass
        for device in self._devices:
            os.close(device)


def _content_size(path: str) -> int:
    """The size without the footer of a fixed VHD; 0 stands for the whole file."""
    size = os.path.getsize(path)
    if size < _VHD_FOOTER:
        return 0
    with open(path, "rb") as file:
        file.seek(size - _VHD_FOOTER)
        return size - _VHD_FOOTER if file.read(8) == b"conectix" else 0


def _names() -> list[str]:
    """sda … sdz, sdaa … sdzz, in the order of the kernel."""
    letters = string.ascii_lowercase
    return [f"sd{one}" for one in letters] + [f"sd{one}{two}" for one in letters for two in letters]

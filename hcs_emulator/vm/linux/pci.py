"""Assigned PCI devices of a Linux VM: the entries by which a guest finds a device and its node.

Nothing is behind the node: the emulator has no device to pass on.
"""

from __future__ import annotations

import os
import shutil
import stat

_MISC_MAJOR, _FIRST_MINOR = 10, 256  # above the numbers of misc devices that drivers have


class PciDevices:
    """`root` is the path of the guest's root directory."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._present: dict[str, int] = {}

    def change(self, devices: list[str]) -> None:
        """Add and remove until these are the devices, by their VMBus ids."""
        for device in [device for device in self._present if device not in devices]:
            self._remove(device)
        for device in devices:
            if device not in self._present:
                self._add(device)

    def _add(self, device: str) -> None:
        index = next(number for number in range(len(self._present) + 1) if number not in self._present.values())
        bus = f"{index:04x}:00"
        entry = f"/sys/bus/vmbus/devices/{device}/pci{bus}/{bus}:00.0"
        os.makedirs(self._root + entry)
        number = os.makedev(_MISC_MAJOR, _FIRST_MINOR + index)
        os.symlink(entry, self._number_entry(index))
        os.mknod(f"{self._root}/dev/vpci{index}", stat.S_IFCHR | 0o600, number)
        self._present[device] = index

    def _remove(self, device: str) -> None:
        index = self._present.pop(device)
        os.unlink(f"{self._root}/dev/vpci{index}")
        os.unlink(self._number_entry(index))
        shutil.rmtree(f"{self._root}/sys/bus/vmbus/devices/{device}")

    def _number_entry(self, index: int) -> str:
        return f"{self._root}/sys/dev/char/{_MISC_MAJOR}:{_FIRST_MINOR + index}"

"""Persistent memory devices: read-only layers, one per device, or several at offsets of one device.

The machine gives every mapping of a device a node of its own, `/dev/pmem<device>-<offset>`. gcs makes a dm-linear
device for each; the machine's kernel need not have the device mapper.
"""

from __future__ import annotations

import fcntl
import os
import struct
from typing import Any

from hcs_emulator.vm.linux.agent import mounts, rules, syscalls
from hcs_emulator.vm.linux.agent.errors import GuestError, RuleError, failed, reason

_BLKGETSIZE64 = 0x80081272
_PAGE = 4096
_VHD_FOOTER = 512


def device_path(settings: dict[str, Any]) -> str:
    number, mapping = settings["DeviceNumber"], settings["MappingInfo"]
    if mapping is None:
        return f"/dev/pmem{number}"
    offset, size = mapping["DeviceOffsetInBytes"], mapping["DeviceSizeInBytes"]
    path = f"/dev/pmem{number}-{offset}"
    try:
        present = device_size(path)
    except OSError as error:
        name = f"dm-linear-pmem{number}-{offset}-{size}"
        raise GuestError(f"failed to create {name}: {path}: {reason(error)}") from error
    if not present <= size <= round_up(present + _VHD_FOOTER):
        raise RuleError(rules.LAYERS_MOUNTED, f"the mapping at {path} has {present} bytes, the host names {size}")
    return path


def device_size(path: str) -> int:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return int(struct.unpack("<Q", fcntl.ioctl(descriptor, _BLKGETSIZE64, bytes(8)))[0])
    finally:
        os.close(descriptor)


def round_up(size: int) -> int:
    return (size + _PAGE - 1) // _PAGE * _PAGE


def mount(device: str, target: str) -> None:
    mounts.make_directory(target, 0o700)
    try:
        syscalls.mount(device, target, "ext4", syscalls.MS_RDONLY, "noload")
    except OSError as error:
        mounts.try_remove_tree(target)
        raise failed(f"failed to mount {device} onto {target}", error) from error

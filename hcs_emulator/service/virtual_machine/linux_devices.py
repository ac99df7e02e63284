"""The devices of a Linux VM that HCS checks: persistent memory, Plan9 shares, adapters of a network namespace.

The functions change the document's parts; the settings of the VM call them.
"""

from __future__ import annotations

import os
import stat
from typing import Any

from hcs_emulator.service.errors import (
    ERROR_ALREADY_EXISTS,
    ERROR_FILE_NOT_FOUND,
    ERROR_INVALID_PARAMETER,
    ERROR_NOT_FOUND,
    ERROR_PATH_NOT_FOUND,
    HcsError,
)
from hcs_emulator.service.schema.modify import Modification

PAGE = 4096
MOST_MAPPINGS = 1024
FLAG_READ_ONLY, FLAG_RESTRICT_FILES = 0x1, 0x80
_KNOWN_FLAGS = 0x1 | 0x4 | 0x8 | 0x80


# persistent memory


def check_memory_devices(pmem: dict[str, Any]) -> None:
    if pmem.get("MaximumSizeBytes", 0) % PAGE:
        raise HcsError(
            ERROR_INVALID_PARAMETER,
            "the size of persistent memory is a multiple of 4096",
            data="$.VirtualMachine.Devices.VirtualPMem.MaximumSizeBytes",
        )
    for number, device in (pmem.get("Devices") or {}).items():
        _require_device(pmem, number)
        _check_image(pmem, device["HostPath"])
        present: dict[str, Any] = {}
        for offset, mapping in (device.get("Mappings") or {}).items():
            _check_mapping(pmem, present, offset, mapping)
            present[offset] = mapping


def change_memory_device(pmem: dict[str, Any], request: Modification) -> None:
    number = str(int(request.keys["device"]))
    _require_device(pmem, number)
    devices = pmem.setdefault("Devices", {})
    if request.request == "Add":
        if number in devices:
            raise HcsError(ERROR_ALREADY_EXISTS, f"pmem device {number} exists", data=number)
        _check_image(pmem, request.settings["HostPath"])
        devices[number] = request.settings
    elif devices.pop(number, None) is None:
        raise HcsError(ERROR_NOT_FOUND, f"pmem device {number} does not exist", data=number)


def change_mapping(pmem: dict[str, Any], request: Modification) -> None:
    """A mapping needs no device with a file of its own: then the device consists of its mappings."""
    number, offset = str(int(request.keys["device"])), str(int(request.keys["offset"]))
    _require_device(pmem, number)
    devices = pmem.setdefault("Devices", {})
    device = devices.get(number, {})
    mappings = device.get("Mappings") or {}
    if request.request == "Add":
        if offset in mappings:
            raise HcsError(ERROR_ALREADY_EXISTS, f"pmem device {number} has a mapping at {offset}", data=offset)
        if "HostPath" in device:
            raise HcsError(ERROR_INVALID_PARAMETER, f"pmem device {number} is {device['HostPath']}", data=number)
        _check_mapping(pmem, mappings, offset, request.settings)
        devices.setdefault(number, device)["Mappings"] = mappings | {offset: request.settings}
        return
    if offset not in mappings:
        raise HcsError(ERROR_NOT_FOUND, f"pmem device {number} has no mapping at {offset}", data=offset)
    del mappings[offset]
    if not mappings and "HostPath" not in device:
        del devices[number]


def memory_for_guest(pmem: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """By node: `3` is /dev/pmem3, `3-4096` the mapping at this offset of it."""
    found: dict[str, dict[str, Any]] = {}
    for number, device in (pmem.get("Devices") or {}).items():
        if "HostPath" in device:
            found[number] = {"path": device["HostPath"], "read_only": True}
        for offset, mapping in (device.get("Mappings") or {}).items():
            found[f"{number}-{offset}"] = {"path": mapping["HostPath"], "read_only": True}
    return found


def _require_device(pmem: dict[str, Any], number: str) -> None:
    if int(number) >= pmem.get("MaximumCount", 0):
        raise HcsError(ERROR_INVALID_PARAMETER, f"the VM has no PMem device {number}", data=number)


def _check_image(pmem: dict[str, Any], path: str) -> int:
    if not os.path.isfile(path):
        raise HcsError(ERROR_FILE_NOT_FOUND, f"{path} does not exist", data=path)
    size = os.path.getsize(path)
    largest = pmem.get("MaximumSizeBytes", 0)
    if largest and size > largest:
        raise HcsError(ERROR_INVALID_PARAMETER, f"{path} has {size} bytes, a device at most {largest}", data=path)
    return size


def _check_mapping(pmem: dict[str, Any], present: dict[str, Any], offset: str, mapping: dict[str, Any]) -> None:
    if int(offset) % PAGE:
        raise HcsError(ERROR_INVALID_PARAMETER, "a mapping begins at a page boundary", data=offset)
    if len(present) >= MOST_MAPPINGS:
        raise HcsError(ERROR_INVALID_PARAMETER, f"a device has at most {MOST_MAPPINGS} mappings", data=offset)
    begin, end = int(offset), int(offset) + _rounded(_check_image(pmem, mapping["HostPath"]))
    largest = pmem.get("MaximumSizeBytes", 0)
    if largest and end > largest:
        raise HcsError(ERROR_INVALID_PARAMETER, f"the mapping ends at {end}, the device at {largest}", data=offset)
    for other, entry in present.items():
        if begin < int(other) + _rounded(os.path.getsize(entry["HostPath"])) and int(other) < end:
            raise HcsError(ERROR_INVALID_PARAMETER, f"the mapping overlaps the one at {other}", data=offset)


def _rounded(size: int) -> int:
    return -(-size // PAGE) * PAGE


# Plan9 shares


def check_plan9_share(share: dict[str, Any]) -> None:
    name, path, flags = share["Name"], share["Path"], share.get("Flags", 0)
    if not os.path.isdir(path):
        raise HcsError(ERROR_PATH_NOT_FOUND, f"share {name}: {path} does not exist", data=path)
    if flags & ~_KNOWN_FLAGS:
        raise HcsError(ERROR_INVALID_PARAMETER, f"share {name}: unknown flags 0x{flags:x}", data=name)
    if ("AllowedFiles" in share) != bool(flags & FLAG_RESTRICT_FILES):
        raise HcsError(ERROR_INVALID_PARAMETER, f"share {name}: AllowedFiles need RestrictFileAccess", data=name)


def plan9_for_guest(shares: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """By the name that a guest attaches to."""
    found = {}
    for share in shares:
        flags = share.get("Flags", 0)
        found[share.get("AccessName") or share["Name"]] = {
            "path": share["Path"],
            "read_only": bool(flags & FLAG_READ_ONLY or share.get("ReadOnly")),
            "files": share.get("AllowedFiles", []) if flags & FLAG_RESTRICT_FILES else None,
        }
    return found


# network


def is_network_namespace(endpoint: str) -> bool:
    """On Linux an adapter can name a network namespace of the host: the VM is in it."""
    return os.path.isabs(endpoint)


def check_network_namespace(path: str) -> None:
    try:
        mode = os.stat(path).st_mode
    except OSError as error:
        raise HcsError(
            ERROR_PATH_NOT_FOUND, f"the network namespace {path} does not exist: {error.strerror}", data=path
        ) from None
    if not stat.S_ISREG(mode):
        raise HcsError(ERROR_INVALID_PARAMETER, f"{path} is no network namespace", data=path)

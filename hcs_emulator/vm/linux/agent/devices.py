"""Devices of the VM in a container's spec."""

from __future__ import annotations

import os
import stat
import time
from typing import Any

from hcs_emulator.vm.linux.agent import waiting
from hcs_emulator.vm.linux.agent.errors import NIL, GuestError, panic, reason

ASSIGNED_TIMEOUT = 60.0
_SKIPPED = {"pts", "shm", "fd", "mqueue", ".lxc", ".lxd-mounts", ".udev"}
_INTERVAL = 0.5


def from_path(path: str) -> dict[str, Any]:
    """A device node as an entry of `linux.devices`, with the numbers that it has in the VM."""
    try:
        status = os.lstat(path)
    except OSError as error:
        raise GuestError(reason(error)) from error
    if stat.S_ISBLK(status.st_mode):
        kind = "b"
    elif stat.S_ISCHR(status.st_mode):
        kind = "c"
    elif stat.S_ISFIFO(status.st_mode):
        kind = "p"
    else:
        raise GuestError("not a device node")
    return {
        "path": path,
        "type": kind,
        "major": os.major(status.st_rdev),
        "minor": os.minor(status.st_rdev),
        "uid": status.st_uid,
        "gid": status.st_gid,
    }


def all_of_vm(directory: str = "/dev") -> list[dict[str, Any]]:
    found = []
    for entry in sorted(os.scandir(directory), key=lambda entry: entry.name):
        if entry.is_dir(follow_symlinks=False):
            if entry.name not in _SKIPPED:
                found += all_of_vm(entry.path)
        elif entry.name not in ("console",) and not entry.is_symlink():
            try:
                found.append(from_path(entry.path))
            except GuestError:
                continue  # no device, or it was removed meanwhile
    return found


def allow(device: dict[str, Any], access: str) -> dict[str, Any]:
    """The entry of the devices cgroup for a device."""
    return {
        "allow": True,
        "type": device["type"],
        "major": device["major"],
        "minor": device["minor"],
        "access": access,
    }


def add(spec: dict[str, Any], device: dict[str, Any], *, allowed: bool) -> None:
    """Add a device to a spec, in place of one with the same path. With `allowed` the devices cgroup allows it, too."""
    if device["major"] == 0 and device["minor"] == 0:
        return
    present = spec["linux"].get("devices") or []
    spec["linux"]["devices"] = present
    for index, other in enumerate(present):
        if other.get("path") == device["path"]:
            present[index] = device
            return
    present.append(device)
    if allowed:
        cgroup_rules(spec).append(allow(device, "rwm"))


def cgroup_rules(spec: dict[str, Any]) -> list[dict[str, Any]]:
    resources = spec["linux"].get("resources")
    if resources is None:
        panic(NIL)
    entries: list[dict[str, Any]] = resources.get("devices") or []
    resources["devices"] = entries
    return entries


def add_assigned(spec: dict[str, Any]) -> None:
    """Add every node of the PCI devices that the host assigned."""
    for device in (spec.get("windows") or {}).get("devices") or ():
        if device.get("idType") in ("vpci", "vpci-instance-id"):
            path = os.path.realpath(waiting.for_pci_device(device.get("id", ""), ASSIGNED_TIMEOUT))
            for node in _nodes_below(path):
                add(spec, node, allowed=True)


def _nodes_below(path: str) -> list[dict[str, Any]]:
    deadline = time.monotonic() + ASSIGNED_TIMEOUT
    while True:
        found = []
        for device in all_of_vm():
            kind = {"b": "block", "c": "char"}.get(device["type"])
            entry = os.path.realpath(f"/sys/dev/{kind}/{device['major']}:{device['minor']}")
            if kind and entry.startswith(path):
                found.append(device)
        if found:
            return found
        if time.monotonic() >= deadline:
            raise GuestError(f"find the device nodes for sysfs pci path cancelled: {path}: context deadline exceeded")
        time.sleep(_INTERVAL)

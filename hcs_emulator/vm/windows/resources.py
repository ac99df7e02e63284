"""The resources of the host in a guest: VSMB shares, SCSI disks and mounts of them, by their Windows paths.

    \\\\?\\VMSMB\\VSMB-{dcc079ae-60ba-4d07-847c-3493609c0870}\\<share>\\…    a share that the host added
    c:\\mounts\\scsi\\m0\\…                                                 a disk, where a guest request mounted it
    C:\\…                                                                the VM's own disk (SCSI 0:0)

A path resolves to a host directory only if the host has granted it; no other path exists for the guest.
"""

from __future__ import annotations

import os
import re
from typing import Any

from hcs_emulator.service.errors import (
    ERROR_ALREADY_EXISTS,
    ERROR_FILE_NOT_FOUND,
    ERROR_NOT_FOUND,
    ERROR_SHARING_VIOLATION,
    HCS_E_INVALID_LAYER,
    HcsError,
)
from hcs_emulator.service.storage import mounts
from hcs_emulator.service.storage.layers import disk_content, layer_files

_SHARE = re.compile(
    r"\\\\\?\\VMSMB\\VSMB-\{dcc079ae-60ba-4d07-847c-3493609c0870\}\\([^\\]+)(?:\\(.*))?\Z", re.IGNORECASE | re.DOTALL
)


class Mounted:
    """A disk mounted in the guest. `union` is the mount of its layers with the disk over them, if there are any."""

    def __init__(self, disk: str, read_only: bool) -> None:
        self.disk = disk
        self.read_only = read_only
        self.union: str | None = None
        self.users: set[str] = set()

    @property
    def directory(self) -> str:
        return self.union or os.path.join(disk_content(self.disk), "upper")


class Resources:
    def __init__(self, granted: dict[str, Any], workspace: str) -> None:
        self.granted = granted
        self._workspace = workspace  # for mount points; private to this VM
        self._mounted: dict[str, Mounted] = {}
        self._aliases: dict[str, tuple[str, bool]] = {}  # guest directories mapped to others
        self._spelled: dict[str, str] = {}  # and their original spelling
        self._count = 0

    # paths

    def resolve(self, path: str) -> tuple[str, bool]:
        """The host path of a guest path, and whether it is read-only; raises HcsError when the guest has no such path.
        """
        match = _SHARE.match(path)
        found = self._in_share(match[1], match[2] or "") if match is not None else self._in_guest(path)
        if found is None or not os.path.exists(found[0]):
            raise HcsError(ERROR_FILE_NOT_FOUND, f"the guest has no {path}", data=path)
        return found

    def _in_share(self, name: str, rest: str) -> tuple[str, bool] | None:
        if name.upper() == "IPC$":  # named pipes that the host mapped
            pipe = self.granted["pipes"].get(rest.lower())
            return None if pipe is None else (pipe, False)
        share = self.granted["shares"].get(name)
        if share is None:
            return None
        path = _below(share["path"], rest)
        if share["files"] is not None and rest and path not in [os.path.normpath(file) for file in share["files"]]:
            return None
        return path, bool(share["read_only"])

    def _in_guest(self, path: str) -> tuple[str, bool] | None:
        name = _normal(path)
        if not name.startswith("c:"):
            return None
        for prefix, (target, read_only) in self._aliases.items():
            if name == prefix or name.startswith(prefix + "\\"):
                return _below(target, path[len(prefix) :]), read_only
        for prefix, mounted in self._mounted.items():
            if name == prefix or name.startswith(prefix + "\\"):
                return _below(mounted.directory, path[len(prefix) :]), mounted.read_only
        system = self.granted["disks"].get("0:0")
        if system is None:
            return None
        inside = _below(os.path.join(disk_content(system["path"]), "upper"), path[2:])
        if name.startswith("c:\\sandboxmounts"):
            os.makedirs(inside, exist_ok=True)
        return inside, False

    # disks

    def mount_disk(self, path: str, lun: int) -> None:
        name = _normal(path)
        disk = self.granted["disks"].get(f"0:{lun}")
        if disk is None:
            raise HcsError(ERROR_NOT_FOUND, f"no disk is attached at LUN {lun}", data=str(lun))
        if name in self._mounted:
            raise HcsError(ERROR_ALREADY_EXISTS, f"something is mounted at {path}", data=path)
        mounted = Mounted(disk["path"], disk["read_only"])
        os.makedirs(mounted.directory, exist_ok=True)
        self._mounted[name] = mounted

    def unmount_disk(self, path: str) -> None:
        mounted = self._at(path)
        if mounted.union is not None or mounted.users:
            raise HcsError(ERROR_SHARING_VIOLATION, f"{path} is in use", data=path)
        del self._mounted[_normal(path)]

    def combine_layers(self, path: str, layers: list[str]) -> None:
        mounted = self._at(path)
        if mounted.union is not None:
            raise HcsError(ERROR_ALREADY_EXISTS, f"{path} has layers", data=path)
        lower = [layer_files(self.resolve(layer)[0]) for layer in layers]
        if not lower:
            raise HcsError(HCS_E_INVALID_LAYER, "no layers to combine", data=path)
        content = disk_content(mounted.disk)
        self._count += 1
        target = os.path.join(self._workspace, f"union{self._count}")
        for directory in (target, os.path.join(content, "upper"), os.path.join(content, "work")):
            os.makedirs(directory, exist_ok=True)
        try:
            mounts.overlay(target, lower, os.path.join(content, "upper"), os.path.join(content, "work"))
        except OSError as error:
            os.rmdir(target)
            raise HcsError(
                HCS_E_INVALID_LAYER, f"the layers could not be combined: {error.strerror}", data=path
            ) from error
        mounted.union = target

    def separate_layers(self, path: str) -> None:
        mounted = self._at(path)
        if mounted.union is None:
            raise HcsError(ERROR_NOT_FOUND, f"{path} has no layers", data=path)
        if mounted.users:
            raise HcsError(
                ERROR_SHARING_VIOLATION, f"{path} is in use by {', '.join(sorted(mounted.users))}", data=path
            )
        mounts.unmount(mounted.union)
        os.rmdir(mounted.union)
        mounted.union = None

    def use(self, path: str, user: str) -> str:
        """The root of a container that is created on a mounted disk."""
        mounted = self._at(path)
        if mounted.union is None:
            raise HcsError(HCS_E_INVALID_LAYER, f"{path} has no layers: send CombinedLayers first", data=path)
        mounted.users.add(user)
        return mounted.union

    def release(self, path: str, user: str) -> None:
        mounted = self._mounted.get(_normal(path))
        if mounted is not None:
            mounted.users.discard(user)

    # directories

    def map_directory(self, source: str, target: str, read_only: bool) -> None:
        name = _normal(target)
        if name in self._aliases:
            raise HcsError(ERROR_ALREADY_EXISTS, f"something is mapped to {target}", data=target)
        found, share_read_only = self.resolve(source)
        self._aliases[name] = (found, read_only or share_read_only)
        self._spelled[name] = target

    def mapped(self) -> list[dict[str, Any]]:
        """The directories that processes of the VM itself see besides its own disk."""
        return [{"HostPath": name, "ContainerPath": name} for name in self._spelled.values()]

    def unmap_directory(self, target: str) -> None:
        if self._aliases.pop(_normal(target), None) is None:
            raise HcsError(ERROR_NOT_FOUND, f"nothing is mapped to {target}", data=target)
        del self._spelled[_normal(target)]

    def _at(self, path: str) -> Mounted:
        mounted = self._mounted.get(_normal(path))
        if mounted is None:
            raise HcsError(ERROR_NOT_FOUND, f"nothing is mounted at {path}", data=path)
        return mounted


def _normal(path: str) -> str:
    return path.replace("/", "\\").rstrip("\\").lower()


def _below(directory: str, rest: str) -> str:
    """A path inside a directory; `..` cannot leave it."""
    inside = os.path.normpath("/" + rest.replace("\\", "/"))
    return os.path.normpath(directory + inside)

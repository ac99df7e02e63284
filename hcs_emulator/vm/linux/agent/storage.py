"""The disks, layers and shares that the host added to the guest, with the rules about their order.

The kernel lets a disk below an overlay be unmounted, and the root of a running container, too: the files stay until
nobody uses them. A host that does so has lost track of its resources, so both are refused here.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

from hcs_emulator.vm.linux.agent import mounts, rules, scsi, shares, syscalls, vpmem, vsock
from hcs_emulator.vm.linux.agent.errors import GuestError, RuleError, failed

PLAN9_PORT = 564


class Mount:
    """Something that the host mounted at a path. `kind` is the resource type."""

    def __init__(self, kind: str, *, writable: bool = False, place: tuple[int, ...] = ()) -> None:
        self.kind = kind
        self.writable = writable
        self.place = place  # of a disk: controller, LUN and partition
        self.below: list[str] = []  # of layers: the mounts that they consist of
        self.container = ""


class Storage:
    """`users(path)` tells the containers that run in a root."""

    def __init__(self, users: Callable[[str], list[str]]) -> None:
        self._users = users
        self._lock = threading.Lock()
        self.mounted: dict[str, Mount] = {}

    # what containers ask

    def root_of(self, path: str) -> Mount | None:
        with self._lock:
            found = self.mounted.get(os.path.normpath(path))
        return found if found is not None and found.kind in ("CombinedLayers", "MappedDirectory") else None

    def _holder(self, path: str, kinds: tuple[str, ...]) -> str | None:
        """The mount that a path is in."""
        best = ""
        for point, mount in self.mounted.items():
            inside = path == point or path.startswith(point + "/")
            if inside and mount.kind in kinds and len(point) > len(best):
                best = point
        return best or None

    def _reserve(self, path: str, mount: Mount) -> str:
        if not path.startswith("/"):
            raise RuleError(rules.MOUNT_POINT, f"{path!r} is no absolute path")
        target = os.path.normpath(path)
        with self._lock:
            if target in self.mounted:
                raise RuleError(rules.MOUNT_POINT, f"{self.mounted[target].kind} is already mounted at {target}")
            self.mounted[target] = mount
        return target

    def _forget(self, path: str) -> None:
        with self._lock:
            self.mounted.pop(path, None)

    def _check_unused(self, path: str) -> None:
        with self._lock:
            above = [point for point, mount in self.mounted.items() if path in mount.below]
        users = self._users(path)
        if above or users:
            holder = f"the layers at {above[0]}" if above else f"container {users[0]}"
            raise GuestError(
                f"failed to unmount path '{path}': device or resource busy: strict guest: rule {rules.IN_USE}: "
                f"{holder} uses it"
            )

    def _remove(self, path: str, context: str) -> None:
        target = os.path.normpath(path)
        self._check_unused(target)
        try:
            mounts.unmount(target)
        except GuestError as error:
            raise error.within(context) if context else error from error
        self._forget(target)

    # SCSI

    def change_disk(self, change: str, settings: dict[str, Any]) -> None:
        controller = scsi.controller_number(settings["Controller"])
        if change == "Add":
            self._add_disk(controller, settings)
        elif change == "Remove":
            self._remove_disk(settings)
        else:
            raise unsupported(change)

    def _add_disk(self, controller: int, settings: dict[str, Any]) -> None:
        if settings["Encrypted"]:
            raise GuestError("failed to mount encrypted device: the guest has no cryptsetup")
        path = settings["MountPath"]
        place = (controller, settings["Lun"], settings["Partition"])
        if not path:
            if not settings["ReadOnly"]:
                scsi.device_path(*place)
            return
        kind = "block device" if settings["BlockDev"] else "MappedVirtualDisk"
        target = self._reserve(path, Mount(kind, writable=not settings["ReadOnly"], place=place))
        try:
            scsi.mount(scsi.device_path(*place), {**settings, "MountPath": target})
        except BaseException:
            self._forget(target)
            raise

    def _remove_disk(self, settings: dict[str, Any]) -> None:
        path = settings["MountPath"]
        if not path:
            return
        if settings["BlockDev"]:
            mounts.remove_tree(path)
            self._forget(os.path.normpath(path))
        else:
            self._remove(path, f"unmount failed: {path}")

    def unplug(self, change: str, settings: dict[str, Any]) -> None:
        if change != "Remove":
            raise unsupported(change)
        controller = scsi.controller_number(settings["Controller"])
        place = (controller, settings["Lun"])
        with self._lock:
            users = [point for point, mount in self.mounted.items() if mount.place[:2] == place]
        if users:
            text = f"disk {place[0]}:{place[1]} is unplugged while it is mounted at {users[0]}"
            raise RuleError(rules.UNPLUG_AFTER_UNMOUNT, text)
        scsi.unplug(*place)

    # layers

    def change_vpmem(self, change: str, settings: dict[str, Any]) -> None:
        path = settings["MountPath"]
        if change == "Add":
            target = self._reserve(path, Mount("VPMemDevice"))
            try:
                vpmem.mount(vpmem.device_path(settings), target)
            except BaseException:
                self._forget(target)
                raise
        elif change == "Remove":
            self._remove(path, f"failed to unmount target: {path}")
        else:
            raise unsupported(change)

    def change_layers(self, change: str, settings: dict[str, Any]) -> None:
        if change == "Add":
            self._combine(settings)
        elif change == "Remove":
            self._remove(settings["ContainerRootPath"], "")
        else:
            raise unsupported(change)

    def _combine(self, settings: dict[str, Any]) -> None:
        root, scratch, container = settings["ContainerRootPath"], settings["ScratchPath"], settings["ContainerID"]
        if not root:
            raise GuestError("cannot have empty target")
        layers = [layer["Path"] for layer in settings["Layers"]]
        mount = Mount("CombinedLayers", writable=bool(scratch))
        mount.container = container
        mount.below = self._check_layers(layers, scratch)
        target = self._reserve(root, mount)
        try:
            _mount_overlay(target, layers, scratch)
        except BaseException:
            self._forget(target)
            raise

    def _check_layers(self, layers: list[str], scratch: str) -> list[str]:
        below = []
        with self._lock:
            for layer in layers:
                holder = self.mounted.get(os.path.normpath(layer))
                if holder is None or holder.kind not in ("VPMemDevice", "MappedVirtualDisk"):
                    raise RuleError(rules.LAYERS_MOUNTED, f"no disk is mounted at layer {layer}")
                below.append(os.path.normpath(layer))
            if scratch:
                disk = self._holder(os.path.normpath(scratch), ("MappedVirtualDisk",))
                if disk is None or not self.mounted[disk].writable:
                    raise RuleError(rules.SCRATCH_MOUNTED, f"scratch {scratch} is not on a mounted writable disk")
                below.append(disk)
        return below

    # shares

    def change_directory(self, change: str, settings: dict[str, Any]) -> None:
        path = settings["MountPath"]
        if change == "Add":
            if settings["Port"] != PLAN9_PORT:
                raise RuleError(
                    rules.PLAN9_PORT, f"the host's Plan9 server has port {PLAN9_PORT}, not {settings['Port']}"
                )
            target = self._reserve(path, Mount("MappedDirectory", writable=not settings["ReadOnly"]))
            try:
                _mount_share(target, settings["ShareName"], settings["ReadOnly"])
            except BaseException:
                self._forget(target)
                raise
        elif change == "Remove":
            self._remove(path, "")
        else:
            raise unsupported(change)


def _mount_overlay(target: str, layers: list[str], scratch: str) -> None:
    options = "lowerdir=" + ":".join(layers)
    made: list[str] = []
    if scratch:
        upper, work = os.path.join(scratch, "upper"), os.path.join(scratch, "work")
        for directory in (upper, work):
            mounts.make_directory(directory, 0o755)
            made.append(directory)
        options += f",upperdir={upper},workdir={work}"
    mounts.make_directory(target, 0o755)
    try:
        syscalls.mount("overlay", target, "overlay", 0 if scratch else syscalls.MS_RDONLY, options)
    except OSError as error:
        for directory in (target, *made):
            mounts.try_remove_tree(directory)
        raise failed(f"failed to mount overlayfs at {target}", error) from error


def _mount_share(target: str, share: str, read_only: bool) -> None:
    mounts.make_directory(target, 0o700)
    try:
        tree = vsock.open_share(share)
        try:
            if read_only:
                syscalls.set_read_only(tree)
            shares.attach(tree, target, share)
        finally:
            os.close(tree)
    except OSError as error:
        mounts.try_remove_tree(target)
        text = error.strerror or str(error)
        raise GuestError(f"failed to mount directory for mapped directory {target}: {text}") from error


def unsupported(change: str) -> GuestError:
    return GuestError(f'the RequestType "{change}" is not supported')

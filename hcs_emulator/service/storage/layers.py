"""Container layers, as directories.

A layer is a directory. Its files are in `Files` below it when that exists (as Windows' own layers have them), else in
itself. A VHD is a marker file, and its content is the directory of the same name with `.d` added: the scratch layer's
`sandbox.vhdx` has its content in `sandbox.vhdx.d`. Nothing else distinguishes a disk from a file, so copying the marker
creates an empty disk.

    CreateSandboxLayer    creates the marker and the content directory
    ActivateLayer         gives the scratch a volume: \\\\?\\Volume{guid}, without a backslash at its end
    PrepareLayer          mounts the parents with the scratch over them at <emulator directory>/volumes/<guid>
    UnprepareLayer        unmounts
    DeactivateLayer       removes the volume

A volume that a compute system was created on is in use: it can be neither unprepared nor deactivated until the system
has exited.

Windows does not document what these calls return in the wrong state. Here it is what the filter manager and the volume
would return: callers that expect "not found" fail.
"""

from __future__ import annotations

import json
import os
import re
import uuid

from hcs_emulator.service.errors import (
    ERROR_ALREADY_EXISTS,
    ERROR_BUSY,
    ERROR_FILE_EXISTS,
    ERROR_FLT_INSTANCE_NOT_FOUND,
    ERROR_INVALID_PARAMETER,
    ERROR_NOT_FOUND,
    ERROR_NOT_READY,
    ERROR_PATH_NOT_FOUND,
    ERROR_SHARING_VIOLATION,
    HCS_E_INVALID_LAYER,
    HcsError,
)
from hcs_emulator.service.storage import mounts

SANDBOX = "sandbox.vhdx"
DEFAULT_SIZE = 20 << 30
_VOLUME = re.compile(r"\\\\\?\\Volume\{([0-9a-fA-F-]{36})\}(?:\\(.*))?\Z", re.DOTALL)
# The namespace of layer GUIDs. Windows does not document its own mapping, so any stable one is valid.
_NAMES = uuid.UUID("b2a9b5c4-6f6a-4d0c-9d0e-7c9a3f2d1e10")


def name_to_guid(name: str) -> str:
    return str(uuid.uuid5(_NAMES, name.lower()))


def disk_content(path: str) -> str:
    """The directory that holds the content of a disk."""
    return path + ".d"


def layer_files(path: str) -> str:
    """The directory with a layer's files."""
    files = os.path.join(path, "Files")
    return files if os.path.isdir(files) else path


class Volume:
    """An activated scratch."""

    def __init__(self, guid: str, layer: str, mount_point: str) -> None:
        self.guid = guid
        self.layer = layer
        self.mount_point = mount_point
        self.prepared = False
        self.is_image = False
        self.users: set[str] = set()
        self.parents: set[str] = set()  # GUIDs of image volumes below it


class Layers:
    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._by_layer: dict[str, Volume] = {}
        self._by_guid: dict[str, Volume] = {}
        self._filters: set[str] = set()  # directories with a filter attached by computestorage's calls
        os.makedirs(directory, mode=0o700, exist_ok=True)
        self._unmount_all()  # stale mounts of a killed service

    def close(self) -> None:
        for path in list(self._filters):
            self.detach_filter(path)
        self._unmount_all()

    def _unmount_all(self) -> None:
        for point in mounts.mounted_below(self._directory):
            mounts.unmount(point)
        for name in os.listdir(self._directory):
            os.rmdir(os.path.join(self._directory, name))

    # paths

    def resolve(self, path: str) -> str | None:
        """The Linux path of a host path in a document: a volume path, or a plain one. None when it does not exist."""
        match = _VOLUME.match(path)
        if match is not None:
            volume = self._by_guid.get(match[1].lower())
            if volume is None or not volume.prepared:
                return None
            path = os.path.join(volume.mount_point, (match[2] or "").replace("\\", "/")).rstrip("/")
        return path if path.startswith("/") and os.path.exists(path) else None

    def _volume(self, path: str) -> Volume | None:
        match = _VOLUME.match(path)
        return None if match is None else self._by_guid.get(match[1].lower())

    def acquire(self, path: str, user: str) -> None:
        volume = self._volume(path)
        if volume is not None:
            volume.users.add(user)

    def release(self, path: str, user: str) -> None:
        volume = self._volume(path)
        if volume is not None:
            volume.users.discard(user)

    # scratch layers

    def create_sandbox(self, path: str | None, parents: list[str]) -> None:
        layer = absolute(path)
        self._require_parents(parents)
        marker = os.path.join(layer, SANDBOX)
        if os.path.exists(marker):
            raise HcsError(ERROR_FILE_EXISTS, f"{marker} exists", data=marker)
        os.makedirs(layer, exist_ok=True)
        make_disk(marker, DEFAULT_SIZE)

    def activate(self, path: str | None) -> None:
        layer = self._existing(path)
        if not os.path.exists(os.path.join(layer, SANDBOX)):
            return  # a read-only layer: nothing to mount
        if layer in self._by_layer:
            raise HcsError(ERROR_ALREADY_EXISTS, f"layer {layer} is active", data=layer)
        guid = str(uuid.uuid4())
        volume = Volume(guid, layer, os.path.join(self._directory, guid))
        os.mkdir(volume.mount_point, 0o700)
        self._by_layer[layer] = self._by_guid[guid] = volume

    def deactivate(self, path: str | None) -> None:
        volume = self._active(path)
        if volume is None:
            return
        self._require_unused(volume)
        if volume.prepared:
            raise HcsError(ERROR_BUSY, f"layer {volume.layer} is prepared: unprepare it first", data=volume.layer)
        os.rmdir(volume.mount_point)
        del self._by_layer[volume.layer], self._by_guid[volume.guid]

    def prepare(self, path: str | None, parents: list[str]) -> None:
        volume = self._active(path)
        if volume is None:
            raise HcsError(ERROR_INVALID_PARAMETER, f"{path} is no scratch layer", data=path)
        if volume.prepared:
            raise HcsError(ERROR_ALREADY_EXISTS, f"layer {volume.layer} is prepared", data=volume.layer)
        below = [self.resolve(parent) or parent for parent in parents]
        self.mount_union(volume.mount_point, below, os.path.join(volume.layer, SANDBOX))
        volume.parents = {found.guid for parent in parents if (found := self._volume(parent)) is not None}
        volume.prepared = True

    def unprepare(self, path: str | None) -> None:
        volume = self._active(path)
        if volume is None or not volume.prepared:
            raise HcsError(ERROR_FLT_INSTANCE_NOT_FOUND, f"layer {path} is not prepared", data=path)
        self._require_unused(volume)
        mounts.unmount(volume.mount_point)
        volume.prepared = False
        volume.parents = set()

    def mount_path(self, path: str | None) -> str:
        layer = self._existing(path)
        volume = self._by_layer.get(layer)
        if volume is not None:
            return f"\\\\?\\Volume{{{volume.guid}}}"
        return "" if os.path.exists(os.path.join(layer, SANDBOX)) else layer

    def mount_union(self, target: str, parents: list[str], disk: str) -> None:
        """Mount the parents (topmost first) with a disk's content over them at `target`."""
        self._require_parents(parents)
        content = disk_content(disk)
        upper, work = os.path.join(content, "upper"), os.path.join(content, "work")
        os.makedirs(upper, exist_ok=True)
        os.makedirs(work, exist_ok=True)
        try:
            mounts.overlay(target, [layer_files(parent) for parent in parents], upper, work)
        except OSError as error:
            raise HcsError(
                HCS_E_INVALID_LAYER,
                f"the layers could not be combined: {error.strerror} (the emulator needs mount rights)",
                data=target,
            ) from error

    # composite images

    def mount_image(self, guid: str, directory: str, name: str) -> None:
        """An image is a marker file with its content in a directory beside it, like a disk."""
        image = os.path.join(absolute(directory), name)
        if not os.path.isfile(image) or not os.path.isdir(disk_content(image)):
            raise HcsError(ERROR_PATH_NOT_FOUND, f"there is no image {image}", data=image)
        if guid in self._by_guid:
            raise HcsError(ERROR_ALREADY_EXISTS, f"volume {guid} exists", data=guid)
        volume = self._by_guid[guid] = Volume(guid, image, disk_content(image))
        volume.prepared = volume.is_image = True

    def dismount_image(self, guid: str) -> None:
        volume = self._by_guid.get(guid)
        if volume is None or not volume.is_image:
            raise HcsError(ERROR_NOT_FOUND, f"no image is mounted as volume {guid}", data=guid)
        self._require_unused(volume)
        if any(guid in other.parents for other in self._by_guid.values()):
            raise HcsError(ERROR_SHARING_VIOLATION, f"volume {guid} is under a scratch", data=guid)
        del self._by_guid[guid]

    # storage filters

    def attach_filter(self, path: str | None, parents: list[str]) -> None:
        """Mount the parents below a writable directory, in place."""
        layer = absolute(path)
        volume = self._volume(path or "")
        if volume is not None:
            self.prepare(volume.layer, parents)
            return
        if not os.path.isdir(layer):
            raise HcsError(ERROR_PATH_NOT_FOUND, f"{layer} does not exist", data=layer)
        if layer in self._filters:
            raise HcsError(ERROR_ALREADY_EXISTS, f"{layer} has a filter", data=layer)
        disk = os.path.join(layer, SANDBOX)
        if not os.path.exists(disk):
            make_disk(disk, DEFAULT_SIZE)
        self.mount_union(layer, parents, disk)
        self._filters.add(layer)

    def detach_filter(self, path: str | None) -> None:
        volume = self._volume(path or "")
        if volume is not None:
            self.unprepare(volume.layer)
            return
        layer = absolute(path)
        if layer not in self._filters:
            raise HcsError(ERROR_NOT_FOUND, f"{layer} has no filter", data=layer)
        mounts.unmount(layer)
        self._filters.discard(layer)

    # shared checks

    def require_inactive(self, path: str) -> None:
        if path in self._by_layer or path in self._filters:
            raise HcsError(ERROR_SHARING_VIOLATION, f"layer {path} is active: deactivate it first", data=path)

    def is_active(self, layer: str) -> bool:
        return os.path.normpath(layer) in self._by_layer

    def exists(self, path: str | None) -> bool:
        return bool(path) and os.path.isdir(absolute(path))

    def _existing(self, path: str | None) -> str:
        layer = absolute(path)
        if not os.path.isdir(layer):
            raise HcsError(ERROR_PATH_NOT_FOUND, f"layer {layer} does not exist", data=layer)
        return layer

    def _active(self, path: str | None) -> Volume | None:
        layer = absolute(path)
        volume = self._by_layer.get(layer)
        if volume is None and os.path.exists(os.path.join(layer, SANDBOX)):
            raise HcsError(ERROR_NOT_READY, f"layer {layer} is not active", data=layer)
        return volume

    def _require_unused(self, volume: Volume) -> None:
        if volume.users:
            users = ", ".join(sorted(volume.users))
            raise HcsError(ERROR_SHARING_VIOLATION, f"layer {volume.layer} is in use by {users}", data=volume.layer)

    def _require_parents(self, parents: list[str]) -> None:
        if not parents:
            raise HcsError(ERROR_INVALID_PARAMETER, "a scratch layer needs at least one parent layer")
        for parent in parents:
            self._existing(parent)


def absolute(path: str | None) -> str:
    if not path or not path.startswith(("/", "\\\\?\\Volume{")) or "\0" in path:
        raise HcsError(ERROR_INVALID_PARAMETER, f"{path!r} is no absolute path", data=path)
    return os.path.normpath(path)


def make_disk(path: str, size: int) -> None:
    """A disk: the marker file, and an empty directory for its content."""
    with open(path, "x") as marker:
        json.dump({"disk": "directory", "size": size}, marker)
    os.makedirs(disk_content(path), mode=0o755, exist_ok=True)

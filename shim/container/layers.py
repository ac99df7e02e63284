"""The root file system of a container without a VM.

It comes in one of these forms, of which there must be exactly one:

- a `windows-layer` mount in the request, or `windows.layerFolders`: a scratch directory and read-only parents, put
  together by the layer calls of the host;
- a `CimFS` or `BlockCIM` mount: the same of composite images (`shim.container.cim_layers`);
- where HCS is emulated, mounts of a Linux snapshotter (overlay, bind …), mounted at `rootfs` in the bundle;
- `root.path`: a volume, or where HCS is emulated a directory, that the client has mounted.

`plan` reads and checks; `Plan.acquire` enters each resource in the ledger and then acquires it. Nothing is undone here:
the ledger's release does that.
"""

from __future__ import annotations

import time

from shim.lean_json import loads
from shim.oci.errors import FAILED_PRECONDITION, InvalidSpec
from shim.platform import host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Protocol

    from shim.api.types import Mount
    from shim.container.ledger import Ledger
    from shim.oci.spec import Spec

    class Plan(Protocol):
        """One form of root file system, checked and not yet acquired."""

        def acquire(self, ledger: Ledger) -> Root: ...


WINDOWS_LAYER = "windows-layer"
PARENTS = "parentLayerPaths="
SCRATCH_DISK = "sandbox.vhdx"
VOLUME = "\\\\?\\Volume{"
# Types of layers that only exist on Windows. The last two are for utility VMs of Linux.
_WINDOWS_TYPES = (WINDOWS_LAYER, "CimFS", "BlockCIM", "lcow-layer", "lcow-partitioned-layer")

# Under load, a layer's disk may not be available yet: ERROR_NOT_READY, ERROR_DEVICE_NOT_CONNECTED.
ATTEMPTS = 5
RETRY_SECONDS = 0.1
_NOT_READY = frozenset((0x80070015, 0x8007048F))


class Root:
    """A root file system that is ready: its path and the read-only layers below it, as (id, path), topmost first."""

    __slots__ = ("layers", "path")

    def __init__(self, path: str, layers: Sequence[tuple[str, str]] = ()) -> None:
        self.path = path
        self.layers = list(layers)


class MountedRoot:
    """A root file system that the client has mounted. Its layers may be unknown."""

    __slots__ = ("_layers", "path")

    def __init__(self, path: str, layers: WindowsLayers | None = None) -> None:
        self.path = path
        self._layers = layers

    def acquire(self, ledger: Ledger) -> Root:
        return Root(self.path, self._layers.with_ids() if self._layers is not None else ())


class SnapshotMounts:
    __slots__ = ("mounts", "target")

    def __init__(self, mounts: Sequence[Mount], target: str) -> None:
        self.mounts = list(mounts)
        self.target = target

    def acquire(self, ledger: Ledger) -> Root:
        host.make_directories(self.target, 0o711)
        for mount in self.mounts:
            ledger.enter("mount", target=self.target)
            host.mount(mount.source, self.target, mount.type, mount.options)
        return Root(self.target)


class WindowsLayers:
    """`new_scratch_gb` is the size of a scratch disk that does not exist yet; 0: as large as the base layer's."""

    __slots__ = ("new_scratch_gb", "parents", "scratch")

    def __init__(self, scratch: str, parents: Sequence[str], new_scratch_gb: int = 0) -> None:
        self.scratch = scratch
        self.parents = list(parents)
        self.new_scratch_gb = new_scratch_gb

    def acquire(self, ledger: Ledger) -> Root:
        from shim.hcs_bindings import storage

        self.create_scratch()
        entry = ledger.enter("layer", path=self.scratch)
        try:
            self._mount()
        except BaseException:
            # A failed attempt has undone its own steps. Another shim's mount of this layer must stay.
            ledger.mark_released(entry)
            raise
        volume = storage.layer_mount_path(self.scratch)
        return Root(volume_path(volume, f"layer {self.scratch}"), self.with_ids())

    def create_scratch(self) -> str:
        """The path of the scratch disk, created if it does not exist yet."""
        from shim.hcs_bindings import errors, storage

        disk = join(self.scratch, SCRATCH_DISK)
        host.make_directories(self.scratch)
        if not host.exists(disk):
            with errors.ErrorContext("failed to CreateSandboxLayer"):
                storage.create_sandbox_layer(self.scratch, self.with_ids())
            if self.new_scratch_gb:
                storage.expand_sandbox_size(self.scratch, self.new_scratch_gb << 30)
        return disk

    def with_ids(self) -> list[tuple[str, str]]:
        """The read-only layers as (id, path), topmost first."""
        from shim.hcs_bindings import storage

        return [(storage.name_to_guid(base_name(path)), path) for path in self.parents]

    def _mount(self) -> None:
        """Activate and prepare. The bindings run one PrepareLayer at a time, as Windows requires."""
        from shim.hcs_bindings import errors, storage

        for attempt in range(1, ATTEMPTS + 1):
            try:
                storage.activate_layer(self.scratch)
                try:
                    storage.prepare_layer(self.scratch, self.with_ids())
                except BaseException:
                    storage.deactivate_layer(self.scratch)
                    raise
                return
            except errors.HcsError as error:
                if attempt == ATTEMPTS or errors.normalise(error.code) not in _NOT_READY:
                    raise
            time.sleep(RETRY_SECONDS)


def plan(spec: Spec, rootfs: Sequence[Mount], bundle: str) -> Plan:
    if spec.root.flag("readonly"):
        raise InvalidSpec(
            "invalid container spec - readonly is not supported for Windows containers: set root.readonly to false"
        )
    folders = spec.windows.texts("layerFolders")
    if rootfs and folders:
        raise InvalidSpec(
            "cannot pass both a rootfs mount and Windows.LayerFolders: containerd gives the mount, so leave "
            "layerFolders empty",
            FAILED_PRECONDITION,
        )
    if folders:
        return _unless_mounted(spec, _from_folders(folders, spec.options.default_container_scratch_size_in_gb))
    if rootfs:
        return _unless_mounted(spec, _from_mounts(rootfs, bundle))
    if path := spec.root.text("path"):
        return MountedRoot(_mounted_root(path, bundle))
    raise InvalidSpec(
        "must pass either a rootfs mount or Windows.LayerFolders: the container has no root file system",
        FAILED_PRECONDITION,
    )


def _unless_mounted(spec: Spec, layers: Plan) -> Plan:
    """Layers that the client has mounted, at the volume that root.path names. Clients on Linux name a directory there
    that is to become the root file system."""
    path = spec.root.text("path")
    if not path or spec.is_isolated or not isinstance(layers, WindowsLayers):
        return layers
    if host.IS_EMULATED and not path.startswith(VOLUME):
        return layers
    return MountedRoot(volume_path(path, "root.path"), layers)


def _from_folders(folders: list[str], scratch_gb: int) -> Plan:
    if len(folders) < 2:
        raise InvalidSpec(
            "must pass at least two Windows.LayerFolders: read-only layers first and the scratch directory last",
            FAILED_PRECONDITION,
        )
    paths = [_absolute(folder, "windows.layerFolders") for folder in folders]
    return WindowsLayers(paths[-1], paths[:-1], scratch_gb)


def _from_mounts(rootfs: Sequence[Mount], bundle: str) -> Plan:
    for mount in rootfs:
        if mount.target:
            raise InvalidSpec(f"a rootfs mount has target {mount.target!r}: it must have none", FAILED_PRECONDITION)
    if not any(mount.type in _WINDOWS_TYPES for mount in rootfs):
        if not host.IS_EMULATED:
            raise InvalidSpec(f"invalid windows mount type: '{rootfs[0].type}': use the windows snapshotter")
        return SnapshotMounts(rootfs, f"{bundle.rstrip('/')}/rootfs")
    if len(rootfs) > 1:
        raise InvalidSpec(f"expected a single rootfs mount: {len(rootfs)} are given", FAILED_PRECONDITION)
    mount = rootfs[0]
    if mount.type in ("CimFS", "BlockCIM"):
        from shim.container import cim_layers

        return cim_layers.plan(mount, bundle)
    if mount.type != WINDOWS_LAYER:
        raise InvalidSpec(f"invalid windows mount type: '{mount.type}': use {WINDOWS_LAYER!r} for Windows containers")
    return WindowsLayers(_absolute(mount.source, "the rootfs mount's source"), _parents(mount))


def _parents(mount: Mount) -> list[str]:
    for option in mount.options:
        if option.startswith(PARENTS):
            try:
                parents = loads(option[len(PARENTS) :].encode())
            except ValueError:
                parents = None
            if parents == []:
                raise _without_parents(f"option {PARENTS[:-1]} of the rootfs mount is empty")
            if isinstance(parents, list) and all(isinstance(path, str) for path in parents):
                return [_absolute(path, PARENTS[:-1]) for path in parents]
            raise InvalidSpec(f"failed to unmarshal option `{PARENTS}`: give a JSON list of paths, topmost layer first")
    raise _without_parents(f"the rootfs mount has no option {PARENTS[:-1]}")


def _without_parents(why: str) -> InvalidSpec:
    return InvalidSpec(
        f"failed to mount container storage: failed to CreateSandboxLayer: {why}, and a container needs at least one "
        "read-only layer"
    )


def _absolute(path: str, what: str) -> str:
    if not host.is_absolute(path):
        raise InvalidSpec(f"{what} names {path!r}: give an absolute path")
    return path


def _mounted_root(path: str, bundle: str) -> str:
    if path.startswith(VOLUME) or not host.IS_EMULATED:
        return volume_path(path, "root.path")
    path = path if host.is_absolute(path) else f"{bundle}/{path}"
    if not host.is_directory(path):
        raise InvalidSpec(
            "must pass either a rootfs mount or Windows.LayerFolders: there is neither, and root.path names "
            f"{path!r}, which is no directory",
            FAILED_PRECONDITION,
        )
    return path


def volume_path(path: str, what: str) -> str:
    """`\\\\?\\Volume{guid}\\`, with the backslash at its end that HCS requires."""
    if not path.startswith(VOLUME):
        raise InvalidSpec(
            f"invalid container spec - Root.Path '{path}' must be a volume GUID path in the format "
            f"'{VOLUME}GUID}}\\': {what} is none"
        )
    return path if path.endswith("\\") else path + "\\"


def join(directory: str, name: str) -> str:
    """Join a path of the host, with the separator that the directory uses."""
    return directory.rstrip("\\/") + ("\\" if "\\" in directory else "/") + name


def base_name(path: str) -> str:
    return path.rstrip("\\/").replace("\\", "/").rpartition("/")[2]

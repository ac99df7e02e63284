r"""The root file system of a Linux container in a VM.

It comes in one of these forms, of which there must be exactly one:

| form | read-only layers, topmost first | scratch disk |
| --- | --- | --- |
| `windows.layerFolders` | `layer.vhd` in each folder but the last | `sandbox.vhdx` in the last |
| a mount `lcow-layer` | `layer.vhd` in each of `parentLayerPaths` | `sandbox.vhdx` in its source |
| a mount `lcow-partitioned-layer` | `parent-partitioned-layers`, disks and partitions | `scratch` |
| where HCS is emulated: other mounts, or `root.path` | none: the directory of the host is shared | none |
| a sandbox without an image | none: a directory of the shim's own is shared | none |

`plan` reads and checks; `Plan.acquire` adds it to the VM. A layer is a VPMem device if it fits, else a SCSI disk. The
scratch disk is mounted at the container's own directory of the guest; a workload whose `sandbox.vhdx` is a link to that
of its pod's sandbox shares the sandbox's. The counterpart is
https://github.com/microsoft/hcsshim/blob/main/internal/layers/lcow.go.
"""

from __future__ import annotations

import os

from shim.container.layers import SnapshotMounts, join
from shim.hcs_bindings.errors import ErrorContext
from shim.lean_json import loads
from shim.oci.errors import FAILED_PRECONDITION, InvalidSpec
from shim.platform import host
from shim.uvm.scsi import DiskMount

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Protocol

    from shim.api.types import Mount
    from shim.oci.spec import Spec
    from shim.uvm.container import VmContainer
    from shim.uvm.guest import Lease
    from shim.uvm.linux.guest import LinuxGuest

    class Plan(Protocol):
        """One form of root file system, checked and not yet acquired."""

        def acquire(self, container: VmContainer, guest: LinuxGuest, root: str) -> Root:
            """Add it to the VM. `root` is the container's directory in the guest. What undoes each step is in
            `container.layer_releases`, also on failure."""


LAYER = "lcow-layer"
PARTITIONED = "lcow-partitioned-layer"
WINDOWS_LAYER = "windows-layer"
PARENTS = "parentLayerPaths="
PARTITIONED_PARENTS = "parent-partitioned-layers="
SCRATCH = "scratch="
LAYER_DISK = "layer.vhd"
SCRATCH_DISK = "sandbox.vhdx"
ROOTFS = "rootfs"
SCRATCH_DIRECTORY = "scratch"
_SCRATCH_MOUNT = DiskMount(ensure_filesystem=True, filesystem="ext4")


class Root:
    """A root file system that is ready: its path in the guest, and the container's part of the scratch disk, if any."""

    __slots__ = ("path", "scratch")

    def __init__(self, path: str, scratch: str = "") -> None:
        self.path = path
        self.scratch = scratch


class LinuxLayers:
    """Layers as (path of a disk, partition), topmost first; 0 is a disk without partitions."""

    __slots__ = ("parents", "scratch")

    def __init__(self, parents: Sequence[tuple[str, int]], scratch: str) -> None:
        self.parents = list(parents)
        self.scratch = scratch

    def acquire(self, container: VmContainer, guest: LinuxGuest, root: str) -> Root:
        with ErrorContext("failed to mount container storage"):
            releases, vm = container.layer_releases, container.vm
            paths = []
            for path, partition in self.parents:
                with ErrorContext("failed to add LCOW layer"):
                    lease = self._add_layer(guest, path, partition)
                releases.insert(0, lease.release)  # released in the order of creation, the topmost first
                paths.append(lease.guest_path)
            with ErrorContext("failed to add SCSI scratch VHD"):
                lease = vm.disks.attach(self._resolved_scratch(), mount=_SCRATCH_MOUNT, at=root)
            releases.append(lease.release)
            scratch, target = f"{lease.guest_path}/{SCRATCH_DIRECTORY}/{container.id}", f"{root}/{ROOTFS}"
            combined = {
                "ContainerID": container.id,
                "ContainerRootPath": target,
                "Layers": [{"Path": path} for path in paths],
                "ScratchPath": scratch,
            }
            with ErrorContext("guest modify"):
                vm.gcs.modify_vm("CombinedLayers", "Add", {name: value for name, value in combined.items() if value})
            removed = {"ContainerRootPath": target}
            releases.append(lambda: vm.gcs.modify_vm("CombinedLayers", "Remove", removed))
        return Root(target, scratch)

    @staticmethod
    def _add_layer(guest: LinuxGuest, path: str, partition: int) -> Lease:
        if guest.vpmem is not None and not partition:
            with ErrorContext("failed to add VPMEM layer"):
                lease = guest.vpmem.add(path)
            if lease is not None:
                return lease
        mount = DiskMount(partition=partition, options=("ro",))
        with ErrorContext("failed to add SCSI layer"):
            # Layers come with the rights for all VMs.
            return guest.vm.disks.attach(path, read_only=True, mount=mount, grant=False)

    def _resolved_scratch(self) -> str:
        """The same path for every container that shares it."""
        try:
            return os.path.realpath(self.scratch, strict=True)
        except OSError as error:
            raise InvalidSpec(
                f"failed to mount container storage: failed to eval symlinks on scratch path: {self.scratch}: "
                f"{host.reason(error)}: does the pod's sandbox still exist?"
            ) from None


class HostDirectory:
    """A directory of the host that is shared and becomes the root file system. `mounts` are mounted there first."""

    __slots__ = ("_mounts", "_read_only", "path")

    def __init__(self, path: str, mounts: SnapshotMounts | None = None, *, read_only: bool = False) -> None:
        """`read_only` needs a directory for every mount."""
        self.path = path
        self._mounts = mounts
        self._read_only = read_only

    def acquire(self, container: VmContainer, guest: LinuxGuest, root: str) -> Root:
        if self._mounts is not None:
            self._mounts.acquire(container.ledger)
        target = f"{root}/{ROOTFS}"
        # Writable even if the spec's root is read-only: runc creates the targets of mounts before it makes it so.
        read_only = self._read_only or guest.shares.only_read_only
        with ErrorContext("adding plan9 root"):
            lease = guest.shares.mount(self.path, target, read_only=read_only)
        container.layer_releases.append(lease.release)
        return Root(target)


def plan(spec: Spec, rootfs: Sequence[Mount], bundle: str) -> Plan:
    if spec.own_root:
        return HostDirectory(spec.own_root, read_only=True)
    folders = spec.windows.texts("layerFolders")
    if rootfs and folders:
        raise InvalidSpec(
            "cannot pass both a rootfs mount and Windows.LayerFolders: containerd gives the mount, so leave "
            "layerFolders empty",
            FAILED_PRECONDITION,
        )
    if folders:
        if len(folders) < 2:
            raise InvalidSpec(
                "must pass at least two Windows.LayerFolders: read-only layers first and the scratch directory last",
                FAILED_PRECONDITION,
            )
        return _from_directories(folders[-1], folders[:-1])
    if rootfs:
        return _from_mounts(rootfs, bundle)
    if host.IS_EMULATED and (path := spec.root.text("path")):
        return _from_root(path, bundle)
    raise InvalidSpec(
        "must pass either a rootfs mount or Windows.LayerFolders: the container has no root file system; use the "
        "snapshotter windows-lcow",
        FAILED_PRECONDITION,
    )


def _from_mounts(rootfs: Sequence[Mount], bundle: str) -> Plan:
    if host.IS_EMULATED and not any(mount.type in (LAYER, PARTITIONED, WINDOWS_LAYER) for mount in rootfs):
        _without_target(rootfs)
        target = f"{bundle.rstrip('/')}/{ROOTFS}"
        return HostDirectory(target, SnapshotMounts(rootfs, target))
    if len(rootfs) > 1:
        raise InvalidSpec(f"expected a single rootfs mount: {len(rootfs)} are given", FAILED_PRECONDITION)
    _without_target(rootfs)
    mount = rootfs[0]
    if mount.type == LAYER:
        return _from_directories(mount.source, _parents(mount))
    if mount.type == PARTITIONED:
        return _partitioned(mount)
    raise InvalidSpec(f"unrecognized rootfs mount type: {mount.type}: use the snapshotter windows-lcow")


def _without_target(rootfs: Sequence[Mount]) -> None:
    for mount in rootfs:
        if mount.target:
            # The words of Microsoft's shim, which mean the opposite.
            raise InvalidSpec(
                f"rootfs mount is missing Target path: it has target {mount.target!r}, and must have none",
                FAILED_PRECONDITION,
            )


def _from_directories(scratch: str, parents: Sequence[str]) -> LinuxLayers:
    for path in (scratch, *parents):
        if not host.is_absolute(path):
            raise InvalidSpec(f"a layer of the rootfs is {path!r}: give an absolute path")
    return LinuxLayers([(join(path, LAYER_DISK), 0) for path in parents], join(scratch, SCRATCH_DISK))


def _parents(mount: Mount) -> list[str]:
    for option in mount.options:
        if option.startswith(PARENTS):
            parents = _json(option, PARENTS)
            if isinstance(parents, list) and all(isinstance(path, str) for path in parents):
                return parents
            raise InvalidSpec(f"failed to unmarshal option `{PARENTS}`: give a JSON list of paths, topmost layer first")
    return []


def _partitioned(mount: Mount) -> LinuxLayers:
    scratch, parents = "", list[tuple[str, int]]()
    for option in mount.options:
        if option.startswith(SCRATCH):
            scratch = option[len(SCRATCH) :]
        elif option.startswith(PARTITIONED_PARENTS):
            parents = _partitions(_json(option, PARTITIONED_PARENTS))
        else:
            raise InvalidSpec(
                f"unrecognized {PARTITIONED} mount option: {option}: give {SCRATCH} and {PARTITIONED_PARENTS}"
            )
    if not scratch or not parents:
        raise InvalidSpec(f"a mount of type {PARTITIONED} needs both options, {SCRATCH} and {PARTITIONED_PARENTS}")
    return LinuxLayers(parents, scratch)


def _partitions(listed: object) -> list[tuple[str, int]]:
    found = []
    for entry in listed if isinstance(listed, list) else [None]:
        path, partition = (entry.get("Path"), entry.get("Partition", 0)) if isinstance(entry, dict) else (None, 0)
        if not isinstance(path, str) or not path or type(partition) is not int or partition < 0:
            raise InvalidSpec(
                f'failed to unmarshal option `{PARTITIONED_PARENTS}`: give a list of {{"Path": …, "Partition": number}}'
            )
        found.append((path, partition))
    return found


def _json(option: str, name: str) -> object:
    try:
        return loads(option[len(name) :].encode())
    except ValueError as error:
        raise InvalidSpec(f"failed to unmarshal option `{name}`: it is not JSON: {error}") from None


def _from_root(path: str, bundle: str) -> HostDirectory:
    path = path if host.is_absolute(path) else f"{bundle.rstrip('/')}/{path}"
    if not host.is_directory(path):
        raise InvalidSpec(
            "must pass either a rootfs mount or Windows.LayerFolders: there is neither, and root.path names "
            f"{path!r}, which is no directory",
            FAILED_PRECONDITION,
        )
    return HostDirectory(path)

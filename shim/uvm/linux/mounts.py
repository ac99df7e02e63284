"""Mounts of a Linux container in a VM: sources of the host are added to the VM first.

| type, source | how | source in the guest's spec |
| --- | --- | --- |
| `bind`, a directory or file of the host | a Plan 9 share | where the guest mounts the share |
| `bind`, `sandbox://`, `sandbox-tmp://`, `uvm://`, `hugepages://2M/` | the guest resolves them | the same |
| `physical-disk`, `virtual-disk`, `extensible-virtual-disk` | a SCSI disk of the VM | where the guest mounts the disk |
| any other type | runc mounts it | the same |

A disk whose destination begins with `blockdev://` is not mounted: the container gets the block device.
`MountPlan` reads and checks; `MountPlan.acquire` adds the sources to the VM. The counterpart is
https://github.com/microsoft/hcsshim/blob/main/internal/hcsoci/resources_lcow.go.
"""

from __future__ import annotations

from shim.hcs_bindings.errors import ErrorContext
from shim.oci.errors import InvalidSpec
from shim.platform import host
from shim.uvm import scsi

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from shim.oci.section import Section
    from shim.oci.spec import Spec
    from shim.uvm.linux.guest import LinuxGuest

    Document = dict[str, Any]
    Release = Callable[[], None]
    #: Adds the source of one mount to the VM; returns the mount for the guest's spec.
    Step = Callable[[LinuxGuest, str, list[Release]], Document]

BIND = "bind"
# Where the guest mounts shares. Microsoft's shim has them below the container's directory, which the guest removes with
# all that is mounted in it if it cannot create the container: the files of the host would be removed, too.
SHARES = "/run/mounts/plan9/"
# `rro` is recursive. A read-only share has no writable parts in any case.
_READ_ONLY = ("ro", "rro")
BLOCK_DEVICE = "blockdev://"
HUGE_PAGES = "hugepages://"
# Sources that are paths of the VM.
_IN_GUEST = ("sandbox://", "sandbox-tmp://", "uvm://")
EXTENSIBLE = "evd://"
EXTENSIBLE_DISK = "extensible-virtual-disk"
_DISKS = {
    "physical-disk": (scsi.PHYSICAL_DISK, "adding SCSI physical disk mount"),
    "virtual-disk": (scsi.VIRTUAL_DISK, "adding SCSI virtual disk mount"),
    EXTENSIBLE_DISK: (scsi.EXTENSIBLE_DISK, "adding Extensible virtual disk mount"),
}


class MountPlan:
    """Mounts that have been checked."""

    def __init__(self, spec: Spec) -> None:
        self._steps = [_step(index, mount) for index, mount in enumerate(spec.mounts)]

    def acquire(self, guest: LinuxGuest, id: str, releases: list[Release]) -> list[Document]:
        """The mounts for the guest's spec. `id` is that of the container. What undoes each step is in `releases`, also
        on failure."""
        return [step(guest, id, releases) for step in self._steps]


def _step(index: int, mount: Section) -> Step:
    kind, source, destination = mount.text("type"), mount.text("source"), mount.text("destination")
    options = mount.texts("options")
    if kind != BIND and kind not in _DISKS:
        return _unchanged(mount)
    if not source or not destination:
        raise InvalidSpec(
            f"invalid OCI spec - a mount must have both source and a destination: {mount.path} has source {source!r} "
            f"and destination {destination!r}"
        )
    read_only = any(option.lower() in _READ_ONLY for option in options)
    if kind in _DISKS:
        return _disk(mount, kind, source, read_only)
    if source.startswith(_IN_GUEST):
        return _unchanged(mount)
    if source.startswith(HUGE_PAGES):
        _check_huge_pages(mount, source)
        return _unchanged(mount)
    if not host.exists(source):
        raise InvalidSpec(
            f"could not open bind mount target: {mount.path}.source is {source!r}, which is not on this host; create it"
        )
    return _share(mount, index, source, read_only)


def _unchanged(mount: Section) -> Step:
    return lambda guest, container_id, releases: dict(mount.values)


def _share(mount: Section, index: int, source: str, read_only: bool) -> Step:
    def acquire(guest: LinuxGuest, id: str, releases: list[Release]) -> Document:
        what = f"adding plan9 mount {mount.path}"
        try:
            with ErrorContext(what):
                lease = guest.shares.mount(source, f"{SHARES}{id}-m{index}", read_only=read_only)
        except InvalidSpec as error:
            raise InvalidSpec(f"{what}: {error}", error.kind) from error
        releases.append(lease.release)
        return {**mount.values, "source": lease.guest_path}

    return acquire


def _disk(mount: Section, type_: str, source: str, read_only: bool) -> Step:
    provider, path = "", source
    kind, what = _DISKS[type_]
    if type_ == EXTENSIBLE_DISK:
        provider, slash, path = source.removeprefix(EXTENSIBLE).partition("/")
        if not provider or not slash:
            raise InvalidSpec(
                f"{what} {mount.path}: invalid extensible vhd path: {source}: give {EXTENSIBLE}<type>/<path>"
            )
    is_block_device = mount.text("destination").startswith(BLOCK_DEVICE)
    config = scsi.DiskMount(options=mount.texts("options"), block_device=is_block_device)

    def acquire(guest: LinuxGuest, id: str, releases: list[Release]) -> Document:
        with ErrorContext(f"{what} {mount.path}"):
            lease = guest.vm.disks.attach(path, read_only=read_only, kind=kind, provider=provider, mount=config)
        releases.append(lease.release)
        changed = {**mount.values, "source": lease.guest_path, "type": BIND if is_block_device else "none"}
        if config.options:
            changed["options"] = config.options
        return changed

    return acquire


def _check_huge_pages(mount: Section, source: str) -> None:
    size, *rest = source.removeprefix(HUGE_PAGES).split("/")
    if not rest:
        raise InvalidSpec(
            f"{source} mount path is invalid, expected format: {HUGE_PAGES}<hugepage-size>/<hugepage-src-location>: "
            f"correct {mount.path}.source"
        )
    if size != "2M":
        raise InvalidSpec(f"only 2M (megabytes) pagesize is supported, got {size}: correct {mount.path}.source")

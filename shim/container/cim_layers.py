"""Read-only layers that are composite images: mounted as one volume, with the scratch over it.

`CimFS` is a directory with an image per layer, of which the topmost refers to the rest. `BlockCIM` is an image in a
file or on a block device; several of them come with one that merges them. The volume's GUID is derived from the
container's id, so that the ledger can name it before it exists.
"""

from __future__ import annotations

from shim.container.layers import PARENTS, SCRATCH_DISK, Root, base_name, join, volume_path
from shim.hcs_bindings.windows_version import windows_build
from shim.lean_json import loads
from shim.oci.errors import FAILED_PRECONDITION, InvalidSpec
from shim.platform import host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from shim.api.types import Mount
    from shim.container.ledger import Ledger

CIM_FS, BLOCK_CIM = "CimFS", "BlockCIM"
IMAGES = "parentCimPaths="
MERGED = "mergedCIMPath="
KIND = "blockCIMType="
# Windows Server 2022 has it from this update on, the builds between it and 2025 not at all.
SERVER_2022, FIRST_REVISION, SERVER_2025, FIRST_WITH_BLOCKS = 20348, 2031, 26100, 27766
_NAMESPACE = bytes.fromhex("6827367bc3884e9b961c6d2c936c0000")


class CimLayers:
    """`images` are (directory, name): one, or the merged image and those that it merges."""

    __slots__ = ("flags", "images", "parents", "scratch", "volume")

    def __init__(self, scratch: str, parents: list[str], images: list[tuple[str, str]], flags: int, id: str) -> None:
        self.scratch = scratch
        self.parents = parents
        self.images = images
        self.flags = flags
        self.volume = volume_id(id)

    def acquire(self, ledger: Ledger) -> Root:
        from shim.hcs_bindings import cim, storage

        disk = join(self.scratch, SCRATCH_DISK)
        if not host.exists(disk):
            raise InvalidSpec(f"there is no scratch disk at {disk!r}: the snapshotter creates it", FAILED_PRECONDITION)
        image = ledger.enter("cim", volume=self.volume)
        try:
            if len(self.images) > 1:
                cim.merge_mount(self.images, self.flags, self.volume)
            else:
                cim.mount(self.images[0], self.flags, self.volume)
        except BaseException:
            ledger.mark_released(image)  # the volume may be another container's
            raise
        ledger.enter("overlay", path=self.scratch)
        storage.activate_layer(self.scratch)
        mounted = volume_path(storage.layer_mount_path(self.scratch), f"layer {self.scratch}")
        volume = f"\\\\?\\Volume{{{self.volume}}}\\"
        storage.attach_overlay_filter(mounted, [(self.volume, volume + "Files")])
        return Root(mounted, [(self.volume, volume)])


def volume_id(id: str) -> str:
    """A GUID of version 5."""
    from hashlib import sha1

    raw = bytearray(sha1(_NAMESPACE + id.encode()).digest()[:16])
    raw[6] = raw[6] & 0x0F | 0x50
    raw[8] = raw[8] & 0x3F | 0x80
    digits = raw.hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def plan(mount: Mount, bundle: str) -> CimLayers:
    from shim.hcs_bindings import cim

    _check_build(mount.type)
    if not host.is_absolute(mount.source):
        raise InvalidSpec(f"the rootfs mount's source is {mount.source!r}: give the scratch directory's absolute path")
    paths = _list(mount, IMAGES)
    if mount.type == CIM_FS:
        parents = _list(mount, PARENTS)
        if len(parents) != len(paths):
            raise InvalidSpec(f"the rootfs mount has {len(parents)} layers and {len(paths)} images: give one for each")
        return CimLayers(mount.source, parents, [_split(paths[0])], cim.ORDINARY, base_name(bundle))
    kinds = {"file": cim.IN_ONE_FILE, "device": cim.ON_BLOCK_DEVICE}
    kind, merged = _text(mount, KIND), _text(mount, MERGED)
    if kind not in kinds:
        raise InvalidSpec(f"{KIND[:-1]} of the rootfs mount is {kind!r}: it must be {' or '.join(kinds)}")
    if len(paths) > 1 and not merged:
        raise InvalidSpec(f"the rootfs mount has {len(paths)} images and no {MERGED[:-1]}, which brings them together")
    images = [_split(path) for path in ([merged, *paths] if len(paths) > 1 else paths)]
    return CimLayers(mount.source, [], images, kinds[kind], base_name(bundle))


def _check_build(kind: str) -> None:
    build = windows_build()
    if kind == BLOCK_CIM:
        able, needed = build >= FIRST_WITH_BLOCKS, f"build {FIRST_WITH_BLOCKS}"
    else:
        able = build >= SERVER_2025 or (build == SERVER_2022 and host.revision() >= FIRST_REVISION)
        needed = f"build {SERVER_2022}.{FIRST_REVISION} or {SERVER_2025}"
    if not able:
        step = "mount block CIM layers" if kind == BLOCK_CIM else "mount forked layer cim"
        raise InvalidSpec(
            f"failed to mount container storage: {step}: a rootfs of type {kind!r} needs Windows {needed} or later, "
            f"and this host is {build}: use the windows snapshotter"
        )


def _text(mount: Mount, name: str) -> str:
    return next((option[len(name) :] for option in mount.options if option.startswith(name)), "")


def _list(mount: Mount, name: str) -> list[str]:
    try:
        paths = loads(_text(mount, name).encode())
    except ValueError:
        paths = None
    if not isinstance(paths, list) or not paths or not all(isinstance(path, str) and path for path in paths):
        raise InvalidSpec(f"{name[:-1]} of the rootfs mount is not a list of paths: give JSON, topmost layer first")
    return paths


def _split(path: str) -> tuple[str, str]:
    name = base_name(path)
    return path.rstrip("\\/")[: -len(name)].rstrip("\\/"), name

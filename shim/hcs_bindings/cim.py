"""Composite images (cimfs.dll): read-only file systems that are mounted as volumes, with a GUID that the caller
chooses."""

from __future__ import annotations

from shim.hcs_bindings import errors, guid
from shim.hcs_bindings._hcs_cffi import ffi
from shim.hcs_bindings.library import cimfs
from shim.hcs_bindings.strings import text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    Image = tuple[str, str]

ORDINARY = 0
ON_BLOCK_DEVICE = 0x10
IN_ONE_FILE = 0x20


def mount(image: Image, flags: int, volume: str) -> None:
    """`image` is (directory, name)."""
    operation = f"cimfs::Mount {image[1]}"
    directory, name = (text(part, operation) for part in image)
    _check(cimfs.CimMountImage(directory, name, flags, guid.to_native(volume, operation)), operation)


def merge_mount(images: Sequence[Image], flags: int, volume: str) -> None:
    """The merged image first, then its source images."""
    operation = f"cimfs::MergeMount {images[0][1]}"
    kept: list[Any] = []
    paths: Any = ffi.new("CIMFS_IMAGE_PATH[]", len(images))
    for place, image in zip(paths, images, strict=True):
        words = [ffi.new("char16_t[]", text(part, operation)) for part in image]
        kept += words
        place.Directory, place.Name = words
    code = cimfs.CimMergeMountImage(len(images), paths, flags, guid.to_native(volume, operation))
    _check(code, operation)


def dismount(volume: str) -> None:
    operation = f"cimfs::Dismount {volume}"
    _check(cimfs.CimDismountImage(guid.to_native(volume, operation)), operation)


def _check(code: int, operation: str) -> None:
    if code < 0:
        raise errors.HcsError(code, operation)

"""Files of the host that decide what a Create does: layers, disks, sources of mounts, boot files of VMs. Of each is
recorded whether it exists, and what it is; of none its content."""

from __future__ import annotations

import os

from shim.lean_json import loads
from shim.oci.annotations.container import VM_BOOT_FILES, VM_BOOT_FILES_OLD
from shim.platform import boot_directory, files, host
from shim.uvm.linux import boot_files, layers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from shim.api.types import Mount

    #: `missing`, `directory`, the size of a file, or `{"link": PATH}` with the file or directory that it leads to.
    Kind = str | int | dict[str, str]

# Below a layer: what decides how the shim uses it.
_IN_LAYER = (
    "sandbox.vhdx", "layer.vhd", "UtilityVM", "UtilityVM/Files", "UtilityVM/SystemTemplate.vhdx", "blank-base.vhdx",
)  # fmt: skip
_BOOT_FILES = (boot_files.KERNEL, boot_files.UNCOMPRESSED_KERNEL, boot_files.INITRD, boot_files.VHD)
_LOWER = "lowerdir="
_OVERLAY = ("upperdir=", "workdir=")
_VERBATIM = "\\\\?\\"


class HostFiles:
    """`spec` is None if the bundle has none. `boot_directory` is of the options of the request, or ""."""

    def __init__(self, spec: dict[str, Any] | None, rootfs: Sequence[Mount], boot_directory: str) -> None:
        self._spec = spec or {}
        annotations = self._spec.get("annotations")
        named = [annotations.get(str(one)) for one in (VM_BOOT_FILES, VM_BOOT_FILES_OLD)] if annotations else []
        self._boot = [str(one) for one in (*named, boot_directory) if one]
        self._layers = [*_layers(self._spec, rootfs), *self._boot]

    def kinds(self, *others: str, with_default_boot_files: bool) -> dict[str, Kind]:
        """The paths, and what they are, and those of `others` that are paths of this host."""
        boot = [*self._boot, *([boot_directory.default()] if with_default_boot_files else [])]
        found = [*self._layers, *(join(layer, *name.split("/")) for layer in self._layers for name in _IN_LAYER)]
        found += boot + [join(directory, name) for directory in boot for name in _BOOT_FILES]
        found += [*_sources(self._spec), *others]
        kinds: dict[str, Kind] = {}
        for path in found:
            if host.is_absolute(path) and path not in kinds:
                kinds[path] = kind = _kind(path)
                if isinstance(kind, dict):
                    kinds[kind["link"]] = _kind(kind["link"])
        return kinds


def _layers(spec: dict[str, Any], rootfs: Sequence[Mount]) -> list[str]:
    windows = spec.get("windows")
    folders = windows.get("layerFolders") if isinstance(windows, dict) else None
    found = [str(one) for one in folders or ()]
    for mount in rootfs:
        found.append(mount.source)
        for option in mount.options:
            name, equals, value = option.partition("=")
            if name + equals in (layers.PARENTS, layers.PARTITIONED_PARENTS):
                found += _listed(value)
            elif name + equals == _LOWER:
                found += value.split(":")
            elif name + equals in (layers.SCRATCH, *_OVERLAY):
                found.append(value)
    return found


def _listed(value: str) -> list[str]:
    """Paths of a JSON list, whose items are paths, or objects with one."""
    try:
        items = loads(value.encode())
    except ValueError:
        return []
    found = [one.get("Path") if isinstance(one, dict) else one for one in (items if isinstance(items, list) else ())]
    return [one for one in found if isinstance(one, str)]


def _sources(spec: dict[str, Any]) -> list[str]:
    """Of mounts, and the network namespaces that a spec of a Linux host names."""
    linux = spec.get("linux")
    namespaces = linux.get("namespaces") if isinstance(linux, dict) else None
    entries = [(one, "source") for one in spec.get("mounts") or ()] + [(one, "path") for one in namespaces or ()]
    return [str(one[name]) for one, name in entries if isinstance(one, dict) and one.get(name)]


def join(directory: str, *names: str) -> str:
    """With the separator that the directory uses."""
    separator = "\\" if "\\" in directory else "/"
    return separator.join((directory.rstrip("\\/"), *names))


def _kind(path: str) -> Kind:
    if host.is_link(path) and host.exists(path):
        target = os.path.realpath(path).removeprefix(_VERBATIM)
        if target != path:
            return {"link": target}
    if host.is_directory(path):
        return "directory"
    try:
        return os.stat(files.native(path)).st_size
    except (OSError, ValueError):
        return "missing"

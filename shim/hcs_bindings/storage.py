"""Layers and the files of virtual machines.

Two libraries implement them: vmcompute, which the shim uses for layers of the WCIFS filter, and computestorage, which
it uses for the overlay filter. The functions that the shim does not call (import, export, base layers, writable layers)
are public API for programs that manage layers. `parents` are (layer id, path) pairs, topmost first, base last.
"""

from __future__ import annotations

from _thread import allocate_lock

from shim import threads
from shim.hcs_bindings import errors, guid
from shim.hcs_bindings._hcs_cffi import ffi
from shim.hcs_bindings.library import computecore, computestorage, vmcompute
from shim.hcs_bindings.strings import NULL, dump, dump_optional, out, take_local, text, wide

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _thread import LockType
    from collections.abc import Sequence
    from typing import Any

    Parents = Sequence[tuple[str, str]]

FILTER_DRIVER = 1
SCHEMA_VERSION = {"Major": 2, "Minor": 1}

# By pod: the lock for its PrepareLayer calls, and how many threads use it.
_preparing: dict[str, tuple[LockType, int]] = {}
_lock = allocate_lock()
# The driver's home directory must be an empty string, not NULL. Both buffers live as long as the process.
_no_home = wide("")
_driver = ffi.new("DriverInfo *", (FILTER_DRIVER, _no_home))


def _check(code: int, operation: str) -> None:
    if code < 0:
        raise errors.HcsError(code, operation)


class _Descriptors:
    """WC_LAYER_DESCRIPTORs for `parents`, with the paths they point to."""

    __slots__ = ("_paths", "array", "count")

    def __init__(self, parents: Parents, operation: str) -> None:
        self._paths = [wide(text(path, operation)) for _, path in parents]
        self.count = len(parents)
        self.array = ffi.new("WC_LAYER_DESCRIPTOR[]", self.count) if parents else NULL
        for index, (layer_id, _) in enumerate(parents):
            self.array[index].LayerId = guid.to_native(layer_id, operation)[0]
            self.array[index].Path = self._paths[index]


def name_to_guid(name: str) -> str:
    """The id of a layer: Windows computes it from the last component of its path."""
    operation = f"hcsshim::NameToGuid failed in Win32: {name}"
    result = ffi.new("GUID *")
    _check(vmcompute.NameToGuid(text(name, operation), result), operation)
    return guid.to_text(result)


def create_sandbox_layer(path: str, parents: Parents) -> None:
    """Create a scratch layer (`sandbox.vhdx`) for a container on top of `parents`."""
    operation = f"hcsshim::CreateScratchLayer failed in Win32: {path}"
    layers = _Descriptors(parents, operation)
    _check(vmcompute.CreateSandboxLayer(_driver, text(path, operation), NULL, layers.array, layers.count), operation)


def activate_layer(path: str) -> None:
    """Mount a scratch layer's disk on the host."""
    operation = f"hcsshim::ActivateLayer failed in Win32: {path}"
    _check(vmcompute.ActivateLayer(_driver, text(path, operation)), operation)


def deactivate_layer(path: str) -> None:
    operation = f"hcsshim::DeactivateLayer failed in Win32: {path}"
    _check(vmcompute.DeactivateLayer(_driver, text(path, operation)), operation)


def prepare_layer(path: str, parents: Parents) -> None:
    """Attach the filter to an active layer, so that it shows its parents' files too.

    Concurrent calls may time out, so a process of Microsoft's shim makes one at a time. Here a pod does: a call that
    hangs must not delay the other pods of this process, as it does not if each pod has a process of its own.
    """
    operation = f"hcsshim::PrepareLayer failed in Win32: {path}"
    layers = _Descriptors(parents, operation)
    pod = threads.current_pod()
    with _lock:
        turn, users = _preparing.get(pod) or (allocate_lock(), 0)
        _preparing[pod] = turn, users + 1
    try:
        with turn:
            _check(vmcompute.PrepareLayer(_driver, text(path, operation), layers.array, layers.count), operation)
    finally:
        with _lock:
            turn, users = _preparing[pod]
            if users > 1:
                _preparing[pod] = turn, users - 1
            else:
                del _preparing[pod]


def unprepare_layer(path: str) -> None:
    operation = f"hcsshim::UnprepareLayer failed in Win32: {path}"
    _check(vmcompute.UnprepareLayer(_driver, text(path, operation)), operation)


def layer_mount_path(path: str) -> str:
    r"""Where an active layer is mounted (`\\?\Volume{…}`, without a backslash at its end), or "" if it needs no
    mount."""
    operation = f"hcsshim::GetLayerMountPath failed in Win32: {path}"
    layer = text(path, operation)
    length = ffi.new("size_t *")
    _check(vmcompute.GetLayerMountPath(_driver, layer, length, NULL), operation)
    if length[0] == 0:
        return ""
    buffer = ffi.new("char16_t[]", length[0] + 1)
    _check(vmcompute.GetLayerMountPath(_driver, layer, length, buffer), operation)
    return str(ffi.string(buffer))


def layer_exists(path: str) -> bool:
    operation = f"hcsshim::LayerExists failed in Win32: {path}"
    exists = ffi.new("ULONG *")
    _check(vmcompute.LayerExists(_driver, text(path, operation), exists), operation)
    return bool(exists[0])


def create_layer(path: str, parent: str = "") -> None:
    operation = f"hcsshim::CreateLayer failed in Win32: {path}"
    _check(vmcompute.CreateLayer(_driver, text(path, operation), text(parent, operation)), operation)


def destroy_layer(path: str) -> None:
    operation = f"hcsshim::DestroyLayer failed in Win32: {path}"
    _check(vmcompute.DestroyLayer(_driver, text(path, operation)), operation)


def expand_sandbox_size(path: str, size: int) -> None:
    """Let a scratch layer's disk grow to `size` bytes."""
    operation = f"hcsshim::ExpandScratchSize failed in Win32: {path}"
    _check(vmcompute.ExpandSandboxSize(_driver, text(path, operation), size), operation)


def grant_vm_access(vm_id: str, path: str) -> None:
    """Let a utility VM open a file. `vm_id` is the compute system's id, not its runtime id."""
    operation = f"hcsshim::GrantVmAccess failed in Win32: {vm_id} {path}"
    _check(vmcompute.GrantVmAccess(text(vm_id, operation), text(path, operation)), operation)


def revoke_vm_access(vm_id: str, path: str) -> None:
    operation = f"hcs::RevokeVmAccess {vm_id} {path}"
    _check(computecore.HcsRevokeVmAccess(text(vm_id, operation), text(path, operation)), operation)


def grant_vm_group_access(path: str) -> None:
    """Let every utility VM open a file. Not on Server 2019."""
    operation = f"hcs::GrantVmGroupAccess {path}"
    _check(computecore.HcsGrantVmGroupAccess(text(path, operation)), operation)


def _layer_data(parents: Parents, operation: str) -> dict[str, Any]:
    layers = [{"Id": layer_id, "Path": text(path, operation)} for layer_id, path in parents]
    return {"SchemaVersion": SCHEMA_VERSION, "Layers": layers}


def attach_overlay_filter(volume: str, parents: Parents, filter_type: str = "UnionFS") -> None:
    """Show `parents` below a mounted volume."""
    operation = f"hcs::AttachOverlayFilter {volume}"
    data = {"SchemaVersion": {}, "Layers": _layer_data(parents, operation)["Layers"], "FilterType": filter_type}
    _check(computestorage.HcsAttachOverlayFilter(text(volume, operation), dump(data)), operation)


def detach_overlay_filter(volume: str, filter_type: str = "UnionFS") -> None:
    operation = f"hcs::DetachOverlayFilter {volume}"
    data = {"SchemaVersion": {}, "FilterType": filter_type}
    _check(computestorage.HcsDetachOverlayFilter(text(volume, operation), dump(data)), operation)


def attach_layer_storage_filter(path: str, parents: Parents) -> None:
    operation = f"hcs::AttachLayerStorageFilter {path}"
    data = dump(_layer_data(parents, operation))
    _check(computestorage.HcsAttachLayerStorageFilter(text(path, operation), data), operation)


def detach_layer_storage_filter(path: str) -> None:
    operation = f"hcs::DetachLayerStorageFilter {path}"
    _check(computestorage.HcsDetachLayerStorageFilter(text(path, operation)), operation)


def initialize_writable_layer(path: str, parents: Parents, options: dict[str, Any] | None = None) -> None:
    operation = f"hcs::InitializeWritableLayer {path}"
    data = dump(_layer_data(parents, operation))
    _check(computestorage.HcsInitializeWritableLayer(text(path, operation), data, dump_optional(options)), operation)


def import_layer(path: str, source: str, parents: Parents) -> None:
    operation = f"hcs::ImportLayer {path}"
    data = dump(_layer_data(parents, operation))
    _check(computestorage.HcsImportLayer(text(path, operation), text(source, operation), data), operation)


def export_layer(path: str, destination: str, parents: Parents, writable: bool = False) -> None:
    operation = f"hcs::ExportLayer {path}"
    data = dump(_layer_data(parents, operation))
    options = dump({"IsWritableLayer": writable})
    _check(computestorage.HcsExportLayer(text(path, operation), text(destination, operation), data, options), operation)


def remove_layer(path: str) -> None:
    """Delete a layer's files, with high privilege: the caller answers for the path."""
    operation = f"hcs::DestroyLayer {path}"
    _check(computestorage.HcsDestroyLayer(text(path, operation)), operation)


def setup_base_os_layer(path: str, vhd: int, options: dict[str, Any]) -> None:
    """Make a base layer bootable. `vhd`: the attached disk's handle for a VM, 0 for a container."""
    operation = f"hcs::SetupBaseOSLayer {path}"
    handle = ffi.cast("HANDLE", vhd)
    _check(computestorage.HcsSetupBaseOSLayer(text(path, operation), handle, dump(options)), operation)


def format_writable_layer_vhd(vhd: int) -> None:
    _check(computestorage.HcsFormatWritableLayerVhd(ffi.cast("HANDLE", vhd)), "hcs::FormatWritableLayerVhd")


def layer_vhd_mount_path(vhd: int) -> str:
    place = out()
    code = computestorage.HcsGetLayerVhdMountPath(ffi.cast("HANDLE", vhd), place)
    path = take_local(place)
    _check(code, "hcs::GetLayerVhdMountPath")
    return path

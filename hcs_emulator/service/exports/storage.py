"""vmcompute.dll, computestorage.dll, cimfs.dll and virtdisk.dll: layers, images and virtual disks."""

from __future__ import annotations

import json
import os

from hcs_emulator.service.errors import ERROR_FILE_NOT_FOUND, ERROR_PATH_NOT_FOUND, HcsError
from hcs_emulator.service.exports.registry import Call, export
from hcs_emulator.service.storage import layer_trees
from hcs_emulator.service.storage.disks import VirtualDisk
from hcs_emulator.service.storage.layers import DEFAULT_SIZE, SANDBOX, absolute, make_disk, name_to_guid
from hcs_emulator.service.transport.wire import Reply


def _parents(call: Call) -> list[str]:
    return layer_trees.parent_paths(call.document("layerData") or {}, call.name, call.host.build)


# vmcompute


@export("CreateSandboxLayer")
async def create_sandbox(call: Call) -> Reply:
    call.host.layers.create_sandbox(call.text("id"), call.layer_paths())
    return Reply()


@export("ActivateLayer")
async def activate(call: Call) -> Reply:
    call.host.layers.activate(call.text("id"))
    return Reply()


@export("DeactivateLayer")
async def deactivate(call: Call) -> Reply:
    call.host.layers.deactivate(call.text("id"))
    return Reply()


@export("PrepareLayer")
async def prepare(call: Call) -> Reply:
    call.host.layers.prepare(call.text("id"), call.layer_paths())
    return Reply()


@export("UnprepareLayer")
async def unprepare(call: Call) -> Reply:
    call.host.layers.unprepare(call.text("id"))
    return Reply()


@export("GetLayerMountPath")
async def mount_path(call: Call) -> Reply:
    return Reply(document=call.host.layers.mount_path(call.text("id")))


@export("LayerExists")
async def layer_exists(call: Call) -> Reply:
    return Reply(pid=int(call.host.layers.exists(call.text("id"))))


@export("ExpandSandboxSize")
async def expand(call: Call) -> Reply:
    layer_trees.expand_sandbox(call.text("id"), call.number)
    return Reply()


@export("CreateLayer")
async def create_layer(call: Call) -> Reply:
    layer_trees.create_layer(call.text("id"))
    return Reply()


@export("CopyLayer")
async def copy_layer(call: Call) -> Reply:
    await layer_trees.copy_layer(call.text("source"), call.text("destination"))
    return Reply()


@export("ImportLayer")
async def import_layer(call: Call) -> Reply:
    await layer_trees.import_layer(call.text("id"), call.text("source"), call.layer_paths())
    return Reply()


@export("ExportLayer")
async def export_layer(call: Call) -> Reply:
    await layer_trees.export_layer(call.text("id"), call.text("destination"))
    return Reply()


@export("DestroyLayer")
async def destroy_layer(call: Call) -> Reply:
    await layer_trees.destroy_layer(call.host.layers, call.text("id"))
    return Reply()


@export("NameToGuid")
async def guid_of_name(call: Call) -> Reply:
    return Reply(document=name_to_guid(call.required("name")))


@export("GetBaseImages")
async def base_images(call: Call) -> Reply:
    return Reply(document=json.dumps({"Images": None}))


@export("ProcessBaseImage")
async def process_base_image(call: Call) -> Reply:
    return _make_templates(call, "blank-base.vhdx", "blank.vhdx")


@export("ProcessUtilityImage")
async def process_utility_image(call: Call) -> Reply:
    return _make_templates(call, "SystemTemplateBase.vhdx", "SystemTemplate.vhdx")


def _make_templates(call: Call, *names: str) -> Reply:
    """The template disks that scratch disks are copied from, created beside the files of an image."""
    path = absolute(call.text("path"))
    if not os.path.isdir(path):
        raise HcsError(ERROR_PATH_NOT_FOUND, f"{path} does not exist", data=path)
    for name in names:
        if not os.path.exists(os.path.join(path, name)):
            make_disk(os.path.join(path, name), DEFAULT_SIZE)
    return Reply()


# computestorage


@export("HcsImportLayer")
async def hcs_import_layer(call: Call) -> Reply:
    await layer_trees.import_layer(call.text("layerPath"), call.text("sourceFolderPath"), _parents(call))
    return Reply()


@export("HcsExportLayer")
async def hcs_export_layer(call: Call) -> Reply:
    _parents(call)
    await layer_trees.export_layer(call.text("layerPath"), call.text("exportFolderPath"))
    return Reply()


@export("HcsExportLegacyWritableLayer")
async def hcs_export_legacy(call: Call) -> Reply:
    _parents(call)
    await layer_trees.export_layer(call.text("writableLayerFolderPath"), call.text("exportFolderPath"))
    return Reply()


@export("HcsDestroyLayer")
async def hcs_destroy_layer(call: Call) -> Reply:
    await layer_trees.destroy_layer(call.host.layers, call.text("layerPath"))
    return Reply()


@export("HcsSetupBaseOSLayer")
async def setup_base_layer(call: Call) -> Reply:
    layer_trees.setup_base_layer(call.text("layerPath"))
    return Reply()


@export("HcsSetupBaseOSVolume", since=19645)
async def setup_base_volume(call: Call) -> Reply:
    layer_trees.setup_base_layer(call.text("layerPath"))
    return Reply()


@export("HcsInitializeWritableLayer")
async def initialize_writable(call: Call) -> Reply:
    return _initialize(call, "writableLayerPath")


@export("HcsInitializeLegacyWritableLayer")
async def initialize_legacy(call: Call) -> Reply:
    return _initialize(call, "writableLayerFolderPath")


def _initialize(call: Call, argument: str) -> Reply:
    _parents(call)
    path = absolute(call.text(argument))
    if not os.path.isdir(path):
        raise HcsError(ERROR_PATH_NOT_FOUND, f"{path} does not exist", data=path)
    marker = os.path.join(path, SANDBOX)
    if not os.path.exists(marker):
        make_disk(marker, DEFAULT_SIZE)
    return Reply()


@export("HcsAttachLayerStorageFilter")
async def attach_filter(call: Call) -> Reply:
    call.host.layers.attach_filter(call.text("layerPath"), _parents(call))
    return Reply()


@export("HcsDetachLayerStorageFilter")
async def detach_filter(call: Call) -> Reply:
    call.host.layers.detach_filter(call.text("layerPath"))
    return Reply()


@export("HcsAttachOverlayFilter", since=20348)
async def attach_overlay(call: Call) -> Reply:
    call.host.layers.attach_filter(call.text("volumePath"), _parents(call))
    return Reply()


@export("HcsDetachOverlayFilter", since=20348)
async def detach_overlay(call: Call) -> Reply:
    _parents(call)
    call.host.layers.detach_filter(call.text("volumePath"))
    return Reply()


@export("CimMountImage", since=20348)
async def mount_image(call: Call) -> Reply:
    call.host.layers.mount_image(call.required("volume"), call.required("directory"), call.required("name"))
    return Reply()


@export("CimMergeMountImage", since=27766)
async def merge_mount_images(call: Call) -> Reply:
    """The merged image has content of its own; the other images only have to exist."""
    images = list(zip(call.rest()[::2], call.rest()[1::2], strict=True))
    for directory, name in images[1:]:
        if not os.path.isfile(os.path.join(directory, name)):
            raise HcsError(ERROR_FILE_NOT_FOUND, f"[{call.name}] there is no image {name} in {directory}", data=name)
    call.host.layers.mount_image(call.required("volume"), *images[0])
    return Reply()


@export("CimDismountImage", since=20348)
async def dismount_image(call: Call) -> Reply:
    call.host.layers.dismount_image(call.required("volume"))
    return Reply()


@export("HcsFormatWritableLayerVhd")
async def format_disk(call: Call) -> Reply:
    call.target(VirtualDisk).format()
    return Reply()


@export("HcsGetLayerVhdMountPath")
async def disk_mount_path(call: Call) -> Reply:
    return Reply(document=call.target(VirtualDisk).mount_path())


# virtdisk


@export("CreateVirtualDisk")
async def create_disk(call: Call) -> Reply:
    disk = call.host.disks.create(call.text("path"), call.text("parentPath"), call.number)
    return Reply(handle=call.open(disk).number)


@export("OpenVirtualDisk")
async def open_disk(call: Call) -> Reply:
    return Reply(handle=call.open(call.host.disks.open(call.text("path"))).number)


@export("AttachVirtualDisk")
async def attach_disk(call: Call) -> Reply:
    call.target(VirtualDisk).attach(call.number)
    return Reply()


@export("DetachVirtualDisk")
async def detach_disk(call: Call) -> Reply:
    call.target(VirtualDisk).detach()
    return Reply()


@export("GetVirtualDiskPhysicalPath")
async def physical_path(call: Call) -> Reply:
    return Reply(document=call.target(VirtualDisk).physical_path())


@export("CloseHandle")
async def close_disk(call: Call) -> Reply:
    return call.close(VirtualDisk)

"""The HCS document of a utility VM with a Linux guest, a plain dict. Empty members are left out."""

from __future__ import annotations

from shim.container.network import new_guid
from shim.platform import host
from shim.uvm.document import complete, hvsocket, storage_qos, topology
from shim.uvm.linux import kernel_arguments
from shim.uvm.scsi import CONTROLLERS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from shim.uvm.linux.settings import LinuxVmSettings

    Document = dict[str, Any]

IMAGE_FORMAT = "Vhd1"


def build(settings: LinuxVmSettings) -> Document:
    machine: Document = {
        "StopOnReset": True,
        "Chipset": _chipset(settings),
        "ComputeTopology": _topology(settings),
        "Devices": _devices(settings),
    }
    if quality := storage_qos(settings):
        machine["StorageQoS"] = quality
    return complete(machine, settings)


def _chipset(settings: LinuxVmSettings) -> Document:
    boot = settings.boot
    command_line = kernel_arguments.build(settings, host.architecture())
    if not boot.kernel_direct:
        entry = {
            "DeviceType": "VmbFs",
            "DevicePath": f"\\{boot.kernel_name}",
            "VmbFsRootPath": boot.directory,
            "OptionalData": command_line,
        }
        return {"Uefi": {"BootThis": entry}}
    kernel = {"KernelFilePath": boot.kernel, "KernelCmdLine": command_line}
    if not boot.is_vhd:
        kernel["InitRdPath"] = boot.rootfs
    return {"LinuxKernelDirect": kernel}


def _topology(settings: LinuxVmSettings) -> Document:
    found = topology(settings)
    if settings.cold_discard_hint:
        found["Memory"]["EnableColdDiscardHint"] = True
    return found


def _devices(settings: LinuxVmSettings) -> Document:
    boot = settings.boot
    controllers: Document = {name: {} for name in CONTROLLERS[: settings.scsi_controllers]}
    devices: Document = {"Scsi": controllers, "HvSocket": hvsocket(settings.hvsocket_services), "Plan9": {}}
    if settings.vpmem_count:
        memory: Document = {"MaximumCount": settings.vpmem_count, "MaximumSizeBytes": settings.vpmem_size}
        if boot.is_vhd:
            memory["Devices"] = {"0": {"HostPath": boot.rootfs, "ReadOnly": True, "ImageFormat": IMAGE_FORMAT}}
        devices["VirtualPMem"] = memory
    elif boot.is_vhd:
        disk = {"Type": "VirtualDisk", "Path": boot.rootfs, "ReadOnly": True}
        controllers[CONTROLLERS[0]] = {"Attachments": {"0": disk}}
    if settings.console_pipe:
        devices["ComPorts"] = {"0": {"NamedPipe": settings.console_pipe}}
    if settings.devices:
        devices["VirtualPci"] = {channel: _assigned(settings, *device) for channel, device in settings.devices.items()}
    if settings.netns:
        devices["NetworkAdapters"] = {new_guid(): {"EndpointId": settings.netns}}
    return devices


def _assigned(settings: LinuxVmSettings, path: str, function: int) -> Document:
    device: Document = {"Functions": [{"DeviceInstancePath": path, "VirtualFunction": function}]}
    if settings.propagate_numa_affinity:
        device["PropagateNumaAffinity"] = True
    return device

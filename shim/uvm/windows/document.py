"""The HCS document of a utility VM with a Windows guest, a plain dict. Empty members are left out."""

from __future__ import annotations

from shim.container.layers import join
from shim.uvm.document import ADMINISTRATORS, complete, hvsocket, storage_qos, topology
from shim.uvm.scsi import CONTROLLER
from shim.uvm.windows.vsmb import share_options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from shim.uvm.windows.boot_files import BootFiles
    from shim.uvm.windows.settings import WindowsVmSettings

    Document = dict[str, Any]

# The Hyper-V socket service to which the guest sends its log.
LOG_SERVICE_ID = "172dad59-976d-45f2-8b6c-6d1b13f2ac4d"
# LUN 0 of the SCSI controller is the VM's own scratch disk.
BOOT_LUN = "0"
BOOT_PROGRAM = "\\EFI\\Microsoft\\Boot\\bootmgfw.efi"
BOOT_SHARE = "os"
DIRECT_FILE_MAPPING_MB = 1024


def build(id: str, settings: WindowsVmSettings, boot: BootFiles) -> Document:
    machine: Document = {
        "StopOnReset": True,
        "Chipset": {"Uefi": {"BootThis": {"DeviceType": "VmbFs", "DevicePath": BOOT_PROGRAM}}},
        "ComputeTopology": topology(settings, EnableHotHint=True),
        "Devices": _devices(id, settings, boot),
    }
    changes = _registry(settings)
    machine["RegistryChanges"] = {"AddValues": changes} if changes else {}
    if quality := storage_qos(settings):
        machine["StorageQoS"] = quality
    if settings.dump_directory:
        saved = join(settings.dump_directory, f"{id}-savedstate")
        machine["DebugOptions"] = {
            "BugcheckSavedStateFileName": f"{saved}.vmrs",
            "BugcheckNoCrashdumpSavedStateFileName": f"{saved}_nocrashdump.vmrs",
        }
    return complete(machine, settings)


def _devices(id: str, settings: WindowsVmSettings, boot: BootFiles) -> Document:
    devices: Document = {}
    if settings.console_pipe:
        devices["ComPorts"] = {"0": {"NamedPipe": settings.console_pipe}}
    disk = {"Type": "VirtualDisk", "Path": boot.scratch}
    devices["Scsi"] = {CONTROLLER: {"Attachments": {BOOT_LUN: disk}}}
    devices["HvSocket"] = hvsocket(_services(settings))
    options = share_options(read_only=True, backup=True, no_direct_map=settings.no_direct_map)
    devices["VirtualSmb"] = {
        "Shares": [{"Name": BOOT_SHARE, "Path": boot.files, "Options": options}],
        "DirectFileMappingInMB": DIRECT_FILE_MAPPING_MB,
    }
    if settings.dump_directory:
        dump = join(settings.dump_directory, f"{id}-windows-crash")
        devices["GuestCrashReporting"] = {"WindowsCrashSettings": {"DumpFileName": dump, "DumpType": "Full"}}
    return devices


def _services(settings: WindowsVmSettings) -> Document:
    services = dict(settings.hvsocket_services)
    if settings.forward_logs:
        services[LOG_SERVICE_ID] = {
            "BindSecurityDescriptor": ADMINISTRATORS,
            "ConnectSecurityDescriptor": ADMINISTRATORS,
            "AllowWildcardBinds": True,
        }
    return services


def _registry(settings: WindowsVmSettings) -> list[Document]:
    values = []
    if settings.process_dumps:
        # The service that writes dumps runs, and does not report them to Microsoft.
        values.append(_number("System", "ControlSet001\\Services\\WerSvc", "Start", 2))
        values.append(_number("Software", "Microsoft\\Windows\\Windows Error Reporting", "Disabled", 1))
    if settings.compartments:
        values.append(_number("System", "CurrentControlSet\\Services\\gns", "EnableCompartmentNamespace", 1))
    return values + settings.registry


def _number(hive: str, key: str, name: str, value: int) -> Document:
    return {"Key": {"Hive": hive, "Name": key}, "Name": name, "Type": "DWord", "DWordValue": value}

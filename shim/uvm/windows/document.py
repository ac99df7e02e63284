"""The HCS document of a utility VM for Windows containers, a plain dict. Empty members are left out."""

from __future__ import annotations

from shim.container.document import OWNER, SCHEMA_VERSION
from shim.container.layers import join
from shim.uvm.windows.guest import LOG_SERVICE_ID

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from shim.uvm.settings import VmSettings
    from shim.uvm.windows.boot_files import BootFiles

    Document = dict[str, Any]

# The one SCSI controller of a Windows VM. Its LUN 0 is the VM's own disk.
SCSI_CONTROLLER = "df6d0690-79e5-55b6-a5ec-c1e2f77f580a"
BOOT_LUN = "0"
BOOT_PROGRAM = "\\EFI\\Microsoft\\Boot\\bootmgfw.efi"
BOOT_SHARE = "os"
DIRECT_FILE_MAPPING_MB = 1024
# System and administrators, nobody else.
ADMINISTRATORS = "D:P(A;;FA;;;SY)(A;;FA;;;BA)"

READ_ONLY_SHARE = {"ReadOnly": True, "ShareRead": True, "CacheIo": True}


def share_options(
    *, read_only: bool, backup: bool = False, no_direct_map: bool = False, file: bool = False
) -> Document:
    """`backup`: files are read whoever owns them, as layers need it."""
    options: Document = {}
    if read_only:
        options.update(READ_ONLY_SHARE)
    if no_direct_map:
        options["NoDirectmap"] = True
    if backup:
        options["TakeBackupPrivilege"] = True
    if read_only:
        options["PseudoOplocks"] = True
    if file:
        options.update({"RestrictFileAccess": True, "SingleFileMapping": True})
    return options


def build(id: str, settings: VmSettings, boot: BootFiles) -> Document:
    machine: Document = {
        "StopOnReset": True,
        "Chipset": {"Uefi": {"BootThis": {"DeviceType": "VmbFs", "DevicePath": BOOT_PROGRAM}}},
        "ComputeTopology": _topology(settings),
        "Devices": _devices(id, settings, boot),
    }
    changes = _registry(settings)
    machine["RegistryChanges"] = {"AddValues": changes} if changes else {}
    if quality := {name: value for name, value in settings.storage.items() if value}:
        machine["StorageQoS"] = quality
    if settings.dump_directory:
        saved = join(settings.dump_directory, f"{id}-savedstate")
        machine["DebugOptions"] = {
            "BugcheckSavedStateFileName": f"{saved}.vmrs",
            "BugcheckNoCrashdumpSavedStateFileName": f"{saved}_nocrashdump.vmrs",
        }
    if settings.resource_partition:
        machine["ResourcePartitionId"] = settings.resource_partition
    return {
        "Owner": OWNER,
        "SchemaVersion": SCHEMA_VERSION,
        "VirtualMachine": machine,
        # A shim that dies leaves no VM behind that nobody watches.
        "ShouldTerminateOnLastHandleClosed": True,
    }


def _topology(settings: VmSettings) -> Document:
    memory: Document = {"SizeInMB": settings.memory_mb}
    if settings.allow_overcommit:
        memory["AllowOvercommit"] = memory["EnableHotHint"] = True
    if settings.deferred_commit:
        memory["EnableDeferredCommit"] = True
    for name, value in (
        ("LowMmioGapInMB", settings.low_mmio_gap_mb),
        ("HighMmioBaseInMB", settings.high_mmio_base_mb),
        ("HighMmioGapInMB", settings.high_mmio_gap_mb),
    ):
        if value:
            memory[name] = value
    processor: Document = {"Count": settings.processors}
    if settings.processor_limit:
        processor["Limit"] = settings.processor_limit
    if settings.processor_weight:
        processor["Weight"] = settings.processor_weight
    if settings.cpu_group:
        processor["CpuGroup"] = {"Id": settings.cpu_group}
    topology: Document = {"Memory": memory, "Processor": processor}
    if settings.numa is not None:
        memory["SlitType"] = "FirmwareFallbackMeasured"
        topology["Numa"] = settings.numa.topology
        if settings.numa.processor_settings:
            processor["NumaProcessorsSettings"] = settings.numa.processor_settings
    return topology


def _devices(id: str, settings: VmSettings, boot: BootFiles) -> Document:
    devices: Document = {}
    if settings.console_pipe:
        devices["ComPorts"] = {"0": {"NamedPipe": settings.console_pipe}}
    disk = {"Type": "VirtualDisk", "Path": boot.scratch}
    devices["Scsi"] = {SCSI_CONTROLLER: {"Attachments": {BOOT_LUN: disk}}}
    sockets: Document = {"DefaultBindSecurityDescriptor": ADMINISTRATORS}
    if services := _services(settings):
        sockets["ServiceTable"] = services
    devices["HvSocket"] = {"HvSocketConfig": sockets}
    options = share_options(read_only=True, backup=True, no_direct_map=settings.no_direct_map)
    devices["VirtualSmb"] = {
        "Shares": [{"Name": BOOT_SHARE, "Path": boot.files, "Options": options}],
        "DirectFileMappingInMB": DIRECT_FILE_MAPPING_MB,
    }
    if settings.dump_directory:
        dump = join(settings.dump_directory, f"{id}-windows-crash")
        devices["GuestCrashReporting"] = {"WindowsCrashSettings": {"DumpFileName": dump, "DumpType": "Full"}}
    return devices


def _services(settings: VmSettings) -> Document:
    services = dict(settings.hvsocket_services)
    if settings.forward_logs:
        services[LOG_SERVICE_ID] = {
            "BindSecurityDescriptor": ADMINISTRATORS,
            "ConnectSecurityDescriptor": ADMINISTRATORS,
            "AllowWildcardBinds": True,
        }
    return services


def _registry(settings: VmSettings) -> list[Document]:
    values = []
    if settings.process_dumps:
        # The service that writes dumps is to run, but not to report them to Microsoft.
        values.append(_number("System", "ControlSet001\\Services\\WerSvc", "Start", 2))
        values.append(_number("Software", "Microsoft\\Windows\\Windows Error Reporting", "Disabled", 1))
    if settings.compartments:
        values.append(_number("System", "CurrentControlSet\\Services\\gns", "EnableCompartmentNamespace", 1))
    return values + settings.registry


def _number(hive: str, key: str, name: str, value: int) -> Document:
    return {"Key": {"Hive": hive, "Name": key}, "Name": name, "Type": "DWord", "DWordValue": value}

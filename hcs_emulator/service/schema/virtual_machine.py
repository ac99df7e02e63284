"""The `VirtualMachine` document: a utility VM's topology and devices."""

from __future__ import annotations

from typing import Any

from hcs_emulator.service.schema.common import (
    HVSOCKET_SERVICE,
    LTSC2022,
    LTSC2025,
    REGISTRY_CHANGES,
    V19H1,
    V20H1,
    V21H1,
    VERSION,
)
from hcs_emulator.service.schema.shapes import (
    Bool,
    Enum,
    Guid,
    Int,
    ListOf,
    MapOf,
    NumberKey,
    Record,
    SchemaError,
    Shape,
    Str,
    since,
)

EMPTY = Record({})
UINT32 = Int(0, 2**32 - 1)
UINT64 = Int(0, 2**64 - 1)

MEMORY_SIZE = Int(1, 2**40)
PROCESSOR_LIMITS = Record(
    {"Limit": Int(0, 100000), "Weight": Int(0, 10000), "Reservation": Int(0, 100000), "MaximumFrequencyMHz": UINT32}
)
CPU_GROUP = Record({"Id": Guid()}, required=("Id",))
CONTROL_GROUP = Record({"Id": Str(empty=False)}, required=("Id",))


class _Group(Shape):
    """A CPU group of HCS; or a control group of the Linux host, by its absolute path, with every build."""

    def check(self, value: Any, path: str, build: int) -> None:
        if isinstance(value, dict) and str(value.get("Id", "")).startswith("/"):
            CONTROL_GROUP.check(value, path, build)
        elif build < V21H1:
            raise SchemaError(path, "unknown member")
        else:
            CPU_GROUP.check(value, path, build)


MEMORY = Record(
    {
        "SizeInMB": MEMORY_SIZE,
        "AllowOvercommit": Bool(),
        "BackingPageSize": Enum("Small", "Large"),
        "FaultClusterSizeShift": UINT32,
        "DirectMapFaultClusterSizeShift": UINT32,
        "PinBackingPages": Bool(),
        "ForbidSmallBackingPages": Bool(),
        "EnablePrivateCompressionStore": Bool(),
        "EnableHotHint": Bool(),
        "EnableColdHint": Bool(),
        "EnableColdDiscardHint": since(18967, Bool()),
        "SharedMemoryMB": UINT64,
        "EnableEpf": Bool(),
        "EnableDeferredCommit": Bool(),
        "HostingProcessNameSuffix": since(V20H1, Str()),
        "LowMmioGapInMB": UINT64,
        "HighMmioBaseInMB": UINT64,
        "HighMmioGapInMB": UINT64,
        "SlitType": since(LTSC2025, Enum("None", "FirmwareFallbackMeasured", "Measured", "Firmware")),
    },
    required=("SizeInMB",),
)

PROCESSOR = Record(
    {
        "Count": Int(1, 2048),
        "Limit": Int(0, 100000),
        "Weight": Int(0, 10000),
        "Reservation": Int(0, 100000),
        "ExposeVirtualizationExtensions": Bool(),
        "EnablePerfmonPmu": Bool(),
        "EnablePerfmonArchPmu": Bool(),
        "EnablePerfmonPebs": Bool(),
        "EnablePerfmonLbr": Bool(),
        "EnablePerfmonIpt": Bool(),
        "SynchronizeHostFeatures": since(V19H1, Bool()),
        "EnableSchedulerAssist": Bool(),
        "CpuGroup": _Group(),
        "NumaProcessorsSettings": since(
            LTSC2025, Record({"count_per_node": Record({"max": UINT32}), "total_assigned": UINT32})
        ),
    }
)

NUMA = Record(
    {
        "VirtualNodeCount": Int(0, 64),
        "PreferredPhysicalNodes": ListOf(UINT64),
        "Settings": ListOf(
            Record(
                {
                    "VirtualNodeNumber": UINT32,
                    "PhysicalNodeNumber": UINT32,
                    "VirtualSocketNumber": UINT32,
                    "CountOfProcessors": UINT32,
                    "CountOfMemoryBlocks": UINT64,
                    "MemoryBackingType": Enum("Physical", "Virtual", "Hybrid"),
                }
            )
        ),
        "MaxSizePerNode": UINT64,
    }
)

UEFI_BOOT_ENTRY = Record(
    {
        "DeviceType": Enum("ScsiDrive", "VmbFs", "Network", "File"),
        "DevicePath": Str(),
        "DiskNumber": Int(0, 65535),
        "OptionalData": Str(),
        "VmbFsRootPath": Str(),
    },
    required=("DeviceType",),
)

CHIPSET = Record(
    {
        "Uefi": Record(
            {
                "EnableDebugger": Bool(),
                "SecureBootTemplateId": Guid(),
                "ApplySecureBootTemplate": Enum("Skip", "Apply"),
                "BootThis": UEFI_BOOT_ENTRY,
                "Console": Enum("Default", "Disabled", "ComPort1", "ComPort2"),
                "StopOnBootFailure": Bool(),
            }
        ),
        "IsNumLockDisabled": Bool(),
        "BaseBoardSerialNumber": Str(),
        "ChassisSerialNumber": Str(),
        "ChassisAssetTag": Str(),
        "UseUtc": Bool(),
        "LinuxKernelDirect": since(
            18286, Record({"KernelFilePath": Str(empty=False), "InitRdPath": Str(), "KernelCmdLine": Str()})
        ),
        "FirmwareFile": since(LTSC2022, Record({"FileName": Str(), "Parameters": Str()})),
    }
)

ATTACHMENT = Record(
    {
        "Type": Enum("VirtualDisk", "Iso", "PassThru", "ExtensibleVirtualDisk"),
        "Path": Str(empty=False),
        "IgnoreFlushes": Bool(),
        "CachingMode": Enum("Uncached", "Cached", "ReadOnlyCached"),
        "NoWriteHardening": Bool(),
        "DisableExpansionOptimization": Bool(),
        "IgnoreRelativeLocator": Bool(),
        "CaptureIoAttributionContext": Bool(),
        "ReadOnly": Bool(),
        "SupportCompressedVolumes": Bool(),
        "AlwaysAllowSparseFiles": Bool(),
        "ExtensibleVirtualDiskType": Str(),
    },
    required=("Type", "Path"),
)

SHARE = Record(
    {
        "Name": Str(empty=False),
        "Path": Str(empty=False),
        "AllowedFiles": ListOf(Str(empty=False)),
        "Options": Record(
            {
                name: Bool()
                for name in [
                    "ReadOnly",
                    "ShareRead",
                    "CacheIo",
                    "NoOplocks",
                    "TakeBackupPrivilege",
                    "UseShareRootIdentity",
                    "NoDirectmap",
                    "NoLocks",
                    "NoDirnotify",
                    "Test",
                    "VmSharedMemory",
                    "RestrictFileAccess",
                    "ForceLevelIIOplocks",
                    "ReparseBaseLayer",
                    "PseudoOplocks",
                    "NonCacheIo",
                    "PseudoDirnotify",
                    "SingleFileMapping",
                    "SupportCloudFiles",
                    "FilterEncryptionAttributes",
                ]
            }
        ),
    },
    required=("Name", "Path"),
)

PLAN9_SHARE = Record(
    {
        "Name": Str(empty=False),
        "AccessName": Str(),
        "Path": Str(empty=False),
        "Port": UINT32,
        "Flags": UINT32,
        "AllowedFiles": since(V19H1, ListOf(Str())),
        "ReadOnly": Bool(),
        "UseShareRootIdentity": Bool(),
    },
    required=("Name", "Path"),
)

NETWORK_ADAPTER = Record(
    {
        "EndpointId": Str(empty=False),
        "MacAddress": Str(),
        "IovSettings": Record(
            {
                "OffloadWeight": Int(0, 100),
                "QueuePairsRequested": UINT32,
                "InterruptModeration": Enum("Default", "Adaptive", "Off", "Low", "Medium", "High"),
            }
        ),
    },
    required=("EndpointId",),
)

PMEM_MAPPING = Record({"HostPath": Str(empty=False), "ImageFormat": Enum("Vhdx", "Vhd1")}, required=("HostPath",))
PMEM_DEVICE = Record(
    {
        "HostPath": Str(empty=False),
        "ReadOnly": Bool(),
        "ImageFormat": Enum("Vhdx", "Vhd1"),
        "SizeBytes": UINT64,
        "Mappings": since(V19H1, MapOf(PMEM_MAPPING, key=NumberKey(2**63))),
    },
    required=("HostPath",),
)

PCI_DEVICE = Record(
    {
        "Functions": ListOf(Record({"DeviceInstancePath": Str(empty=False), "VirtualFunction": Int(0, 65535)})),
        "PropagateNumaAffinity": since(LTSC2025, Bool()),
    }
)

COM_PORT = Record({"NamedPipe": Str(), "OptimizeForDebugger": Bool()})
FLEXIBLE_IOV = Record(
    {
        "EmulatorId": Guid(),
        "HostingModel": Enum("Internal", "External", "ExternalRestricted"),
        "Configuration": ListOf(Str()),
    }
)

DEVICES = Record(
    {
        "ComPorts": MapOf(COM_PORT, key=NumberKey(3)),
        "Scsi": MapOf(
            Record({"Attachments": MapOf(ATTACHMENT, key=NumberKey(63)), "DisableThrottling": Bool()}),
            key=Guid(),
        ),
        "VirtualPMem": Record(
            {
                "Devices": MapOf(PMEM_DEVICE, key=NumberKey(127)),
                "MaximumCount": Int(0, 128),
                "MaximumSizeBytes": UINT64,
                "Backing": Enum("Virtual", "Physical"),
            }
        ),
        "NetworkAdapters": MapOf(NETWORK_ADAPTER, key=Guid()),
        "VideoMonitor": Record(
            {"HorizontalResolution": UINT32, "VerticalResolution": UINT32, "ConnectionOptions": Record({})}
        ),
        "Keyboard": EMPTY,
        "Mouse": EMPTY,
        "HvSocket": Record(
            {
                "HvSocketConfig": Record(
                    {
                        "DefaultBindSecurityDescriptor": Str(),
                        "DefaultConnectSecurityDescriptor": Str(),
                        "ServiceTable": MapOf(HVSOCKET_SERVICE, key=Guid()),
                    }
                )
            }
        ),
        "EnhancedModeVideo": Record({"ConnectionOptions": Record({})}),
        "GuestCrashReporting": Record(
            {
                "WindowsCrashSettings": Record(
                    {"DumpFileName": Str(), "MaxDumpSize": Int(-1, 2**63 - 1), "DumpType": Str()}
                )
            }
        ),
        "VirtualSmb": Record({"Shares": ListOf(SHARE), "DirectFileMappingInMB": Int(0, 2**40)}),
        "Plan9": Record({"Shares": ListOf(PLAN9_SHARE)}),
        "Battery": EMPTY,
        "FlexibleIov": MapOf(FLEXIBLE_IOV, key=Guid()),
        "SharedMemory": Record(
            {
                "Regions": ListOf(
                    Record(
                        {
                            "SectionName": Str(),
                            "StartOffset": UINT64,
                            "Length": UINT64,
                            "AllowGuestWrite": Bool(),
                            "HiddenFromGuest": Bool(),
                        }
                    )
                )
            }
        ),
        "VirtualPci": since(V19H1, MapOf(PCI_DEVICE, key=Guid())),
    }
)

VIRTUAL_MACHINE = Record(
    {
        "Version": VERSION,
        "StopOnReset": Bool(),
        "Chipset": CHIPSET,
        "ComputeTopology": Record(
            {"Memory": MEMORY, "Processor": PROCESSOR, "Numa": since(LTSC2025, NUMA)}, required=("Memory", "Processor")
        ),
        "Devices": DEVICES,
        "GuestState": Record(
            {
                "GuestStateFilePath": Str(),
                "GuestStateFileType": since(LTSC2022, Enum("FileMode", "BlockStorage")),
                "RuntimeStateFilePath": Str(),
                "ForceTransientState": Bool(),
            }
        ),
        "RestoreState": Record({"SaveStateFilePath": Str(), "TemplateSystemId": Str()}),
        "RegistryChanges": REGISTRY_CHANGES,
        "StorageQoS": Record({"IopsMaximum": Int(0, 2**31 - 1), "BandwidthMaximum": Int(0, 2**31 - 1)}),
        "RunInSilo": Bool(),
        "DebugOptions": Record({"BugcheckSavedStateFileName": Str(), "BugcheckNoCrashdumpSavedStateFileName": Str()}),
        "GuestConnection": Record({"UseVsock": Bool(), "UseConnectedSuspend": Bool(), "UseHostTimeZone": Bool()}),
        "SecuritySettings": since(
            LTSC2022,
            Record(
                {
                    "EnableTpm": Bool(),
                    "Isolation": Record(
                        {
                            "IsolationType": Enum(
                                "None", "VirtualizationBasedSecurity", "SecureNestedPaging", "GuestStateOnly"
                            ),
                            "LaunchData": Str(),
                            "HclEnabled": Bool(),
                        }
                    ),
                }
            ),
        ),
        "ResourcePartitionId": since(LTSC2022, Guid()),
    },
    required=("Chipset", "ComputeTopology"),
)

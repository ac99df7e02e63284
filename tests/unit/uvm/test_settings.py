"""Settings and document of a utility VM from specs and annotations, and errors."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from shim.oci.annotations import vm as names
from shim.oci.errors import NO_KIND, InvalidSpec
from shim.oci.spec import Spec
from shim.uvm.windows import document
from shim.uvm.windows.boot_files import BootFiles
from shim.uvm.windows.settings import WindowsVmSettings

BUILD = 20348
VM = "C:\\layers\\1\\UtilityVM"
BOOT = BootFiles(f"{VM}\\Files", f"{VM}\\SystemTemplate.vhdx", "C:\\s\\c1\\vm\\sandbox.vhdx")
GUID = "a8b1c9d0-1111-4222-8333-444455556666"
ADMINISTRATORS = "D:P(A;;FA;;;SY)(A;;FA;;;BA)"
LOG_SERVICE = "172dad59-976d-45f2-8b6c-6d1b13f2ac4d"
LOG_SETTINGS = {
    "BindSecurityDescriptor": ADMINISTRATORS,
    "ConnectSecurityDescriptor": ADMINISTRATORS,
    "AllowWildcardBinds": True,
}
COMPARTMENTS = {
    "Key": {"Hive": "System", "Name": "CurrentControlSet\\Services\\gns"},
    "Name": "EnableCompartmentNamespace",
    "Type": "DWord",
    "DWordValue": 1,
}


class Case:
    def __init__(
        self, annotations: dict[str, str] | None = None, resources: dict[str, Any] | None = None, *,
        processors: int = 8, build: int = BUILD,
    ) -> None:  # fmt: skip
        windows = {"hyperv": {}, "resources": resources or {}}
        self.warnings: list[str] = []
        spec = Spec({"windows": windows, "annotations": annotations or {}})
        self.settings = WindowsVmSettings(spec, processors, build, self.warnings.append)
        self.warnings += spec.annotations.warnings
        self.machine: dict[str, Any] = document.build("c1@vm", self.settings, BOOT)["VirtualMachine"]

    @property
    def memory(self) -> dict[str, Any]:
        found: dict[str, Any] = self.machine["ComputeTopology"]["Memory"]
        return found

    @property
    def processor(self) -> dict[str, Any]:
        found: dict[str, Any] = self.machine["ComputeTopology"]["Processor"]
        return found

    @property
    def devices(self) -> dict[str, Any]:
        found: dict[str, Any] = self.machine["Devices"]
        return found


def refusal(annotations: dict[str, str], kind: str = NO_KIND, *, resources: Any = None, build: int = BUILD) -> str:
    with pytest.raises(InvalidSpec) as caught:
        Case(annotations, resources, build=build)
    assert caught.value.kind == kind, caught.value
    return caught.value.message


def test_document_of_minimal_spec() -> None:
    """The document that Microsoft's shim writes."""
    settings = WindowsVmSettings(Spec({"windows": {"hyperv": {}}}), 8, BUILD, pytest.fail)
    assert document.build("c1@vm", settings, BOOT) == {
        "Owner": "containerd-shim-runhcs-v1.exe",
        "SchemaVersion": {"Major": 2, "Minor": 1},
        "VirtualMachine": {
            "StopOnReset": True,
            "Chipset": {
                "Uefi": {"BootThis": {"DeviceType": "VmbFs", "DevicePath": "\\EFI\\Microsoft\\Boot\\bootmgfw.efi"}}
            },
            "ComputeTopology": {
                "Memory": {"SizeInMB": 1024, "AllowOvercommit": True, "EnableHotHint": True},
                "Processor": {"Count": 2},
            },
            "Devices": {
                "Scsi": {
                    "df6d0690-79e5-55b6-a5ec-c1e2f77f580a": {
                        "Attachments": {"0": {"Type": "VirtualDisk", "Path": "C:\\s\\c1\\vm\\sandbox.vhdx"}}
                    }
                },
                "HvSocket": {
                    "HvSocketConfig": {
                        "DefaultBindSecurityDescriptor": ADMINISTRATORS,
                        "ServiceTable": {LOG_SERVICE: LOG_SETTINGS},
                    }
                },
                "VirtualSmb": {
                    "Shares": [
                        {
                            "Name": "os",
                            "Path": "C:\\layers\\1\\UtilityVM\\Files",
                            "Options": {
                                "ReadOnly": True,
                                "ShareRead": True,
                                "CacheIo": True,
                                "TakeBackupPrivilege": True,
                                "PseudoOplocks": True,
                            },
                        }
                    ],
                    "DirectFileMappingInMB": 1024,
                },
            },
            "RegistryChanges": {"AddValues": [COMPARTMENTS]},
        },
        "ShouldTerminateOnLastHandleClosed": True,
    }


def test_vm_size_annotations() -> None:
    case = Case(
        {
            names.VM_MEMORY_SIZE_IN_MB: "3000",
            names.VM_PROCESSOR_COUNT: "1",
            names.PROCESSOR_LIMIT: "50000",
            names.PROCESSOR_WEIGHT: "200",
            names.ALLOW_OVERCOMMIT: "false",
            names.STORAGE_IOPS: "777",
            names.STORAGE_BANDWIDTH: "888",
            names.CONSOLE_PIPE: "\\\\.\\pipe\\con",
        },
        {"cpu": {"maximum": 5000}, "memory": {"limit": 512 << 20}},
    )
    assert case.memory == {"SizeInMB": 3000}
    assert case.processor == {"Count": 1, "Limit": 50000, "Weight": 200}
    assert case.machine["StorageQoS"] == {"IopsMaximum": 777, "BandwidthMaximum": 888}
    assert case.devices["ComPorts"] == {"0": {"NamedPipe": "\\\\.\\pipe\\con"}}
    assert case.settings.physically_backed


def test_oci_fields_without_annotations() -> None:
    case = Case(
        {names.VM_MEMORY_SIZE_IN_MB: "0", names.PROCESSOR_LIMIT: "much"},
        {
            "memory": {"limit": 700 << 20},
            "cpu": {"count": 3, "maximum": 5000, "shares": 300},
            "storage": {"iops": 5, "bps": 6},
        },
    )
    assert case.memory["SizeInMB"] == 700
    assert case.processor == {"Count": 3, "Limit": 5000, "Weight": 300}
    assert case.machine["StorageQoS"] == {"IopsMaximum": 5, "BandwidthMaximum": 6}
    assert [names.PROCESSOR_LIMIT in warning for warning in case.warnings] == [True]


@pytest.mark.parametrize(("requested", "given"), [("1023", 1024), ("1024", 1024), ("1", 2), ("4097", 4098)])
def test_memory_is_rounded_up_to_even(requested: str, given: int) -> None:
    case = Case({names.VM_MEMORY_SIZE_IN_MB: requested})
    assert case.memory["SizeInMB"] == given
    assert len(case.warnings) == (int(requested) != given)


@pytest.mark.parametrize("limit", [1, (1 << 20) - 1])
def test_memory_limit_below_one_mib_is_refused(limit: int) -> None:
    with pytest.raises(InvalidSpec, match=f"windows.resources.memory.limit is {limit}: .*1 MiB"):
        Case({}, {"memory": {"limit": limit}})
    assert Case({names.VM_MEMORY_SIZE_IN_MB: "512"}, {"memory": {"limit": limit}}).memory["SizeInMB"] == 512


def test_processor_count_is_capped_by_host() -> None:
    case = Case({names.VM_PROCESSOR_COUNT: "64"}, processors=4)
    assert case.processor == {"Count": 4} and "64" in case.warnings[0]
    assert Case(processors=1).processor == {"Count": 1}


def test_physically_backed_memory() -> None:
    case = Case({names.PHYSICALLY_BACKED: "true", names.ALLOW_OVERCOMMIT: "true"})
    assert case.memory == {"SizeInMB": 1024}
    assert case.devices["VirtualSmb"]["Shares"][0]["Options"]["NoDirectmap"] is True
    assert case.settings.no_direct_map and case.settings.physically_backed


def test_memory_commit_and_mmio_settings() -> None:
    case = Case(
        {
            names.DEFERRED_COMMIT: "true",
            names.LOW_MMIO_GAP: "64",
            names.HIGH_MMIO_BASE: "128",
            names.HIGH_MMIO_GAP: "256",
        }
    )
    assert case.memory == {
        "SizeInMB": 1024, "AllowOvercommit": True, "EnableHotHint": True, "EnableDeferredCommit": True,
        "LowMmioGapInMB": 64, "HighMmioBaseInMB": 128, "HighMmioGapInMB": 256,
    }  # fmt: skip


@pytest.mark.parametrize("other", [{names.ALLOW_OVERCOMMIT: "false"}, {names.PHYSICALLY_BACKED: "true"}])
def test_deferred_commit_without_overcommit_is_refused(other: dict[str, str]) -> None:
    assert names.DEFERRED_COMMIT in refusal({names.DEFERRED_COMMIT: "true", **other})


def test_cpu_group_and_resource_partition_are_exclusive() -> None:
    assert Case({names.CPU_GROUP: GUID.upper()}).processor["CpuGroup"] == {"Id": GUID}
    assert Case({names.RESOURCE_PARTITION: GUID}).machine["ResourcePartitionId"] == GUID
    assert "at the same time" in refusal({names.CPU_GROUP: GUID, names.RESOURCE_PARTITION: GUID})
    assert "19043" in refusal({names.CPU_GROUP: GUID}, build=17763)
    for bad in ("", "1234", "{" + GUID + "}"):
        assert "GUID" in refusal({names.RESOURCE_PARTITION: bad})


def test_dump_settings() -> None:
    case = Case({names.DUMP_DIRECTORY: "C:\\dumps", "io.microsoft.container.processdumplocation": "C:\\p"})
    assert case.machine["DebugOptions"] == {
        "BugcheckSavedStateFileName": "C:\\dumps\\c1@vm-savedstate.vmrs",
        "BugcheckNoCrashdumpSavedStateFileName": "C:\\dumps\\c1@vm-savedstate_nocrashdump.vmrs",
    }
    crash = case.devices["GuestCrashReporting"]["WindowsCrashSettings"]
    assert crash == {"DumpFileName": "C:\\dumps\\c1@vm-windows-crash", "DumpType": "Full"}
    values = case.machine["RegistryChanges"]["AddValues"]
    assert [(value["Key"]["Name"], value["Name"], value["DWordValue"]) for value in values[:-1]] == [
        ("ControlSet001\\Services\\WerSvc", "Start", 2),
        ("Microsoft\\Windows\\Windows Error Reporting", "Disabled", 1),
    ]


def test_registry_annotations() -> None:
    allowed = {"Key": {"Hive": "Software", "Name": "x"}, "Name": "n", "Type": "DWord", "DWordValue": 1}
    forbidden = {**allowed, "Key": {"Hive": "Sam", "Name": "x"}}
    case = Case({names.NO_COMPARTMENTS: "true", names.REGISTRY: json.dumps([allowed, forbidden])})
    assert case.machine["RegistryChanges"] == {"AddValues": [allowed]}
    assert names.REGISTRY in case.warnings[0]
    assert Case({names.NO_COMPARTMENTS: "true"}).machine["RegistryChanges"] == {}


def test_hvsocket_service_annotations() -> None:
    settings = {"BindSecurityDescriptor": "D:P(A;;FA;;;WD)", "AllowWildcardBinds": True}
    case = Case(
        {
            names.HVSOCKET_SERVICE + GUID.upper(): json.dumps(settings),
            names.HVSOCKET_SERVICE + "nonsense": "{}",
            names.FORWARD_LOGS: "false",
        }
    )
    assert case.devices["HvSocket"]["HvSocketConfig"]["ServiceTable"] == {GUID: settings}
    assert "nonsense" in case.warnings[0]
    odd = {"disabled": True, "AllowWildcardBinds": False, "Unknown": 1}
    wrong = {"AllowWildcardBinds": "yes"}
    case = Case(
        {
            names.HVSOCKET_SERVICE + GUID: json.dumps(odd),
            names.HVSOCKET_SERVICE + GUID.replace("1", "2"): json.dumps(wrong),
            names.HVSOCKET_SERVICE + "z" + GUID[1:]: "{}",
        }
    )
    assert case.devices["HvSocket"]["HvSocketConfig"]["ServiceTable"][GUID] == {"Disabled": True}
    assert len([line for line in case.warnings if names.HVSOCKET_SERVICE in line]) == 2
    none = Case({names.FORWARD_LOGS: "false"})
    assert none.devices["HvSocket"]["HvSocketConfig"] == {"DefaultBindSecurityDescriptor": ADMINISTRATORS}


def sources(case: Case) -> Any:
    text = case.settings.log_sources
    return json.loads(base64.b64decode(text))["LogConfig"]["sources"] if text else []


def test_log_source_annotations() -> None:
    (default,) = sources(Case())
    assert default["type"] == "ETW" and len(default["providers"]) == 13
    provider = {"providerGuid": GUID, "providerName": "mine", "level": "Verbose"}
    wish = {"logConfig": {"sources": [{"type": "ETW", "providers": [provider]}]}}
    given = base64.b64encode(json.dumps(wish).encode())
    (both,) = sources(Case({names.LOG_SOURCES: given.decode()}))
    assert both["providers"] == [*default["providers"], provider]
    (only,) = sources(Case({names.LOG_SOURCES: given.decode(), names.DEFAULT_LOG_SOURCES: "false"}))
    assert only["providers"] == [provider]
    assert sources(Case({names.DEFAULT_LOG_SOURCES: "false"})) is None, "the guest uses no defaults of its own"
    assert sources(Case({names.FORWARD_LOGS: "false"})) == []
    wrong = Case({names.LOG_SOURCES: "not base64!"})
    assert len(sources(wrong)) == 1 and names.LOG_SOURCES in wrong.warnings[0]


def test_time_zone_and_share_annotations() -> None:
    assert Case({names.NO_TIME_ZONE: "true"}).settings.utc and not Case().settings.utc
    assert Case({names.SHARES_READ_ONLY: "true"}).settings.shares_read_only
    assert Case({names.NO_DIRECT_MAP: "true"}).devices["VirtualSmb"]["Shares"][0]["Options"]["NoDirectmap"] is True


class TestNuma:
    OWN = {names.ALLOW_OVERCOMMIT: "false"}

    def test_numa_divided_by_hcs(self) -> None:
        case = Case(
            {
                **self.OWN,
                names.NUMA_PROCESSORS_PER_NODE: "2",
                names.NUMA_MEMORY_PER_NODE: "512",
                names.NUMA_PREFERRED_NODES: "1,0",
            },
            build=26100,
        )
        topology = case.machine["ComputeTopology"]
        assert topology["Numa"] == {"MaxSizePerNode": 512, "PreferredPhysicalNodes": [1, 0]}
        assert case.processor["NumaProcessorsSettings"] == {"count_per_node": {"max": 2}}
        assert case.memory["SlitType"] == "FirmwareFallbackMeasured"

    def listed(self, nodes: str = "0,1", processors: str = "1,1", memory: str = "512,512") -> dict[str, str]:
        return {
            **self.OWN,
            names.NUMA_MAPPED_NODES: nodes,
            names.NUMA_PROCESSORS: processors,
            names.NUMA_MEMORY: memory,
        }

    def test_numa_listed_by_node(self) -> None:
        case = Case(self.listed(), build=26100)
        assert case.machine["ComputeTopology"]["Numa"] == {
            "VirtualNodeCount": 2,
            "Settings": [
                {
                    "VirtualNodeNumber": number,
                    "PhysicalNodeNumber": number,
                    "VirtualSocketNumber": number,
                    "CountOfProcessors": 1,
                    "CountOfMemoryBlocks": 512,
                    "MemoryBackingType": "Physical",
                }
                for number in range(2)
            ],
        }
        assert "NumaProcessorsSettings" not in case.processor

    def test_numa_nodes_mapped_to_any(self) -> None:
        Case(self.listed(nodes="255,255"), build=26100)

    @pytest.mark.parametrize(
        ("annotations", "word"),
        [
            ({names.NUMA_PROCESSORS_PER_NODE: "2"}, "max-size-per-node"),
            ({names.NUMA_MAPPED_NODES: "0,1"}, "length"),
            ({"nodes": "0,255"}, "255"),
            ({"nodes": "0,65"}, "64"),
            ({"memory": "1024,0"}, "without memory"),
            ({"memory": "512,256"}, "768"),
            ({"processors": "1,2"}, "3 processors"),
        ],
    )
    def test_invalid_numa_annotations_are_refused(self, annotations: dict[str, str], word: str) -> None:
        named = any(key.startswith("io.") for key in annotations)
        given = {**self.OWN, **annotations} if named else self.listed(**annotations)
        assert word in refusal(given, build=26100)

    def test_numa_with_overcommit_or_old_build_is_refused(self) -> None:
        assert "only Physical memory" in refusal({**self.listed(), names.ALLOW_OVERCOMMIT: "true"}, build=26100)
        assert "26100" in refusal(self.listed())

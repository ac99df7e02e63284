"""Every row of the annotation table about utility VMs: what it changes in the VM's document, or what is refused. A row
without a case here is an error."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from shim.oci.annotations import container as shared
from shim.oci.annotations import table
from shim.oci.annotations import vm as names
from shim.oci.annotations.schema import CONTAINER_IN_VM, NO_EFFECT, REFUSED, VM, WINDOWS_VM, Annotation
from shim.oci.errors import UNIMPLEMENTED, InvalidSpec
from shim.oci.normalize import normalize_spec
from shim.oci.options import Options
from shim.oci.spec import Spec
from shim.uvm.windows import commands, document, drivers
from shim.uvm.windows.boot_files import BootFiles
from shim.uvm.windows.document import LOG_SERVICE_ID
from shim.uvm.windows.settings import WindowsVmSettings
from shim.uvm.windows.vsmb import VsmbShares

ROWS = [row for row in table.rows().values() if row.scope in (VM, WINDOWS_VM, CONTAINER_IN_VM)]
OURS = [row for row in ROWS if row in {**vars(shared), **vars(names)}.values()]
GROUP = "11111111-2222-3333-4444-555555555555"
BACKED = {names.PHYSICALLY_BACKED: "true"}


@pytest.fixture(autouse=True)
def nothing_logged() -> Iterator[None]:
    table._logged.clear()
    yield
    table._logged.clear()


class Machine:
    """What a VM's spec comes to, on a host of eight processors."""

    def __init__(self, annotations: dict[str, str], build: int = 26100, **resources: Any) -> None:
        spec = Spec({"windows": {"hyperv": {}, "resources": resources}, "annotations": annotations})
        normalize_spec(spec, Options())
        self.warned: list[str] = []
        self.settings = WindowsVmSettings(spec, 8, build, self.warned.append)
        self.warned += spec.annotations.warnings
        whole = document.build("p@vm", self.settings, BootFiles("C:\\files", "C:\\template", "C:\\scratch"))
        self.machine = whole["VirtualMachine"]
        self.memory = self.machine["ComputeTopology"]["Memory"]
        self.processor = self.machine["ComputeTopology"]["Processor"]
        self.devices = self.machine["Devices"]
        self.services = self.devices["HvSocket"]["HvSocketConfig"].get("ServiceTable", {})
        self.registry = [value["Name"] for value in self.machine.get("RegistryChanges", {}).get("AddValues", ())]


def refusal(annotations: dict[str, str], build: int = 26100) -> InvalidSpec:
    with pytest.raises(InvalidSpec) as caught:
        Machine(annotations, build)
    return caught.value


def processor_count() -> None:
    assert Machine({}).processor["Count"] == 2
    assert Machine({names.VM_PROCESSOR_COUNT: "4"}, cpu={"count": 3}).processor["Count"] == 4
    assert Machine({names.VM_PROCESSOR_COUNT: "0"}, cpu={"count": 3}).processor["Count"] == 3
    clamped = Machine({names.VM_PROCESSOR_COUNT: "64"})
    assert clamped.processor["Count"] == 8 and "64 virtual processors" in clamped.warned[0]


def processor_limit() -> None:
    assert Machine({names.PROCESSOR_LIMIT: "100000"}, cpu={"maximum": 5}).processor["Limit"] == 100000
    assert Machine({}, cpu={"maximum": 5}).processor["Limit"] == 5


def processor_weight() -> None:
    assert Machine({names.PROCESSOR_WEIGHT: "200"}, cpu={"shares": 5}).processor["Weight"] == 200


def memory_size() -> None:
    assert Machine({}).memory["SizeInMB"] == 1024
    assert Machine({names.VM_MEMORY_SIZE_IN_MB: "2047"}, memory={"limit": 512 << 20}).memory["SizeInMB"] == 2048
    assert Machine({}, memory={"limit": 512 << 20}).memory["SizeInMB"] == 512


def cpu_group() -> None:
    assert Machine({names.CPU_GROUP: GROUP}).processor["CpuGroup"] == {"Id": GROUP}
    assert "19043" in str(refusal({names.CPU_GROUP: GROUP}, 17763))
    assert "GUID" in str(refusal({names.CPU_GROUP: ""}))


def resource_partition() -> None:
    assert Machine({names.RESOURCE_PARTITION: GROUP}).machine["ResourcePartitionId"] == GROUP
    assert "cannot be set at the same time" in str(refusal({names.RESOURCE_PARTITION: GROUP, names.CPU_GROUP: GROUP}))


def allow_overcommit() -> None:
    assert Machine({}).memory["AllowOvercommit"] is True
    assert "AllowOvercommit" not in Machine({names.ALLOW_OVERCOMMIT: "false"}).memory


def deferred_commit() -> None:
    assert Machine({names.DEFERRED_COMMIT: "true"}).memory["EnableDeferredCommit"] is True
    assert "physically backed" in str(refusal({names.DEFERRED_COMMIT: "true", names.ALLOW_OVERCOMMIT: "false"}))


def physically_backed() -> None:
    vm = Machine({**BACKED, names.ALLOW_OVERCOMMIT: "true"})
    assert "AllowOvercommit" not in vm.memory
    assert vm.devices["VirtualSmb"]["Shares"][0]["Options"]["NoDirectmap"] is True


def low_mmio_gap() -> None:
    assert Machine({names.LOW_MMIO_GAP: "256"}).memory["LowMmioGapInMB"] == 256


def high_mmio_base() -> None:
    assert Machine({names.HIGH_MMIO_BASE: "32768"}).memory["HighMmioBaseInMB"] == 32768


def high_mmio_gap() -> None:
    assert Machine({names.HIGH_MMIO_GAP: str(2**40)}).memory["HighMmioGapInMB"] == 2**40


DIVIDED = {**BACKED, names.NUMA_PROCESSORS_PER_NODE: "2", names.NUMA_MEMORY_PER_NODE: "512"}
LISTED = {
    **BACKED,
    names.NUMA_MAPPED_NODES: "0,1",
    names.NUMA_PROCESSORS: "1,1",
    names.NUMA_MEMORY: "512,512",
}


def numa_processors_per_node() -> None:
    assert Machine(DIVIDED).processor["NumaProcessorsSettings"] == {"count_per_node": {"max": 2}}
    assert "26100" in str(refusal(DIVIDED, 20348))


def numa_memory_per_node() -> None:
    assert Machine(DIVIDED).machine["ComputeTopology"]["Numa"]["MaxSizePerNode"] == 512
    assert "beside it" in str(refusal({**DIVIDED, names.NUMA_MEMORY_PER_NODE: "0"}))


def numa_preferred_nodes() -> None:
    vm = Machine({**DIVIDED, names.NUMA_PREFERRED_NODES: "0,1"})
    assert vm.machine["ComputeTopology"]["Numa"]["PreferredPhysicalNodes"] == [0, 1]


def numa_nodes() -> None:
    first, second = Machine(LISTED).machine["ComputeTopology"]["Numa"]["Settings"]
    assert (first["PhysicalNodeNumber"], first["CountOfProcessors"], first["CountOfMemoryBlocks"]) == (0, 1, 512)
    assert second["PhysicalNodeNumber"] == 1
    assert "differ in length" in str(refusal({**LISTED, names.NUMA_MAPPED_NODES: "0"}))
    assert "only Physical memory" in str(refusal({**LISTED, names.PHYSICALLY_BACKED: "false"}))


def numa_processors() -> None:
    assert "give equal numbers" in str(refusal({**LISTED, names.NUMA_PROCESSORS: "1,2"}))
    without_nodes = Machine({**BACKED, names.NUMA_PROCESSORS: "1"})
    assert "Numa" not in without_nodes.machine["ComputeTopology"]


def numa_memory() -> None:
    assert "give equal numbers" in str(refusal({**LISTED, names.NUMA_MEMORY: "512,510"}))
    without_nodes = Machine({**BACKED, names.NUMA_MEMORY: "512"})
    assert "Numa" not in without_nodes.machine["ComputeTopology"]


def storage_bandwidth() -> None:
    vm = Machine({names.STORAGE_BANDWIDTH: "7"}, storage={"bps": 5, "iops": 6})
    assert vm.machine["StorageQoS"] == {"IopsMaximum": 6, "BandwidthMaximum": 7}


def storage_iops() -> None:
    assert Machine({names.STORAGE_IOPS: "7"}, storage={"iops": 6}).machine["StorageQoS"] == {"IopsMaximum": 7}


def dump_directory() -> None:
    vm = Machine({names.DUMP_DIRECTORY: "C:\\dumps"})
    crash = vm.devices["GuestCrashReporting"]["WindowsCrashSettings"]
    assert crash["DumpFileName"].startswith("C:\\dumps\\p@vm")
    assert vm.machine["DebugOptions"]["BugcheckSavedStateFileName"].startswith("C:\\dumps\\p@vm")


def console_pipe() -> None:
    assert Machine({names.CONSOLE_PIPE: "\\\\.\\pipe\\c"}).devices["ComPorts"]["0"]["NamedPipe"] == "\\\\.\\pipe\\c"


def forward_logs() -> None:
    assert LOG_SERVICE_ID in Machine({}).services
    off = Machine({names.FORWARD_LOGS: "false"})
    assert LOG_SERVICE_ID not in off.services and off.settings.log_sources == ""


def sources(vm: Machine) -> list[Any]:
    found = json.loads(base64.b64decode(vm.settings.log_sources))["LogConfig"]["sources"]
    assert isinstance(found, list)
    return found


def log_sources() -> None:
    mine = {"logConfig": {"sources": [{"type": "ETW", "providers": [{"providerGuid": GROUP}]}]}}
    vm = Machine({names.LOG_SOURCES: base64.b64encode(json.dumps(mine).encode()).decode()})
    assert sources(vm)[0]["providers"][-1]["providerGuid"] == GROUP
    assert "is ignored" in Machine({names.LOG_SOURCES: "{}"}).warned[0]


def default_log_sources() -> None:
    assert len(sources(Machine({}))[0]["providers"]) == 13
    none = Machine({names.DEFAULT_LOG_SOURCES: "false"}).settings.log_sources
    assert json.loads(base64.b64decode(none)) == {"LogConfig": {"sources": None}}


def no_compartments() -> None:
    assert "EnableCompartmentNamespace" in Machine({}).registry
    assert "EnableCompartmentNamespace" not in Machine({names.NO_COMPARTMENTS: "true"}).registry


def registry() -> None:
    value = {"Key": {"Hive": "Software", "Name": "Mine"}, "Name": "x", "Type": "String", "StringValue": "y"}
    assert "x" in Machine({names.REGISTRY: json.dumps([value])}).registry
    value["Key"] = {"Hive": "Sam", "Name": "Mine"}
    refused = Machine({names.REGISTRY: json.dumps([value])})
    assert "x" not in refused.registry and "not allowed" in refused.warned[0]


def hvsocket_service() -> None:
    vm = Machine({f"{names.HVSOCKET_SERVICE}{GROUP}": '{"AllowWildcardBinds": true}'})
    assert vm.services[GROUP] == {"AllowWildcardBinds": True}
    assert "must name a GUID" in Machine({f"{names.HVSOCKET_SERVICE}x": "{}"}).warned[0]


def no_time_zone() -> None:
    assert (Machine({}).settings.utc, Machine({names.NO_TIME_ZONE: "1"}).settings.utc) == (False, True)


def shares_read_only() -> None:
    settings = Machine({names.SHARES_READ_ONLY: "true"}).settings
    shares = VsmbShares(lambda request: None, no_direct_map=False, read_only=settings.shares_read_only)
    with pytest.raises(InvalidSpec, match="mount it with option ro"):
        shares.add("/", read_only=False)
    shares.add("/", read_only=True)


def no_direct_map() -> None:
    vm = Machine({names.NO_DIRECT_MAP: "true"})
    assert vm.devices["VirtualSmb"]["Shares"][0]["Options"]["NoDirectmap"] is True


def kernel_drivers() -> None:
    assert drivers.from_spec(Spec({"annotations": {names.KERNEL_DRIVERS: "/usr,/bin"}})) == ["/usr", "/bin"]
    with pytest.raises(InvalidSpec, match="does not exist"):
        drivers.from_spec(Spec({"annotations": {names.KERNEL_DRIVERS: "/usr,/nowhere/at/all"}}))
    with pytest.raises(InvalidSpec, match="no directory"):
        drivers.from_spec(Spec({"annotations": {names.KERNEL_DRIVERS: "/usr,/etc/passwd"}}))


def test_name_of_a_file_gets_into_no_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """The directory of drivers may be replaced by a file after it was checked."""
    released: list[str] = []
    shares = VsmbShares(lambda request: None, no_direct_map=False, read_only=False)
    monkeypatch.setattr(commands, "run", lambda *_: pytest.fail("a command was run"))
    vm = SimpleNamespace(shares=shares, id="vm")
    monkeypatch.setattr(shares, "_release", lambda key, file="": released.append(file))
    with pytest.raises(InvalidSpec, match="no directory any more"):
        drivers.install(vm, "/nowhere/a&calc", lambda text: None)  # type: ignore[arg-type]
    assert released == ["/nowhere/a&calc"]


CASES = {
    names.VM_PROCESSOR_COUNT: processor_count,
    names.PROCESSOR_LIMIT: processor_limit,
    names.PROCESSOR_WEIGHT: processor_weight,
    names.VM_MEMORY_SIZE_IN_MB: memory_size,
    names.CPU_GROUP: cpu_group,
    names.RESOURCE_PARTITION: resource_partition,
    names.ALLOW_OVERCOMMIT: allow_overcommit,
    names.DEFERRED_COMMIT: deferred_commit,
    names.PHYSICALLY_BACKED: physically_backed,
    names.LOW_MMIO_GAP: low_mmio_gap,
    names.HIGH_MMIO_BASE: high_mmio_base,
    names.HIGH_MMIO_GAP: high_mmio_gap,
    names.NUMA_PROCESSORS_PER_NODE: numa_processors_per_node,
    names.NUMA_MEMORY_PER_NODE: numa_memory_per_node,
    names.NUMA_PREFERRED_NODES: numa_preferred_nodes,
    names.NUMA_MAPPED_NODES: numa_nodes,
    names.NUMA_PROCESSORS: numa_processors,
    names.NUMA_MEMORY: numa_memory,
    names.STORAGE_BANDWIDTH: storage_bandwidth,
    names.STORAGE_IOPS: storage_iops,
    names.DUMP_DIRECTORY: dump_directory,
    names.CONSOLE_PIPE: console_pipe,
    names.FORWARD_LOGS: forward_logs,
    names.LOG_SOURCES: log_sources,
    names.DEFAULT_LOG_SOURCES: default_log_sources,
    names.NO_COMPARTMENTS: no_compartments,
    names.REGISTRY: registry,
    names.HVSOCKET_SERVICE: hvsocket_service,
    names.NO_TIME_ZONE: no_time_zone,
    names.SHARES_READ_ONLY: shares_read_only,
    names.NO_DIRECT_MAP: no_direct_map,
    names.KERNEL_DRIVERS: kernel_drivers,
}


def applied() -> list[Annotation]:
    return [row for row in OURS if row.outcome not in (NO_EFFECT, REFUSED)]


@pytest.mark.parametrize("row", applied())
def test_vm_annotation_has_its_effect(row: Annotation) -> None:
    CASES[row]()


def test_every_row_has_a_case() -> None:
    assert set(CASES) == set(applied())


@pytest.mark.parametrize("row", [row for row in OURS if row.outcome == REFUSED])
def test_vm_annotation_that_is_unsupported_is_rejected(row: Annotation) -> None:
    assert refusal({row: "x"}).kind == UNIMPLEMENTED
    Machine({row: ""})


# Read only beside another one.
NOT_ALONE = (names.NUMA_MEMORY_PER_NODE, names.NUMA_PREFERRED_NODES)


@pytest.mark.parametrize("row", [row for row in applied() if "number" in row.kind.text and row not in NOT_ALONE])
def test_malformed_number_warns_and_counts_as_absent(row: Annotation) -> None:
    beyond = Machine({row: str(row.kind.maximum + 1)})
    assert beyond.warned[0].startswith(f"annotation {row} is ignored: its value is not ")
    assert beyond.machine == Machine({row: "-1"}).machine == Machine({}).machine


@pytest.mark.parametrize("row", [row for row in applied() if row.kind.text.startswith("`true`")])
def test_malformed_flag_warns_and_counts_as_absent(row: Annotation) -> None:
    odd = Machine({row: "yes"})
    assert odd.warned == [f"annotation {row} is ignored: its value is not true or false"]
    assert odd.machine == Machine({}).machine

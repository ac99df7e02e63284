"""A task with its own VM: the modify requests of an Update, and the VM's stats."""

from __future__ import annotations

from typing import Any

import pytest

from shim.api.runhcs_stats import VirtualMachineMemory
from shim.oci.errors import InvalidSpec
from shim.task.signals import always_terminate, terminate_only
from shim.task.stats.vm_messages import vm_as_container, vm_statistics
from shim.task.update.vm import modify_requests
from shim.ttrpc import status
from shim.ttrpc.status import StatusError

WINDOWS, LINUX = "WindowsResources", "LinuxResources"
TOPOLOGY = "VirtualMachine/ComputeTopology"
GROUP = "io.microsoft.virtualmachine.cpugroup.id"
GUID = "a8b1c9d0-1111-4222-8333-444455556666"
NULL = "00000000-0000-0000-0000-000000000000"


def changes(kind: str, resources: dict[str, Any], annotations: dict[str, str] | None = None) -> list[tuple[str, Any]]:
    requests = modify_requests(kind, resources, annotations or {})
    assert all(request["RequestType"] == "Update" for request in requests)
    return [(request["ResourcePath"].removeprefix(TOPOLOGY), request["Settings"]) for request in requests]


def test_update_of_processor_count_is_unimplemented() -> None:
    with pytest.raises(StatusError, match=r"cpu\.maximum") as caught:
        changes(WINDOWS, {"cpu": {"count": 2}})
    assert caught.value.code == status.UNIMPLEMENTED


def test_update_of_memory_and_processor() -> None:
    assert changes(WINDOWS, {}) == []
    assert changes(WINDOWS, {"memory": {"limit": 3 << 30}}) == [("/Memory/SizeInMB", 3072)]
    assert changes(LINUX, {"memory": {"limit": (1023 << 20) + 5}}) == [("/Memory/SizeInMB", 1024)]
    assert changes(LINUX, {"memory": {}}) == [] and changes(LINUX, {"memory": {"limit": -1}}) == []
    assert changes(WINDOWS, {"cpu": {"maximum": 5000}}) == [("/Processor/Limits", {"Limit": 5000})]
    both = [("/Processor/Limits", {"Limit": 50000, "Weight": 7})]
    assert changes(LINUX, {"cpu": {"quota": 50000, "shares": 7}}) == both


def test_update_moves_vm_to_cpu_group() -> None:
    moved = [("/Processor/CpuGroup", {"Id": NULL}), ("/Processor/CpuGroup", {"Id": GUID})]
    assert changes(WINDOWS, {}, {GROUP: GUID}) == moved
    assert changes(WINDOWS, {}, {GROUP: NULL}) == moved[:1]
    with pytest.raises(InvalidSpec, match="GUID"):
        changes(WINDOWS, {}, {GROUP: "x"})


@pytest.mark.parametrize(
    ("kind", "resources"),
    [
        ("ContainerMount", {"HostPath": "/", "ContainerPath": "C:\\x"}),
        (WINDOWS, {"memory": {"limit": "much"}}),
        (WINDOWS, {"cpu": {"shares": True}}),
        (WINDOWS, {"cpu": []}),
        (WINDOWS, {"cpu": {"maximum": 100_001}}),
        (WINDOWS, {"cpu": {"shares": 10_001}}),
    ],
)
def test_invalid_update_of_vm_is_refused(kind: str, resources: dict[str, Any]) -> None:
    if resources.get("cpu") == []:
        assert changes(kind, resources) == []  # empty is absent
        return
    with pytest.raises(StatusError, match="Unknown"):
        changes(kind, resources)


PROPERTIES = {
    "Statistics": {"Processor": {"TotalRuntime100ns": 88_000_000}, "Timestamp": "2026-08-20T09:15:02.1234567Z"},
    "Memory": {
        "VirtualNodeCount": 1,
        "VirtualMachineMemory": {"AvailableMemory": 75, "ReservedMemory": 3, "AssignedMemory": 262144},
    },
}


def test_vm_stats() -> None:
    stats = vm_statistics(PROPERTIES, physically_backed=False)
    assert stats.processor is not None and stats.processor.total_runtime_ns == 8_800_000_000
    assert stats.memory is not None and stats.memory.virtual_node_count == 1
    assert stats.memory.working_set_bytes == 256 << 20
    expected = VirtualMachineMemory(available_memory=75, reserved_memory=3, assigned_memory=262144)
    assert stats.memory.vm_memory == expected
    backed = vm_statistics(PROPERTIES, physically_backed=True)
    assert backed.memory is not None and backed.memory.working_set_bytes == 1 << 30


def test_missing_vm_stats_are_zero() -> None:
    stats = vm_statistics({}, physically_backed=False)
    assert stats.memory is not None and stats.memory.working_set_bytes == 0


def test_vm_stats_as_container_stats() -> None:
    stats = vm_as_container(PROPERTIES, physically_backed=False)
    assert stats["Processor"] == {"TotalRuntime100ns": 88_000_000}
    assert stats["Memory"]["MemoryUsageCommitBytes"] == 256 << 20


def test_signals_of_vm_sandbox_and_old_guest() -> None:
    for number in (0, 9, 15, 77):
        always_terminate(number)
    for number in (6, 9, 15):
        terminate_only(number)
    with pytest.raises(StatusError, match="failed precondition"):
        terminate_only(2)

"""The stats messages of a utility VM, from HCS's properties `Statistics` and `Memory`."""

from __future__ import annotations

from shim.api import runhcs_stats

TYPE_CHECKING = False
if TYPE_CHECKING:
    from shim.task.interfaces import Document

# HCS counts a VM's memory in pages of this size, whatever the host's page size is.
PAGE = 4096


def vm_statistics(properties: Document, physically_backed: bool) -> runhcs_stats.VirtualMachineStatistics:
    processor = (properties.get("Statistics") or {}).get("Processor") or {}
    memory = properties.get("Memory") or {}
    of_machine = memory.get("VirtualMachineMemory") or {}
    return runhcs_stats.VirtualMachineStatistics(
        processor=runhcs_stats.VirtualMachineProcessorStatistics(
            total_runtime_ns=processor.get("TotalRuntime100ns", 0) * 100
        ),
        memory=runhcs_stats.VirtualMachineMemoryStatistics(
            working_set_bytes=working_set(of_machine, physically_backed),
            virtual_node_count=memory.get("VirtualNodeCount", 0),
            vm_memory=runhcs_stats.VirtualMachineMemory(
                available_memory=of_machine.get("AvailableMemory", 0),
                available_memory_buffer=of_machine.get("AvailableMemoryBuffer", 0),
                reserved_memory=of_machine.get("ReservedMemory", 0),
                assigned_memory=of_machine.get("AssignedMemory", 0),
                slp_active=of_machine.get("SlpActive", False),
                balancing_enabled=of_machine.get("BalancingEnabled", False),
                dm_operation_in_progress=of_machine.get("DmOperationInProgress", False),
            ),
        ),
    )


def working_set(memory: Document, physically_backed: bool) -> int:
    """The host memory that the VM uses, in bytes: all assigned memory if it is physically backed, else the part in use;
    HCS reports the available part in percent."""
    assigned = int(memory.get("AssignedMemory", 0)) * PAGE
    available = memory.get("AvailableMemory")
    if physically_backed or not isinstance(available, int) or not 0 <= available <= 100:
        return assigned
    return assigned * (100 - available) // 100


def vm_as_container(properties: Document, physically_backed: bool) -> Document:
    """The VM's stats as those of a container, for clients that have no VM stats."""
    statistics = dict(properties.get("Statistics") or {})
    memory = (properties.get("Memory") or {}).get("VirtualMachineMemory") or {}
    used = working_set(memory, physically_backed)
    statistics["Memory"] = {"MemoryUsageCommitBytes": used, "MemoryUsagePrivateWorkingSetBytes": used}
    return statistics

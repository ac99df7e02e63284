"""The parts of a utility VM's HCS document that do not depend on the kind of guest. Empty members are left out."""

from __future__ import annotations

from shim.container.document import OWNER, SCHEMA_VERSION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from shim.uvm.settings import VmSettings

    Document = dict[str, Any]

# System and administrators only.
ADMINISTRATORS = "D:P(A;;FA;;;SY)(A;;FA;;;BA)"


def complete(machine: Document, settings: VmSettings) -> Document:
    """The whole document around `VirtualMachine`."""
    if settings.resource_partition:
        machine["ResourcePartitionId"] = settings.resource_partition
    return {
        "Owner": OWNER,
        "SchemaVersion": SCHEMA_VERSION,
        "VirtualMachine": machine,
        # When the shim dies, HCS terminates the VM.
        "ShouldTerminateOnLastHandleClosed": True,
    }


def storage_qos(settings: VmSettings) -> Document:
    return {name: value for name, value in settings.storage.items() if value}


def hvsocket(services: Document) -> Document:
    config: Document = {"DefaultBindSecurityDescriptor": ADMINISTRATORS}
    if services:
        config["ServiceTable"] = services
    return {"HvSocketConfig": config}


def topology(settings: VmSettings, **memory_hints: bool) -> Document:
    """`ComputeTopology`. `memory_hints` are further members of memory that can be overcommitted."""
    memory: Document = {"SizeInMB": settings.memory_mb}
    if settings.allow_overcommit:
        memory.update({"AllowOvercommit": True, **memory_hints})
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

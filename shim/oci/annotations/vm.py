"""Annotations that shape a utility VM: this module's part of the table (see `shim.oci.annotations.schema`).

They apply in the spec that creates the VM: a sandbox's, or that of an isolated container without a pod.
"""

from __future__ import annotations

from shim.oci.annotations.container import NCPROXY_ADDRESS as NETWORK_PROXY
from shim.oci.annotations.container import (
    NO_DIRECT_MAP,
    NO_TIME_ZONE,
    SHARES_READ_ONLY,
    VM_BOOT_FILES,
    VM_MEMORY_SIZE_IN_MB,
    VM_PROCESSOR_COUNT,
)
from shim.oci.annotations.schema import (
    CONTAINER_IN_VM,
    FLAG,
    GUID,
    JSON,
    NUMBER,
    NUMBER_32,
    NUMBER_64,
    NUMBERS,
    NUMBERS_64,
    TEXT,
    TEXTS,
    VM,
    WINDOWS_VM,
    Annotation,
    Kind,
)

__all__ = [
    "NETWORK_PROXY",
    "NO_DIRECT_MAP",
    "NO_TIME_ZONE",
    "SHARES_READ_ONLY",
    "VM_BOOT_FILES",
    "VM_MEMORY_SIZE_IN_MB",
    "VM_PROCESSOR_COUNT",
]

_VM = "io.microsoft.virtualmachine."
_TOPOLOGY = f"{_VM}computetopology."

# Processors.
PROCESSOR_LIMIT = Annotation(
    f"{_TOPOLOGY}processor.limit",
    NUMBER,
    VM,
    "The VM's share of its processors, 1 to 100000. Overrides `windows.resources.cpu.maximum`, which counts to 10000.",
)
PROCESSOR_WEIGHT = Annotation(
    f"{_TOPOLOGY}processor.weight",
    NUMBER,
    VM,
    "The VM's weight among VMs, 1 to 10000. Overrides `windows.resources.cpu.shares`.",
    default="100, by Windows",
)
CPU_GROUP = Annotation(
    f"{_VM}cpugroup.id",
    GUID,
    VM,
    "The CPU group that the VM runs in; needs build 19043. Update takes it too. Excludes "
    "`io.microsoft.virtualmachine.resource-partition-id`.",
)
RESOURCE_PARTITION = Annotation(
    f"{_VM}resource-partition-id",
    GUID,
    VM,
    "The resource partition that the VM belongs to. Excludes `io.microsoft.virtualmachine.cpugroup.id`.",
)

# Memory.
ALLOW_OVERCOMMIT = Annotation(
    f"{_TOPOLOGY}memory.allowovercommit",
    FLAG,
    VM,
    "Whether the VM's memory may be backed by less than its size.",
    default="true",
)
DEFERRED_COMMIT = Annotation(
    f"{_TOPOLOGY}memory.enabledeferredcommit",
    FLAG,
    VM,
    "Memory is committed when it is first used. Create fails without overcommit.",
    default="false",
)
PHYSICALLY_BACKED = Annotation(
    f"{_VM}fullyphysicallybacked",
    FLAG,
    VM,
    "All memory is backed physically from the start, and shares are not mapped directly. Overrides `allowovercommit`.",
    default="false",
)
LOW_MMIO_GAP = Annotation(f"{_TOPOLOGY}memory.lowmmiogapinmb", NUMBER_64, VM, "Size of the low MMIO gap in MiB.")
HIGH_MMIO_BASE = Annotation(f"{_TOPOLOGY}memory.highmmiobaseinmb", NUMBER_64, VM, "Start of the high MMIO gap in MiB.")
HIGH_MMIO_GAP = Annotation(f"{_TOPOLOGY}memory.highmmiogapinmb", NUMBER_64, VM, "Size of the high MMIO gap in MiB.")

# Virtual NUMA. Two forms: limits per node, or node by node.
_NUMA = "Needs build 26100 and memory that is not overcommitted."
NUMA_PROCESSORS_PER_NODE = Annotation(
    f"{_TOPOLOGY}processor.numa.max-processors-per-node",
    NUMBER_32,
    VM,
    f"HCS divides the VM into virtual NUMA nodes with at most this many processors. {_NUMA}",
)
NUMA_MEMORY_PER_NODE = Annotation(
    f"{_TOPOLOGY}processor.numa.max-size-per-node",
    NUMBER_64,
    VM,
    "The most memory of such a node in MiB; must go with `max-processors-per-node`, else Create fails.",
)
NUMA_PREFERRED_NODES = Annotation(
    f"{_TOPOLOGY}numa.preferred-physical-nodes", NUMBERS, VM, "The host's NUMA nodes to prefer for them."
)
NUMA_MAPPED_NODES = Annotation(
    f"{_TOPOLOGY}numa.mapped-physical-nodes",
    NUMBERS,
    VM,
    f"Node by node: the host's node of each virtual one, up to 64, or 255 for all. The three lists must be equally "
    f"long, else Create fails. {_NUMA}",
)
NUMA_PROCESSORS = Annotation(
    f"{_TOPOLOGY}numa.count-of-processors",
    NUMBERS,
    VM,
    "Processors of each virtual node; their sum must be the VM's, else Create fails.",
)
NUMA_MEMORY = Annotation(
    f"{_TOPOLOGY}numa.count-of-memory-blocks",
    NUMBERS_64,
    VM,
    "MiB of each virtual node; their sum must be the VM's, else Create fails.",
)

# Storage.
STORAGE_BANDWIDTH = Annotation(
    f"{_VM}storageqos.bandwidthmaximum",
    NUMBER,
    VM,
    "Bytes per second of all the VM's disks. Overrides `windows.resources.storage.bps`.",
)
STORAGE_IOPS = Annotation(
    f"{_VM}storageqos.iopsmaximum",
    NUMBER,
    VM,
    "I/O operations per second of all the VM's disks. Overrides `windows.resources.storage.iops`.",
)

# Diagnostics.
DUMP_DIRECTORY = Annotation(
    f"{_VM}dump-directory-path",
    TEXT,
    WINDOWS_VM,
    "Directory for the dump and the saved state of a crashed VM. Create fails if it does not exist.",
)
CONSOLE_PIPE = Annotation(
    f"{_VM}console.pipe", TEXT, VM, r"The named pipe, `\\.\pipe\…`, for the VM's serial port COM1. May change."
)
FORWARD_LOGS = Annotation(
    f"{_VM}forwardlogs.enable",
    FLAG,
    WINDOWS_VM,
    "The log of the guest is forwarded to the log of the shim.",
    default="true",
)
LOG_SOURCES = Annotation(
    f"{_VM}forwardlogs.sources",
    Kind('base64 of JSON, `{"logConfig": {"sources": [...]}}`'),
    WINDOWS_VM,
    "ETW providers whose events are forwarded.",
)
DEFAULT_LOG_SOURCES = Annotation(
    f"{_VM}forwardlogs.defaultsources.enable",
    FLAG,
    WINDOWS_VM,
    "Also forwards the default providers of a container host.",
    default="true",
)

# The guest.
NO_COMPARTMENTS = Annotation(
    f"{_VM}disablecompartmentnamespace",
    FLAG,
    WINDOWS_VM,
    "Omits the registry value that lets the guest keep network compartments apart by namespace.",
    default="false",
)
REGISTRY = Annotation(
    f"{_VM}wcow.additional-reg-keys",
    JSON,
    WINDOWS_VM,
    "Registry values to set in the VM, with the same limits as those of containers. May change.",
)
HVSOCKET_SERVICE = Annotation(
    f"{_VM}hv-socket.service-table.",
    Kind("JSON object, HCS's HvSocketServiceConfig"),
    VM,
    "A further entry of the VM's Hyper-V socket service table; the service's GUID ends the key. May change.",
)
KERNEL_DRIVERS = Annotation(
    f"{_VM}kerneldrivers",
    TEXTS,
    CONTAINER_IN_VM,
    "Directories of drivers, which are shared with the VM and installed there by pnputil before the container is "
    "created. "
    "Create fails if one does not exist.",
)

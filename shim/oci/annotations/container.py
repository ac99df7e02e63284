"""Annotations of containers, and of pods whatever their isolation: this module's part of the table (see
`shim.oci.annotations.schema`)."""

from __future__ import annotations

from shim.oci.annotations.schema import (
    ANY,
    CONTAINER,
    EXACTLY_TRUE,
    FLAG,
    JSON,
    NO_EFFECT,
    NUMBER,
    NUMBER_64,
    REFUSED,
    TEXT,
    TEXTS,
    VM,
    Annotation,
    Kind,
)
from shim.oci.annotations.values import Annotations as Annotations

# Pod membership, set by CRI.
CONTAINER_TYPE = Annotation(
    "io.kubernetes.cri.container-type",
    Kind("`sandbox` or `container`", "the create fails"),
    ANY,
    "What the container is to its pod. Absent: it belongs to no pod.",
)
SANDBOX_ID = Annotation(
    "io.kubernetes.cri.sandbox-id",
    Kind("text", "the create fails if it does not fit the shim's pod"),
    ANY,
    "The pod's id; goes together with `io.kubernetes.cri.container-type`.",
)

# The requested Windows version.
SANDBOX_OS_VERSION = Annotation(
    "io.microsoft.virtualmachine.sandbox-os-version",
    Kind("build, version or release: `20348`, `10.0.20348`, `ltsc2022`", "the create fails"),
    ANY,
    "The version of Windows that the container, or the pod's VM, is to be: see "
    "[runtimeclasses.md](../how-to/runtimeclasses.md). "
    "Same as the option SandboxOsVersion.",
)

# Limits of a container.
_ONE_OF_THREE = "Only one of count, limit and weight may be set, wherever it comes from."
MEMORY_SIZE_IN_MB = Annotation(
    "io.microsoft.container.memory.sizeinmb",
    NUMBER_64,
    CONTAINER,
    "The container's memory limit in MiB. Before `windows.resources.memory.limit` (bytes).",
)
PROCESSOR_COUNT = Annotation(
    "io.microsoft.container.processor.count",
    NUMBER,
    CONTAINER,
    f"The number of processors, at most what the host or the VM has. Before `windows.resources.cpu.count`. "
    f"{_ONE_OF_THREE}",
)
PROCESSOR_LIMIT = Annotation(
    "io.microsoft.container.processor.limit",
    NUMBER,
    CONTAINER,
    f"The share of all processors, 1 to 10000 hundredths of a percent. Before `windows.resources.cpu.maximum`. "
    f"{_ONE_OF_THREE}",
)
PROCESSOR_WEIGHT = Annotation(
    "io.microsoft.container.processor.weight",
    NUMBER,
    CONTAINER,
    f"The weight among containers, 1 to 10000. Before `windows.resources.cpu.shares`. {_ONE_OF_THREE}",
    default="100, by Windows",
)
STORAGE_BANDWIDTH = Annotation(
    "io.microsoft.container.storage.qos.bandwidthmaximum",
    NUMBER,
    CONTAINER,
    "Bytes per second of the system drive. Before `windows.resources.storage.bps`.",
)
STORAGE_IOPS = Annotation(
    "io.microsoft.container.storage.qos.iopsmaximum",
    NUMBER,
    CONTAINER,
    "I/O operations per second of the system drive. Before `windows.resources.storage.iops`.",
)

# Windows containers.
DUMP_LOCATION = Annotation(
    "io.microsoft.container.processdumplocation",
    TEXT,
    ANY,
    "Where Windows Error Reporting in the container puts dumps of processes that crash; `{container_id}` at its end is "
    "replaced. On a hypervisor pod also the default of its containers.",
)
DUMP_TYPE = Annotation(
    "io.microsoft.wcow.processdumptype",
    Kind("`mini` or `full`", "the create fails, if there is a location"),
    CONTAINER,
    "The kind of those dumps.",
    default="full",
)
DUMP_COUNT = Annotation(
    "io.microsoft.wcow.processdumpcount",
    Kind("whole number above 0", "the create fails, if there is a location"),
    CONTAINER,
    "How many dumps are kept.",
    default="10",
)
DEVICE_EXTENSIONS = Annotation(
    "io.microsoft.container.wcow.deviceextensions",
    TEXTS,
    CONTAINER,
    "JSON files of device extensions, for the container's device namespace. A file that is missing or no JSON, or a "
    "host before build 20348, fails the create.",
)
EXTRA_REGISTRY = Annotation(
    "io.microsoft.container.wcow.test-registry-annotation",
    JSON,
    CONTAINER,
    "A list of registry values (HCS's RegistryValue) to set in the container: below `Software`, or below "
    "`CurrentControlSet\\Services`, `CurrentControlSet\\Policies` or `Software` of System. Others are left out with a "
    "warning. For tests; may change.",
)
GMSA_DISABLED = Annotation(
    "io.microsoft.container.wcow.gmsa.disable",
    FLAG,
    CONTAINER,
    "Refuses a container with `windows.credentialSpec`.",
    default="false",
)
HOST_PROCESS = Annotation(
    "microsoft.com/hostprocess-container",
    EXACTLY_TRUE,
    ANY,
    "A host-process container: processes of the host itself, or of the utility VM it is in, with the container's files "
    "at a place among its own. See [Run host process containers](../how-to/host-process-containers.md).",
    default="false",
)
HOST_PROCESS_INHERIT_USER = Annotation(
    "microsoft.com/hostprocess-inherit-user",
    EXACTLY_TRUE,
    CONTAINER,
    "The processes of a host-process container have the shim's own rights; in a VM they run as its SYSTEM. Taken over "
    "from the pod.",
    default="false",
)
HOST_PROCESS_ROOT = Annotation(
    "microsoft.com/hostprocess-rootfs-location",
    TEXT,
    CONTAINER,
    "Where a host-process container's place: absolute, not below `C:\\Windows`; in a VM not `C:\\mounts`, `C:\\EFI` "
    "or `C:\\SandboxMounts`. On Server 2019, which has no bind filter, in a directory of the container's id below it. "
    "Taken over from the pod.",
    default="`C:\\hpc`; in a VM the guest's choice",
)
HOST_PROCESS_DISABLED = Annotation(
    "microsoft.com/disable-hostprocess-container",
    FLAG,
    ANY,
    "Together with `microsoft.com/hostprocess-container` (here: any spelling of true), the create fails.",
    default="false",
)

# Set from runtime options.
VM_BOOT_FILES = Annotation(
    "io.microsoft.virtualmachine.bootfilesrootpath",
    TEXT,
    VM,
    "Where boot files of confidential and Linux VMs are. A Windows VM boots from its image's own files.",
    outcome=NO_EFFECT,
)
VM_PROCESSOR_COUNT = Annotation(
    "io.microsoft.virtualmachine.computetopology.processor.count",
    NUMBER,
    VM,
    "Virtual processors, at most what the host has. Before `windows.resources.cpu.count`; set by the option "
    "VmProcessorCount.",
    default="2, or 1 on a host with one processor",
)
VM_MEMORY_SIZE_IN_MB = Annotation(
    "io.microsoft.virtualmachine.computetopology.memory.sizeinmb",
    NUMBER_64,
    VM,
    "Memory in MiB, rounded up to an even number. Before `windows.resources.memory.limit` (bytes); default of the "
    "option VmMemorySizeInMb.",
    default="1024",
)
NCPROXY_ADDRESS = Annotation(
    "io.microsoft.network.ncproxy",
    TEXT,
    VM,
    "Hands networking to a network configuration proxy, which this shim does not speak to: the create fails. Empty "
    "text means none. Set by the option NCProxyAddr.",
    outcome=REFUSED,
)
NO_TIME_ZONE = Annotation(
    "io.microsoft.virtualmachine.wcow.timezone.noinherit",
    FLAG,
    VM,
    "The guest gets UTC instead of the host's time zone. Set by the option NoInheritHostTimezone.",
    default="false",
)
SHARES_READ_ONLY = Annotation(
    "io.microsoft.virtualmachine.fileshares.disablewritable",
    FLAG,
    VM,
    "Refuses mounts that would share a directory of the host with the VM writable.",
    default="false",
)
NO_DIRECT_MAP = Annotation(
    "io.microsoft.virtualmachine.wcow.virtualSMB.nodirectmap",
    FLAG,
    VM,
    "No share is mapped directly into the VM's memory (mind the capitals of the key).",
    default="false",
)

# One that sets several.
UNSAFE = (GMSA_DISABLED, SHARES_READ_ONLY, NO_DIRECT_MAP, HOST_PROCESS_DISABLED)
DISABLE_UNSAFE = Annotation(
    "io.microsoft.disable-unsafe-operations",
    Kind("text, copied as it is", "the create fails if one of the four is set and differs"),
    ANY,
    "Sets all of these to its value: " + ", ".join(f"`{key}`" for key in UNSAFE) + ".",
)

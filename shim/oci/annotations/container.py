"""Annotations of containers, and of pods whatever their isolation: this module's part of the table (see
`shim.oci.annotations.schema`)."""

from __future__ import annotations

from shim.oci.annotations.schema import (
    ANY,
    CONTAINER,
    EXACTLY_TRUE,
    FLAG,
    JSON,
    LINUX_VM,
    NUMBER,
    NUMBER_64,
    REFUSED,
    TEXT,
    TEXTS,
    VM,
    WINDOWS_VM,
    Annotation,
    Kind,
)
from shim.oci.annotations.values import Annotations as Annotations

# Pod membership, set by CRI.
CONTAINER_TYPE = Annotation(
    "io.kubernetes.cri.container-type",
    Kind("`sandbox` or `container`", "Create fails"),
    ANY,
    "Role of the container in its pod. Without it the container belongs to no pod.",
)
SANDBOX_ID = Annotation(
    "io.kubernetes.cri.sandbox-id",
    Kind("text", "Create fails if it does not match the pod of the shim"),
    ANY,
    "The id of the pod. Required together with `io.kubernetes.cri.container-type`.",
)

# The requested Windows version.
SANDBOX_OS_VERSION = Annotation(
    "io.microsoft.virtualmachine.sandbox-os-version",
    Kind("build, version or release: `20348`, `10.0.20348`, `ltsc2022`", "Create fails"),
    ANY,
    "The Windows version that the container, or the VM of the pod, must have: see "
    "[runtimeclasses.md](../how-to/runtimeclasses.md). "
    "Same as the option SandboxOsVersion.",
)

# Which pods share a daemon.
SHIM_SCOPE = Annotation(
    "io.microsoft.container.shim-scope",
    Kind("`pod`, `namespace` or `node`", "`start` fails"),
    ANY,
    "Which pods share a daemon: see [shim-scope.md](../how-to/shim-scope.md). Read from the sandbox of a pod, or from "
    "a container without one. Overrides the option ShimScope.",
)

# Limits of a container.
_ONE_OF_THREE = "Only one of count, limit and weight may be set, in annotations and spec together."
MEMORY_SIZE_IN_MB = Annotation(
    "io.microsoft.container.memory.sizeinmb",
    NUMBER_64,
    CONTAINER,
    "The container's memory limit in MiB. Overrides `windows.resources.memory.limit` (bytes).",
)
PROCESSOR_COUNT = Annotation(
    "io.microsoft.container.processor.count",
    NUMBER,
    CONTAINER,
    f"The number of processors, at most those of the host or the VM. Overrides `windows.resources.cpu.count`. "
    f"{_ONE_OF_THREE}",
)
PROCESSOR_LIMIT = Annotation(
    "io.microsoft.container.processor.limit",
    NUMBER,
    CONTAINER,
    f"The share of all processors, 1 to 10000 hundredths of a percent. Overrides `windows.resources.cpu.maximum`. "
    f"{_ONE_OF_THREE}",
)
PROCESSOR_WEIGHT = Annotation(
    "io.microsoft.container.processor.weight",
    NUMBER,
    CONTAINER,
    f"The weight among containers, 1 to 10000. Overrides `windows.resources.cpu.shares`. {_ONE_OF_THREE}",
    default="100, by Windows",
)
STORAGE_BANDWIDTH = Annotation(
    "io.microsoft.container.storage.qos.bandwidthmaximum",
    NUMBER,
    CONTAINER,
    "Bytes per second of the system drive. Overrides `windows.resources.storage.bps`.",
)
STORAGE_IOPS = Annotation(
    "io.microsoft.container.storage.qos.iopsmaximum",
    NUMBER,
    CONTAINER,
    "I/O operations per second of the system drive. Overrides `windows.resources.storage.iops`.",
)

# Windows containers.
DUMP_LOCATION = Annotation(
    "io.microsoft.container.processdumplocation",
    TEXT,
    ANY,
    "Directory for dumps of crashed processes, written by Windows Error Reporting in the container. A trailing "
    "`{container_id}` is replaced. On a hypervisor pod it is also the default of its containers.",
)
DUMP_TYPE = Annotation(
    "io.microsoft.wcow.processdumptype",
    Kind("`mini` or `full`", "Create fails, if there is a location"),
    CONTAINER,
    "Type of these dumps.",
    default="full",
)
DUMP_COUNT = Annotation(
    "io.microsoft.wcow.processdumpcount",
    Kind("whole number above 0", "Create fails, if there is a location"),
    CONTAINER,
    "Number of dumps that are kept.",
    default="10",
)
DEVICE_EXTENSIONS = Annotation(
    "io.microsoft.container.wcow.deviceextensions",
    TEXTS,
    CONTAINER,
    "JSON files of device extensions, for the container's device namespace. Create fails if a file is missing "
    "or not JSON, and on a host before build 20348.",
)
EXTRA_REGISTRY = Annotation(
    "io.microsoft.container.wcow.test-registry-annotation",
    JSON,
    CONTAINER,
    "A list of registry values (HCS's RegistryValue) to set in the container: below `Software`, or below "
    "`CurrentControlSet\\Services`, `CurrentControlSet\\Policies` or `Software` of System. Others are ignored with a "
    "warning. For tests; may change.",
)
GMSA_DISABLED = Annotation(
    "io.microsoft.container.wcow.gmsa.disable",
    FLAG,
    CONTAINER,
    "Create fails for a container with `windows.credentialSpec`.",
    default="false",
)
HOST_PROCESS = Annotation(
    "microsoft.com/hostprocess-container",
    EXACTLY_TRUE,
    ANY,
    "A host process container: runs directly on the host, or in the utility VM of its pod, with the container's files "
    "in a directory of it. See [Run host process containers](../how-to/host-process-containers.md).",
    default="false",
)
HOST_PROCESS_INHERIT_USER = Annotation(
    "microsoft.com/hostprocess-inherit-user",
    EXACTLY_TRUE,
    CONTAINER,
    "A host process container runs as the user of the shim; in a VM as SYSTEM. Inherited from the pod.",
    default="false",
)
HOST_PROCESS_ROOT = Annotation(
    "microsoft.com/hostprocess-rootfs-location",
    TEXT,
    CONTAINER,
    "Directory of a host process container's files: absolute, not below `C:\\Windows`; in a VM not `C:\\mounts`, "
    "`C:\\EFI` or `C:\\SandboxMounts`. On Server 2019, which has no bind filter, a directory named by the container's "
    "id below it. Inherited from the pod.",
    default="`C:\\hpc`; in a VM the guest's choice",
)
HOST_PROCESS_DISABLED = Annotation(
    "microsoft.com/disable-hostprocess-container",
    FLAG,
    ANY,
    "Create fails for a spec with `microsoft.com/hostprocess-container` (here with any spelling of true).",
    default="false",
)

# Set from runtime options.
VM_BOOT_FILES = Annotation(
    "io.microsoft.virtualmachine.bootfilesrootpath",
    TEXT,
    LINUX_VM,
    "Directory of a Linux VM's boot files: `vmlinux` or `kernel`, `initrd.img` or `rootfs.vhd`. Set by the option "
    "BootFilesRootPath. A Windows VM boots from the files of its image.",
    default="`LinuxBootFiles` beside the shim, else `%ProgramFiles%\\Linux Containers`",
)
VM_BOOT_FILES_OLD = Annotation(
    "io.microsoft.virtualmachine.lcow.bootfilesrootpath",
    TEXT,
    LINUX_VM,
    f"The name of `{VM_BOOT_FILES}` in hcsshim up to v0.15.0-rc.3. The newer one has precedence.",
)
VM_PROCESSOR_COUNT = Annotation(
    "io.microsoft.virtualmachine.computetopology.processor.count",
    NUMBER,
    VM,
    "Virtual processors, at most those of the host. Overrides `windows.resources.cpu.count`; set by the option "
    "VmProcessorCount.",
    default="2, or 1 on a host with one processor",
)
VM_MEMORY_SIZE_IN_MB = Annotation(
    "io.microsoft.virtualmachine.computetopology.memory.sizeinmb",
    NUMBER_64,
    VM,
    "Memory in MiB, rounded up to an even number. Overrides `windows.resources.memory.limit` (bytes); default of the "
    "option VmMemorySizeInMb.",
    default="1024",
)
NCPROXY_ADDRESS = Annotation(
    "io.microsoft.network.ncproxy",
    TEXT,
    VM,
    "Hands networking to a network configuration proxy, which this shim does not support: Create fails. Empty "
    "text means none. Set by the option NCProxyAddr.",
    outcome=REFUSED,
)
NO_TIME_ZONE = Annotation(
    "io.microsoft.virtualmachine.wcow.timezone.noinherit",
    FLAG,
    WINDOWS_VM,
    "The guest gets UTC instead of the host's time zone. Set by the option NoInheritHostTimezone.",
    default="false",
)
SHARES_READ_ONLY = Annotation(
    "io.microsoft.virtualmachine.fileshares.disablewritable",
    FLAG,
    VM,
    "Create fails for a mount that would share a writable host directory with the VM.",
    default="false",
)
NO_DIRECT_MAP = Annotation(
    "io.microsoft.virtualmachine.wcow.virtualSMB.nodirectmap",
    FLAG,
    WINDOWS_VM,
    "No share is mapped directly into the VM's memory (mind the capitals of the key).",
    default="false",
)

# One that sets several.
UNSAFE = (GMSA_DISABLED, SHARES_READ_ONLY, NO_DIRECT_MAP, HOST_PROCESS_DISABLED)
DISABLE_UNSAFE = Annotation(
    "io.microsoft.disable-unsafe-operations",
    Kind("text, copied unchanged", "Create fails if one of the four is set and differs"),
    ANY,
    "Sets all of these to its value: " + ", ".join(f"`{key}`" for key in UNSAFE) + ".",
)

"""Annotations of Linux containers and of the utility VMs that they run in: this module's part of the table (see
`shim.oci.annotations.schema`)."""

from __future__ import annotations

from shim.oci.annotations.schema import (
    FLAG,
    LINUX_CONTAINER,
    LINUX_VM,
    NUMBER_64,
    REFUSED,
    TEXT,
    TEXTS,
    UINT32,
    UINT64,
    Annotation,
    Kind,
)

_VM = "io.microsoft.virtualmachine."
_LCOW = f"{_VM}lcow."
_COUNT = Kind("whole number up to 4294967295; 0 is a value", maximum=UINT32)
_SIZE = Kind("whole number up to 18446744073709551615; 0 is a value", maximum=UINT64)

# Boot.
KERNEL_DIRECT = Annotation(
    f"{_LCOW}kerneldirectboot",
    FLAG,
    LINUX_VM,
    "Boots the kernel directly (`vmlinux`, or `kernel`), which needs build 18286; `false` boots `kernel` by UEFI.",
    default="true from build 18286 on",
)
ROOTFS_TYPE = Annotation(
    f"{_LCOW}preferredrootfstype",
    Kind("`initrd` or `vhd`"),
    LINUX_VM,
    "The VM's own root file system: `initrd.img` or `rootfs.vhd` of the boot files.",
    default="vhd if the boot files have a `rootfs.vhd`, else initrd",
)
KERNEL_OPTIONS = Annotation(f"{_LCOW}kernelbootoptions", TEXT, LINUX_VM, "Further arguments of the kernel.")
VPCI_ENABLED = Annotation(
    f"{_LCOW}vpcienabled",
    FLAG,
    LINUX_VM,
    "The kernel supports PCI, which assigned devices need.",
    default="false",
)
NO_TIME_SYNC = Annotation(
    f"{_LCOW}timesync.disable", FLAG, LINUX_VM, "The guest does not follow the host's clock.", default="false"
)
WRITABLE_OVERLAYS = Annotation(
    f"{_LCOW}writable-overlay-directories",
    FLAG,
    LINUX_VM,
    "With a `rootfs.vhd`: `/etc` and `/var` of the VM are writable. Its changes are lost with the VM.",
    default="false",
)
GUEST_ARGUMENTS = Annotation(
    f"{_LCOW}extra-exec-command-args", TEXT, LINUX_VM, "Further arguments of the guest agent. May change."
)
POLICY_ROUTING = Annotation(
    f"{_LCOW}network.policybasedrouting",
    FLAG,
    LINUX_VM,
    "The second and every further network adapter gets a routing table of its own.",
    default="false",
)

# Memory devices.
VPMEM_COUNT = Annotation(
    f"{_VM}devices.virtualpmem.maximumcount",
    _COUNT,
    LINUX_VM,
    "Number of virtual persistent memory devices for layers, at most 128, else Create fails. With 0 all layers are "
    "SCSI disks and the VM has four SCSI controllers.",
    default="64",
)
VPMEM_SIZE = Annotation(
    f"{_VM}devices.virtualpmem.maximumsizebytes",
    _SIZE,
    LINUX_VM,
    "Size of each of these devices; a multiple of 4096, else Create fails. Layers that do not fit are SCSI disks.",
    default="4294967296",
)
VPMEM_NO_MULTI_MAPPING = Annotation(
    f"{_LCOW}vpmem.nomultimapping",
    FLAG,
    LINUX_VM,
    "Each layer gets a device of its own.",
    default="false from build 18362 on",
)
COLD_DISCARD_HINT = Annotation(
    f"{_VM}computetopology.memory.enablecolddiscardhint",
    FLAG,
    LINUX_VM,
    "The guest reports memory that it does not use. Create fails before build 18967.",
    default="false",
)

# Containers.
PRIVILEGED = Annotation(
    f"{_LCOW}privileged",
    FLAG,
    LINUX_CONTAINER,
    "The container gets every device of the VM and runs without seccomp.",
    default="false",
)
HOST_NETWORK = Annotation(
    f"{_LCOW}hostnetwork",
    FLAG,
    LINUX_VM,
    "The pod's containers stay in the VM's own network namespace. Read by the guest.",
    default="false",
)
SHM_SIZE = Annotation(
    "io.microsoft.lcow.shm.size-kb",
    NUMBER_64,
    LINUX_CONTAINER,
    "Size of `/dev/shm` in KiB, for containers of a pod. Read by the guest.",
)
RLIMIT_CORE = Annotation(
    "io.microsoft.lcow.rlimitcore",
    Kind("`soft;hard`"),
    LINUX_CONTAINER,
    "RLIMIT_CORE of the container. Read by the guest.",
)
TEE_LOG_PATH = Annotation(
    "io.microsoft.container.lcow.tee-log-path",
    TEXT,
    LINUX_CONTAINER,
    "The init's output is also written to this file of the pod's log directory. Read by the guest.",
)
TEE_LOG_MOUNT = Annotation(
    "io.microsoft.container.lcow.tee-log-dir-mount",
    TEXT,
    LINUX_CONTAINER,
    "Mounts the pod's log directory at this path. Read by the guest.",
)
GPU_CAPABILITIES = Annotation(
    "io.microsoft.container.gpu.capabilities",
    TEXTS,
    LINUX_CONTAINER,
    "Capabilities of an assigned GPU, for `nvidia-container-cli`. Read by the guest.",
)
SKIP_POD_NETWORKING = Annotation(
    "io.microsoft.cri.skip-pod-networking",
    Kind("`true`, in any case", "anything else is false"),
    LINUX_CONTAINER,
    "The guest does not look for network adapters of a sandbox.",
    default="false",
)
VIRTUAL_POD_ID = Annotation(
    "io.microsoft.cri.virtual-pod-id",
    TEXT,
    LINUX_CONTAINER,
    "The pod of the container, where one VM has several. Read by the guest.",
)

# Confidential VMs: a VM that looks confidential and is not must not be created.
_CONFIDENTIAL = "Requests a confidential VM, which this shim does not support: Create fails."
GUEST_STATE_FILE = Annotation(f"{_LCOW}gueststatefile", TEXT, LINUX_VM, _CONFIDENTIAL, outcome=REFUSED)
VERITY_MODE = Annotation(f"{_LCOW}dmverity-mode", FLAG, LINUX_VM, _CONFIDENTIAL, default="false", outcome=REFUSED)
VERITY_ROOTFS = Annotation(f"{_LCOW}dmverity-rootfs-vhd", TEXT, LINUX_VM, _CONFIDENTIAL, outcome=REFUSED)
VERITY_ARGUMENTS = Annotation(f"{_LCOW}dmverity-create-args", TEXT, LINUX_VM, _CONFIDENTIAL, outcome=REFUSED)
HCL_ENABLED = Annotation(f"{_LCOW}hcl-enabled", FLAG, LINUX_VM, _CONFIDENTIAL, default="false", outcome=REFUSED)
SCRATCH_ENCRYPTED = Annotation(
    f"{_VM}storage.scratch.encrypted",
    FLAG,
    LINUX_VM,
    "Encrypts scratch disks, which this shim does not support: Create fails.",
    default="false",
    outcome=REFUSED,
)

"""The runtime options, one row each: allowed values and effect, or why it has none.

`docs/reference/options.md` is generated from these rows. Fields have the names of the protobuf message; keys are Go's
names, as in containerd's configuration.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

INT32 = 0x7FFFFFFF


class Option:
    """`values` are the allowed ones, if any are listed; numbers are from 0 to `maximum`. `unused` marks an
    option without effect in this shim, `needs_vm` one without effect if there is no utility VM."""

    __slots__ = ("effect", "field", "key", "kind", "maximum", "needs_vm", "number", "unused", "values")

    def __init__(
        self,
        number: int,
        field: str,
        key: str,
        kind: type,
        effect: str,
        *,
        values: dict[Any, str] | None = None,
        maximum: int = INT32,
        needs_vm: bool = False,
        unused: bool = False,
    ) -> None:
        self.number = number
        self.field = field
        self.key = key
        self.kind = kind
        self.effect = effect
        self.values = values or {}
        self.maximum = maximum
        self.needs_vm = needs_vm
        self.unused = unused

    @property
    def allowed(self) -> str:
        if self.field == "sandbox_platform":
            return "windows/… or linux/…, as in windows/amd64"
        if self.values:
            return ", ".join(f"{value} ({name})" if name else str(value) for value, name in self.values.items())
        if self.kind is int:
            return f"a whole number from 0 to {self.maximum}"
        return {bool: "true or false", str: "text", dict: "a table of texts"}[self.kind]

    def allows(self, value: Any) -> bool:
        """Checks the exact type: true is no number. An empty text is always allowed and counts as not set."""
        if type(value) is not self.kind:
            return False
        if self.field == "sandbox_platform":
            return not value or str(value).partition("/")[0].lower() in ("windows", "linux")
        if self.values:
            return not value or (value.lower() if isinstance(value, str) else value) in self.values
        return not isinstance(value, int) or 0 <= value <= self.maximum


OPTIONS = (
    Option(1, "debug", "Debug", bool, "The shim logs at level debug."),
    Option(
        2,
        "debug_type",
        "DebugType",
        int,
        "Target of the text log: 0 is containerd's log, 2 is none: only ETW events are written; 1, a file, is refused.",
        values={0: "NPIPE", 2: "ETW"},
    ),
    Option(
        3, "registry_root", "RegistryRoot", str, "This shim keeps its state in the bundle, not in a registry.",
        unused=True,
    ),
    Option(
        4, "sandbox_image", "SandboxImage", str, "containerd's CRI plugin chooses the image of a sandbox.",
        unused=True,
    ),
    Option(
        5,
        "sandbox_platform",
        "SandboxPlatform",
        str,
        "The operating system that containers must have, before the slash: `windows/amd64` or `linux/amd64`. "
        "Create fails for others.",
    ),
    Option(
        6,
        "sandbox_isolation",
        "SandboxIsolation",
        int,
        "With 1 each pod, or container without a pod, gets a utility VM. With 0, and other options set, a spec that "
        "requests a VM is refused.",
        values={0: "process", 1: "hypervisor"},
    ),
    Option(
        7, "boot_files_root_path", "BootFilesRootPath", str,
        "The directory of the boot files of Linux VMs, unless annotation "
        "`io.microsoft.virtualmachine.bootfilesrootpath` says otherwise. For Windows: the directory whose `UtilityVM` "
        'a sandbox boots from that has no image (CRI gives none with `sandboxer = "shim"`); other Windows VMs boot '
        "from their image's own files.", needs_vm=True,
    ),
    Option(
        8, "vm_processor_count", "VmProcessorCount", int,
        "Virtual processors of VMs, unless annotation "
        "`io.microsoft.virtualmachine.computetopology.processor.count` says otherwise.", needs_vm=True,
    ),
    Option(
        9, "vm_memory_size_in_mb", "VmMemorySizeInMb", int,
        "Memory of VMs in MiB, unless annotation `io.microsoft.virtualmachine.computetopology.memory.sizeinmb` says "
        "otherwise.", needs_vm=True,
    ),
    Option(
        10, "GPUVHDPath", "GPUVHDPath", str, "No shim reads it any more.",
        unused=True,
    ),
    Option(
        11, "scale_cpu_limits_to_sandbox", "ScaleCpuLimitsToSandbox", bool,
        "CPU limits of containers count as shares of the host's processors and are scaled to the VM's.", needs_vm=True,
    ),
    Option(
        12, "default_container_scratch_size_in_gb", "DefaultContainerScratchSizeInGb", int,
        "The size of scratch disks that the shim creates itself (`windows.layerFolders` with no disk in the last of "
        "them). Those from a snapshotter have the size of the snapshot's label.", maximum=65536,
    ),
    Option(
        13, "default_vm_scratch_size_in_gb", "DefaultVmScratchSizeInGb", int,
        "A VM's scratch disk is a copy of its image's own, of the image's size.", unused=True, maximum=65536,
    ),
    Option(
        14, "share_scratch", "ShareScratch", bool,
        "Each container has a scratch disk of its own, created by the snapshotter.", unused=True,
    ),
    Option(
        15, "NCProxyAddr", "NCProxyAddr", str,
        "Networking of VMs by a network configuration proxy, which this shim does not support: VMs are refused.",
        needs_vm=True,
    ),
    Option(
        16,
        "log_level",
        "LogLevel",
        str,
        "The level of the shim's log; overrides Debug.",
        values=dict.fromkeys(("panic", "fatal", "error", "warning", "warn", "info", "debug", "trace"), ""),
    ),
    Option(
        17, "io_retry_timeout_in_sec", "IoRetryTimeoutInSec", int,
        "How long output waits for a disconnected client to return, in seconds; 0 means no limit.",
    ),
    Option(
        18, "default_container_annotations", "DefaultContainerAnnotations", dict,
        "Annotations for every container that does not have them itself.",
    ),
    Option(
        19, "no_inherit_host_timezone", "NoInheritHostTimezone", bool,
        "VMs run in UTC, unless annotation `io.microsoft.virtualmachine.wcow.timezone.noinherit` says otherwise.",
        needs_vm=True,
    ),
    Option(
        20, "scrub_logs", "ScrubLogs", bool,
        "Environment, arguments and annotations are not logged. This is also the default.",
    ),
    # Our own options: not in the protobuf message, so they come as TOML only.
    Option(
        0, "sandbox_os_version", "SandboxOsVersion", str,
        "The Windows version that containers, or VMs, must have; see "
        "[runtimeclasses.md](../how-to/runtimeclasses.md). "
        "Becomes annotation `io.microsoft.virtualmachine.sandbox-os-version`.",
    ),
    Option(
        0, "shim_scope", "ShimScope", str,
        "Which pods share a daemon: each has its own, or all of a namespace or of the node share one; see "
        "[shim-scope.md](../how-to/shim-scope.md). Annotation `io.microsoft.container.shim-scope` overrides it, also "
        "one in DefaultContainerAnnotations.",
        values=dict.fromkeys(("pod", "namespace", "node"), ""),
    ),
)  # fmt: skip

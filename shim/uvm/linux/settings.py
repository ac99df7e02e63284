"""Settings that only VMs with a Linux guest have."""

from __future__ import annotations

from shim.container.network import new_guid
from shim.oci.annotations import linux as names
from shim.oci.annotations import vm as vm_names
from shim.oci.errors import InvalidSpec
from shim.platform import host
from shim.uvm import vpci
from shim.uvm.linux.boot_files import BootFiles
from shim.uvm.settings import DEFAULT_PROCESSORS, VmSettings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from shim.oci.annotations.container import Annotations
    from shim.oci.spec import Spec
    from shim.uvm.settings import Warn
    from shim.uvm.vpci import Device

KERNEL_DIRECT_BUILD = 18286
MULTI_MAPPING_BUILD = 18362
COLD_DISCARD_BUILD = 18967
NUMA_AFFINITY_BUILD = 26100
VPMEM_COUNT = 64
MAX_VPMEM_COUNT = 128
VPMEM_SIZE = 4 << 30
PAGE = 4096
# Without memory devices all layers are disks.
SCSI_CONTROLLERS_WITHOUT_VPMEM = 4


class LinuxVmSettings(VmSettings):
    """`boot` are its boot files, `kernel_processors` the number on the kernel command line, which may be too many."""

    __slots__ = (
        "boot", "cold_discard_hint", "devices", "devices_physically_backed", "guest_arguments", "kernel_options",
        "kernel_processors", "log_level", "netns", "policy_routing", "propagate_numa_affinity", "scrub_logs",
        "scsi_controllers", "time_sync", "vpci_enabled", "vpmem_count", "vpmem_multi_mapping", "vpmem_size",
        "writable_overlays",
    )  # fmt: skip

    document_error = ""

    def __init__(self, spec: Spec, boot: BootFiles, processors: int, build: int, warn: Warn) -> None:
        super().__init__(spec, processors, build, warn)
        annotations = spec.annotations
        self.boot = boot
        self.dump_directory = ""  # only Windows guests write dumps there
        requested = annotations.number(vm_names.VM_PROCESSOR_COUNT)
        requested = requested or spec.windows.section("resources").section("cpu").number("count")
        self.kernel_processors = requested or min(DEFAULT_PROCESSORS, host.processors())
        self.cold_discard_hint = annotations.flag(names.COLD_DISCARD_HINT)
        self.vpmem_count = vpmem_count(annotations)
        self.vpmem_size = annotations.count(names.VPMEM_SIZE, VPMEM_SIZE)
        self.vpmem_multi_mapping = not annotations.flag(names.VPMEM_NO_MULTI_MAPPING, build < MULTI_MAPPING_BUILD)
        #: Whether layers must be disks.
        self.devices_physically_backed = annotations.flag(vm_names.PHYSICALLY_BACKED)
        self.scsi_controllers = 1 if self.vpmem_count else SCSI_CONTROLLERS_WITHOUT_VPMEM
        self.kernel_options = annotations.text(names.KERNEL_OPTIONS)
        self.vpci_enabled = annotations.flag(names.VPCI_ENABLED)
        self.time_sync = not annotations.flag(names.NO_TIME_SYNC)
        self.writable_overlays = annotations.flag(names.WRITABLE_OVERLAYS)
        self.guest_arguments = annotations.text(names.GUEST_ARGUMENTS)
        self.policy_routing = annotations.flag(names.POLICY_ROUTING)
        self.propagate_numa_affinity = build >= NUMA_AFFINITY_BUILD and self.numa is not None
        #: PCI devices that the VM has from the start, by the GUID of their VMBus channel.
        self.devices = _take_devices(spec, warn)
        #: The network namespace of a Linux host that is the VM's network, "" for none.
        self.netns = ""
        #: The log of the guest agent.
        self.log_level = "info"
        self.scrub_logs = True


def check(annotations: Annotations, boot: BootFiles, build: int) -> None:
    """Refuse options that contradict each other or the host, before anything is asked of HCS."""
    count = vpmem_count(annotations)
    if count > MAX_VPMEM_COUNT:
        raise _incorrect(f"VPMem device count cannot be greater than {MAX_VPMEM_COUNT}", names.VPMEM_COUNT)
    if count and annotations.count(names.VPMEM_SIZE, VPMEM_SIZE) % PAGE:
        raise _incorrect(f"VPMemSizeBytes must be a multiple of {PAGE}", names.VPMEM_SIZE)
    if boot.kernel_direct and build < KERNEL_DIRECT_BUILD:
        raise _incorrect(
            f"KernelDirectBoot is not supported on builds older than {KERNEL_DIRECT_BUILD}", names.KERNEL_DIRECT
        )
    if annotations.flag(names.COLD_DISCARD_HINT) and build < COLD_DISCARD_BUILD:
        raise _incorrect(
            f"EnableColdDiscardHint is not supported on builds older than {COLD_DISCARD_BUILD}", names.COLD_DISCARD_HINT
        )
    if count and host.architecture() == "arm64":
        raise _incorrect("VPMem devices are not supported on ARM64", names.VPMEM_COUNT)


def vpmem_count(annotations: Annotations) -> int:
    """Memory devices are never physically backed."""
    if annotations.flag(vm_names.PHYSICALLY_BACKED):
        return 0
    return annotations.count(names.VPMEM_COUNT, VPMEM_COUNT if host.architecture() != "arm64" else 0)


def _incorrect(words: str, annotation: str) -> InvalidSpec:
    return InvalidSpec(f"UVM options incorrect: {words}: change {annotation}")


def _take_devices(spec: Spec, warn: Warn) -> dict[str, Device]:
    """Devices of the spec that creates the VM are the VM's, and not once more its container's."""
    found: dict[str, Device] = {}
    for section in spec.windows.sections("devices"):
        kind, name = section.text("idType"), section.text("id")
        if kind not in vpci.KINDS:
            warn(f"device type {kind} invalid, skipping: a utility VM takes {', '.join(vpci.KINDS)}")
            continue
        device = vpci.parse(name)
        if device in found.values():
            raise InvalidSpec(f"device {device[0]} with index {device[1]} is specified multiple times: name it once")
        found[new_guid()] = device
    if spec.has_windows:
        spec.document.values["windows"].pop("devices", None)
    return found

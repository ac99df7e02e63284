"""Settings of a utility VM, from a spec and its annotations: checked, with defaults, in units of HCS.

An annotation has precedence over the OCI field, which has precedence over the default. A value that cannot be parsed is
logged as a warning and ignored; contradictions, and what this host cannot do, are refused.
"""

from __future__ import annotations

from shim.hcs_bindings import service
from shim.hcs_bindings.errors import ErrorContext
from shim.oci.annotations import container as container_names
from shim.oci.annotations import vm as names
from shim.oci.annotations.values import is_guid
from shim.oci.errors import InvalidSpec
from shim.platform import host
from shim.uvm import numa

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from shim.oci.annotations.container import Annotations
    from shim.oci.spec import Spec

    Document = dict[str, Any]
    Warn = Callable[[str], object]

MIB = 1 << 20
DEFAULT_MEMORY_MB = 1024
DEFAULT_PROCESSORS = 2
# The builds of Windows from which HCS takes a CPU group with a VM's document.
CPU_GROUP_BUILD = 19043
# Of a Hyper-V socket service.
_SERVICE_SETTINGS = {
    "BindSecurityDescriptor": str,
    "ConnectSecurityDescriptor": str,
    "AllowWildcardBinds": bool,
    "Disabled": bool,
}


class VmSettings:
    """Settings of a VM with any kind of guest. Plain values; `shim.uvm.document` puts them into the document."""

    __slots__ = (
        "allow_overcommit", "console_pipe", "cpu_group", "deferred_commit", "dump_directory", "high_mmio_base_mb",
        "high_mmio_gap_mb", "host_processors", "hvsocket_services", "low_mmio_gap_mb", "memory_mb", "numa",
        "process_dumps", "processor_limit", "processor_weight", "processors", "resource_partition", "shares_read_only",
        "storage",
    )  # fmt: skip

    #: What Microsoft's shim puts before an error that shows while the document is built.
    document_error = "error in preparing config doc: "

    def __init__(self, spec: Spec, processors: int, build: int, warn: Warn) -> None:
        """`processors` is how many the host has for VMs, `build` the host's."""
        annotations = spec.annotations
        resources = spec.windows.section("resources")
        self._read_memory(annotations, resources.section("memory").number("limit"), warn)
        cpu = resources.section("cpu")
        self.host_processors = processors
        self.processors = _processors(
            annotations.number(names.VM_PROCESSOR_COUNT) or cpu.number("count"), processors, warn
        )
        self.processor_limit = annotations.number(names.PROCESSOR_LIMIT) or cpu.number("maximum")
        self.processor_weight = annotations.number(names.PROCESSOR_WEIGHT) or cpu.number("shares")
        self.cpu_group = annotations.guid(names.CPU_GROUP)
        self.resource_partition = annotations.guid(names.RESOURCE_PARTITION)
        if self.cpu_group and self.resource_partition:
            raise InvalidSpec(
                "UVM options incorrect: resource partition ID and CPU group ID cannot be set at the same time: keep "
                f"one of {names.CPU_GROUP} and {names.RESOURCE_PARTITION}"
            )
        if self.cpu_group and build < CPU_GROUP_BUILD:
            raise InvalidSpec(
                f"{self.document_error}cpu group assignment on create requires a build of {CPU_GROUP_BUILD} "
                f"or higher: this host is {build}; remove {names.CPU_GROUP}"
            )
        self.numa = numa.read(
            annotations, self.processors, self.memory_mb, self.allow_overcommit, build, self.document_error
        )
        storage = resources.section("storage")
        self.storage = {
            "IopsMaximum": annotations.number(names.STORAGE_IOPS) or storage.number("iops"),
            "BandwidthMaximum": annotations.number(names.STORAGE_BANDWIDTH) or storage.number("bps"),
        }
        self.console_pipe = annotations.text(names.CONSOLE_PIPE)
        self.dump_directory = annotations.text(names.DUMP_DIRECTORY)
        self.process_dumps = annotations.text(container_names.DUMP_LOCATION)
        self.shares_read_only = annotations.flag(names.SHARES_READ_ONLY)
        self.hvsocket_services = _hvsocket_services(annotations, warn)

    def _read_memory(self, annotations: Annotations, limit: int, warn: Warn) -> None:
        """`limit` is in bytes."""
        size = annotations.number(names.VM_MEMORY_SIZE_IN_MB) or limit // MIB
        if not size and limit:
            raise InvalidSpec(
                f"windows.resources.memory.limit is {limit}: it is the memory of the VM, which cannot be less than "
                f"{MIB} (1 MiB); raise it, or set {names.VM_MEMORY_SIZE_IN_MB}"
            )
        size = size or DEFAULT_MEMORY_MB
        self.memory_mb = even(size)
        if self.memory_mb != size:
            warn(f"a VM's memory comes in steps of 2 MB: it gets {self.memory_mb} MB instead of {size}")
        backed = annotations.flag(names.PHYSICALLY_BACKED)
        self.allow_overcommit = annotations.flag(names.ALLOW_OVERCOMMIT) and not backed
        self.deferred_commit = annotations.flag(names.DEFERRED_COMMIT)
        if self.deferred_commit and not self.allow_overcommit:
            raise InvalidSpec(
                "UVM options incorrect: EnableDeferredCommit is not supported on physically backed VMs: remove "
                f"{names.DEFERRED_COMMIT}, or {names.ALLOW_OVERCOMMIT}=false and {names.PHYSICALLY_BACKED}"
            )
        self.low_mmio_gap_mb = annotations.number(names.LOW_MMIO_GAP)
        self.high_mmio_base_mb = annotations.number(names.HIGH_MMIO_BASE)
        self.high_mmio_gap_mb = annotations.number(names.HIGH_MMIO_GAP)

    @property
    def physically_backed(self) -> bool:
        """All of its memory is committed from the start: it uses what is assigned."""
        return not self.allow_overcommit


def even(megabytes: int) -> int:
    return megabytes + megabytes % 2


def host_processors(settings: type[VmSettings]) -> int:
    """How many processors HCS has for VMs; the system that the shim runs in may see fewer."""
    with ErrorContext(
        f"{settings.document_error}failed to get host processor information: failed to retrieve processor and "
        "processor topology information"
    ):
        answer = service.properties("ProcessorTopology")[0]
    count = answer.get("LogicalProcessorCount") if isinstance(answer, dict) else None
    return count if isinstance(count, int) and count > 0 else host.processors()


def _processors(requested: int, available: int, warn: Warn) -> int:
    if not requested:
        return min(DEFAULT_PROCESSORS, available)
    if requested > available:
        warn(f"{requested} virtual processors are requested and the host has {available}: the VM gets those")
    return min(requested, available)


def _hvsocket_services(annotations: Annotations, warn: Warn) -> dict[str, Document]:
    """Further entries of the VM's service table, by the service's GUID."""
    services: dict[str, Document] = {}
    for key in annotations:
        if not key.startswith(names.HVSOCKET_SERVICE):
            continue
        service = key[len(names.HVSOCKET_SERVICE) :].lower()
        settings = _service_settings(annotations.json(key))
        if not is_guid(service) or settings is None:
            warn(
                f"annotation {key} is ignored: it must name a GUID and hold a JSON object of "
                f"{', '.join(_SERVICE_SETTINGS)}"
            )
        else:
            services[service] = settings
    return services


def _service_settings(given: object) -> Document | None:
    """The members that HCS knows and that are set; None if one has the wrong type."""
    if not isinstance(given, dict):
        return None
    by_name = {str(name).lower(): value for name, value in given.items() if value is not None}
    settings = {name: by_name[name.lower()] for name in _SERVICE_SETTINGS if name.lower() in by_name}
    if any(type(value) is not _SERVICE_SETTINGS[name] for name, value in settings.items()):
        return None
    return {name: value for name, value in settings.items() if value}

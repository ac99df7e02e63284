"""Settings that only VMs with a Windows guest have."""

from __future__ import annotations

from shim.container import registry_changes
from shim.oci.annotations import vm as names
from shim.uvm.settings import VmSettings
from shim.uvm.windows import log_sources

TYPE_CHECKING = False
if TYPE_CHECKING:
    from shim.oci.spec import Spec
    from shim.uvm.settings import Warn


class WindowsVmSettings(VmSettings):
    __slots__ = ("compartments", "forward_logs", "log_sources", "no_direct_map", "registry", "utc")

    def __init__(self, spec: Spec, processors: int, build: int, warn: Warn) -> None:
        super().__init__(spec, processors, build, warn)
        annotations = spec.annotations
        #: VSMB shares are not mapped into the VM's memory.
        self.no_direct_map = annotations.flag(names.PHYSICALLY_BACKED) or annotations.flag(names.NO_DIRECT_MAP)
        self.compartments = not annotations.flag(names.NO_COMPARTMENTS)
        self.utc = annotations.flag(names.NO_TIME_ZONE)
        self.registry = registry_changes.from_annotation(spec, names.REGISTRY, warn)
        self.forward_logs = annotations.flag(names.FORWARD_LOGS)
        self.log_sources = log_sources.read(annotations, warn) if self.forward_logs else ""

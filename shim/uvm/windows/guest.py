"""The Windows kind of guest: what `shim.uvm.guest` leaves open, for utility VMs that boot from a Windows image."""

from __future__ import annotations

from shim.container import compatibility
from shim.container.process_document import quote
from shim.hcs_bindings import errors, network, storage
from shim.hcs_bindings.errors import HcsError
from shim.hcs_bindings.windows_version import windows_build
from shim.oci.annotations import container as names
from shim.oci.errors import InvalidSpec
from shim.platform import hvsocket, time_zone
from shim.uvm.gcs.connection import THE_VM
from shim.uvm.gcs.log_forwarding import GuestLog
from shim.uvm.guest import Guest
from shim.uvm.network import without_empty
from shim.uvm.settings import host_processors
from shim.uvm.windows import boot_files, commands, document
from shim.uvm.windows.container_plan import WindowsContainerPlan, windows_layers
from shim.uvm.windows.document import LOG_SERVICE_ID
from shim.uvm.windows.settings import WindowsVmSettings
from shim.uvm.windows.vsmb import VsmbShares

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from shim.api.types import Mount
    from shim.logs import Log
    from shim.oci.spec import Spec
    from shim.uvm.guest import ContainerPlan, Lease, Slot
    from shim.uvm.scsi import DiskMount
    from shim.uvm.vm import Vm
    from shim.uvm.windows.boot_files import BootFiles

    Document = dict[str, Any]

# The host's address, as Hyper-V sockets of a guest see it.
PARENT_ADDRESS = "894cc2d6-9d79-424f-93fe-42969ae6d8d1"
DISK_PATH = "c:\\mounts\\scsi\\m"
LOG_FORWARDING = "LogForwardingSupported"
LOG_SERVICE = "LogForwardService"
NAMESPACES = "NamespaceAddRequestSupported"
# Annotations of a pod's sandbox that its host-process containers inherit: whose rights they get, and their root path.
INHERITED = (names.HOST_PROCESS_INHERIT_USER, names.HOST_PROCESS_ROOT)
# Members of an HCN endpoint that guests know; they refuse a document with any other.
_ENDPOINT = (
    "ID", "Name", "HostComputeNetwork", "HostComputeNamespace", "Policies", "IpConfigurations", "Dns", "Routes",
    "MacAddress", "Flags", "Health", "SchemaVersion",
)  # fmt: skip


class WindowsGuest(Guest):
    os_type = "windows"
    gcs_service_id = "acef5661-84a1-4e44-856b-6245e69f4620"
    settings: WindowsVmSettings
    shares: VsmbShares

    def __init__(self, settings: WindowsVmSettings, boot: BootFiles, build: int, spec: Spec, log: Log) -> None:
        """`build` is that of its Windows, 0 when it is not known."""
        super().__init__(settings, log)
        self._boot = boot
        self._build = build
        self._inherited = {key: spec.annotations.text(key) for key in INHERITED if key in spec.annotations}
        self._guest_log: GuestLog | None = None

    @classmethod
    def from_spec(cls, spec: Spec, rootfs: Sequence[Mount], bundle: str, log: Log) -> WindowsGuest:
        layers = windows_layers(spec, rootfs, bundle)
        build = compatibility.check_vm(spec, layers)
        boot = boot_files.find(layers.parents, layers.scratch)
        settings = WindowsVmSettings(spec, host_processors(WindowsVmSettings), windows_build(), log.warning)
        return cls(settings, boot, build, spec, log)

    @classmethod
    def plan_container(cls, spec: Spec, rootfs: Sequence[Mount], bundle: str, pod_id: str) -> WindowsContainerPlan:
        return WindowsContainerPlan(spec, rootfs, bundle, pod_id)

    # Boot.

    def prepare(self, vm_id: str) -> None:
        self._boot.prepare()
        with errors.ErrorContext("error in preparing config doc: failed to grant vm access to scratch"):
            storage.grant_vm_access(vm_id, self._boot.scratch)

    def document(self, vm_id: str) -> Document:
        return document.build(vm_id, self.settings, self._boot)

    def attach(self, vm: Vm) -> None:
        super().attach(vm)
        settings = self.settings
        self.shares = VsmbShares(vm.modify, no_direct_map=settings.no_direct_map, read_only=settings.shares_read_only)

    def listen(self) -> None:
        if self.settings.forward_logs:
            listener = hvsocket.listen(self.vm.runtime_id, LOG_SERVICE_ID)
            self._guest_log = GuestLog(listener, self._log, self.vm.id)

    def initialize(self, timeout: float) -> None:
        """The host's time zone, the addresses of Hyper-V sockets, log forwarding."""
        gcs = self.vm.gcs
        if gcs.expects("SendHostCreateMessage"):
            zone = time_zone.utc() if self.settings.utc else time_zone.host()
            gcs.create_container(THE_VM, {"SystemType": "Container", "TimeZoneInformation": zone}, timeout)
            if gcs.expects("SendHostStartMessage"):
                gcs.start_container(THE_VM, timeout)
        gcs.modify_vm("HvSocket", "Update", {"LocalAddress": self.vm.runtime_id, "ParentAddress": PARENT_ADDRESS})
        if self.settings.forward_logs and gcs.supports(LOG_FORWARDING):
            try:
                self._forward_logs()
            except HcsError as error:
                if gcs.is_closed:
                    raise
                self._log.warning("failed to start log forwarding", error=error, **{"uvm-id": self.vm.id})

    def _forward_logs(self) -> None:
        sources = {"RPCType": "ModifyServiceSettings", "Settings": self.settings.log_sources}
        self.vm.gcs.modify_service(LOG_SERVICE, sources)
        self.vm.gcs.modify_service(LOG_SERVICE, {"RPCType": "StartLogForwarding"})

    def close(self) -> None:
        if self._guest_log is not None:
            self._guest_log.close()

    # Containers and processes.

    def admit(self, spec: Spec) -> None:
        if spec.has_linux:
            raise InvalidSpec("the pod's VM runs Windows, and the container is for Linux: use an image for Windows")
        if spec.is_host_process:
            for key, value in self._inherited.items():
                spec.annotations.set(key, value)

    def check_container(self, plan: ContainerPlan) -> None:
        assert isinstance(plan, WindowsContainerPlan)
        compatibility.check_workload(plan.layers, self._build)

    def stdio_settings(self, services: Mapping[str, str]) -> Document:
        return {"StdioRelaySettings": dict(services)}

    def command_parameters(self, arguments: Sequence[str], directory: str) -> Document:
        return commands.parameters(" ".join(quote(argument) for argument in arguments), directory)

    # Storage.

    def disk_path(self, number: int) -> str:
        return f"{DISK_PATH}{number}"

    def mount_disk(self, slot: Slot, path: str, read_only: bool, mount: DiskMount) -> None:
        self.vm.gcs.modify_vm("MappedVirtualDisk", "Add", _mapped_disk(slot, path))

    def unmount_disk(self, slot: Slot, path: str, read_only: bool, mount: DiskMount) -> None:
        self.vm.gcs.modify_vm("MappedVirtualDisk", "Remove", _mapped_disk(slot, path))

    def unplug_disk(self, slot: Slot) -> None:
        """A Windows guest notices it by itself."""

    def map_directory(self, share: Lease, path: str, read_only: bool) -> None:
        settings: Document = {"HostPath": share.guest_path, "ContainerPath": path}
        if read_only:
            settings["ReadOnly"] = True
        self.vm.gcs.modify_vm("MappedDirectory", "Add", settings)

    # Network.

    def add_namespace(self, namespace: Document) -> None:
        if self.vm.gcs.supports(NAMESPACES):
            self.vm.gcs.modify_vm("NetworkNamespace", "Add", namespace)

    def remove_namespace(self, id: str) -> None:
        if self.vm.gcs.supports(NAMESPACES):
            self.vm.gcs.modify_vm("NetworkNamespace", "Remove", without_empty(network.namespace(id)))

    def announce_adapter(self, adapter: str, endpoint: Document) -> None:
        announced = {"AdapterId": adapter, "RequestType": "PreAdd", "Settings": guest_endpoint(endpoint)}
        self.vm.gcs.modify_vm("Network", "Add", announced)

    def add_adapter(self, adapter: str, namespace: str, endpoint: Document) -> None:
        self.vm.gcs.modify_vm("Network", "Add", {"AdapterId": adapter, "RequestType": "Add"})

    def remove_adapter(self, adapter: str, namespace: str) -> None:
        self.vm.gcs.modify_vm("Network", "Remove", {"AdapterId": adapter, "RequestType": "Remove"})


def _mapped_disk(slot: Slot, path: str) -> Document:
    settings: Document = {"ContainerPath": path}
    if slot[1]:
        settings["Lun"] = slot[1]
    return settings


def guest_endpoint(endpoint: Document) -> Document:
    """An HCN endpoint in the form that Microsoft's shim gives it: empty members are left out, but for two."""
    by_name = {name.lower(): value for name, value in endpoint.items()}
    by_name["dns"] = by_name.get("dns") or {}
    health = dict(by_name.get("health") or {})
    by_name["health"] = {**health, "Extra": health.get("Extra") or {}}
    always = ("Dns", "Health")
    return {name: by_name[name.lower()] for name in _ENDPOINT if name in always or by_name.get(name.lower())}

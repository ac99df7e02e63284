"""The Linux kind of guest: what `shim.uvm.guest` leaves open, for utility VMs that run Linux containers (LCOW).

While the VM boots, its init asks for entropy, the guest agent connects its log, and then GCS connects; all by vsock,
whose ports are Hyper-V socket services here. Nothing has to be sent before the first container.
"""

from __future__ import annotations

from shim import logs
from shim.hcs_bindings.errors import ErrorContext, HcsError
from shim.hcs_bindings.windows_version import windows_build
from shim.oci.errors import InvalidSpec
from shim.platform import host, hvsocket
from shim.uvm.gcs.connection import THE_VM
from shim.uvm.gcs.stdio_listeners import SERVICE
from shim.uvm.guest import Guest
from shim.uvm.linux import document, network, process_parameters
from shim.uvm.linux import settings as vm_settings
from shim.uvm.linux.boot_files import BootFiles
from shim.uvm.linux.container_plan import LinuxContainerPlan
from shim.uvm.linux.kernel_arguments import ENTROPY_PORT, LOG_PORT
from shim.uvm.linux.log_connection import LogConnection
from shim.uvm.linux.plan9 import Plan9Shares
from shim.uvm.linux.pod_cgroup import pod_cgroup
from shim.uvm.linux.settings import KERNEL_DIRECT_BUILD, LinuxVmSettings
from shim.uvm.linux.vpmem import VpmemDevices
from shim.uvm.settings import host_processors

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

    Document = dict[str, Any]

GCS_PORT = 0x40000000
ENTROPY_BYTES = 512
# How long the guest may take to read its entropy.
ENTROPY_SECONDS = 30.0
DISK_PATH = "/run/mounts/scsi/m"
POD_MEMORY_LIMIT = "PodCgroupMemoryLimit"
NAMESPACES = "NamespaceAddRequestSupported"
SIGKILL = 9


class LinuxGuest(Guest):
    os_type = "linux"
    gcs_service_id = SERVICE.format(GCS_PORT)
    settings: LinuxVmSettings
    shares: Plan9Shares
    reserved_slots: Sequence[Slot] = ()
    sandbox_is_container = True
    terminate_options = {"Signal": SIGKILL}

    def __init__(self, settings: LinuxVmSettings, log: Log) -> None:
        super().__init__(settings, log)
        self.scsi_controllers = settings.scsi_controllers
        if settings.boot.is_vhd and not settings.vpmem_count:
            self.reserved_slots = ((0, 0),)
        self._entropy: hvsocket.Listener | None = None
        self._log_listener: hvsocket.Listener | None = None
        self._guest_log: LogConnection | None = None

    @classmethod
    def from_spec(cls, spec: Spec, rootfs: Sequence[Mount], bundle: str, log: Log) -> LinuxGuest:
        """What belongs to the VM is removed from the spec: its devices, and a network namespace of the host."""
        build = windows_build()
        boot = BootFiles(
            spec.annotations, kernel_direct=build >= KERNEL_DIRECT_BUILD and host.architecture() != "arm64"
        )
        vm_settings.check(spec.annotations, boot, build)
        boot.check()
        settings = LinuxVmSettings(spec, boot, host_processors(LinuxVmSettings), build, log.warning)
        settings.log_level = logs.LEVEL_NAMES[log.level]
        settings.scrub_logs = log.scrub_secrets
        settings.netns = network.take_host_namespace(spec)
        settings.cpu_group = settings.cpu_group or pod_cgroup(spec)
        if settings.writable_overlays and not boot.is_vhd:
            log.warning("writable overlay directories have no effect: the VM's initrd is writable already")
        return cls(settings, log)

    @classmethod
    def plan_container(cls, spec: Spec, rootfs: Sequence[Mount], bundle: str, pod_id: str) -> LinuxContainerPlan:
        return LinuxContainerPlan(spec, rootfs, bundle)

    # Boot.

    def prepare(self, vm_id: str) -> None:
        """VMs only read their boot files, which belong to the host."""

    def document(self, vm_id: str) -> Document:
        return document.build(self.settings)

    def attach(self, vm: Vm) -> None:
        super().attach(vm)
        settings = self.settings
        self.shares = Plan9Shares(vm.modify, self._modify_guest, only_read_only=settings.shares_read_only)
        #: For layers; None if they must be disks.
        self.vpmem: VpmemDevices | None = None
        if settings.vpmem_count and not settings.devices_physically_backed:
            self.vpmem = VpmemDevices(
                vm.modify,
                self._modify_guest,
                count=settings.vpmem_count,
                device_size=settings.vpmem_size,
                multi_mapping=settings.vpmem_multi_mapping,
                reserved=1 if settings.boot.is_vhd else 0,
            )
        for channel, device in self.settings.devices.items():
            vm.devices.adopt(device, channel)

    def _modify_guest(self, resource: str, request: str, settings: Document) -> None:
        self.vm.gcs.modify_vm(resource, request, settings)

    def listen(self) -> None:
        self._entropy = hvsocket.listen(self.vm.runtime_id, SERVICE.format(ENTROPY_PORT))
        self._log_listener = hvsocket.listen(self.vm.runtime_id, SERVICE.format(LOG_PORT))

    def connect(self, deadline: float) -> None:
        assert self._entropy is not None and self._log_listener is not None
        with ErrorContext("failed to connect to entropy socket"):
            stream = self.vm.accept(self._entropy, deadline)
        try:
            stream.set_send_timeout(ENTROPY_SECONDS)
            stream.sendall(host.random(ENTROPY_BYTES))
        except OSError as error:
            # The kernel has other sources; a guest that has failed does not connect its log.
            self._log.warning("failed to write entropy", error=error, **{"uvm-id": self.vm.id})
        finally:
            stream.close()
            self._entropy.close()
        with ErrorContext("failed to connect to log socket"):
            self._guest_log = LogConnection(self.vm.accept(self._log_listener, deadline), self._log, self.vm.id)
        self._log_listener.close()

    def interrupt(self) -> None:
        for listener in (self._entropy, self._log_listener):
            if listener is not None:
                listener.close()

    def initialize(self, timeout: float) -> None:
        """A Linux guest is ready once it has negotiated."""

    def memory_changed(self) -> None:
        """The limit of all containers together is a part of the VM's memory. Older guests set it at boot only."""
        request = {"RequestType": "Update", "ResourceType": POD_MEMORY_LIMIT}
        try:
            self.vm.gcs.modify(THE_VM, request)
        except HcsError as error:
            if self.vm.gcs.is_closed:
                raise
            self._log.warning("guest keeps the memory limit of its containers", error=error, **{"uvm-id": self.vm.id})

    def close(self) -> None:
        self.interrupt()
        if self._guest_log is not None:
            self._guest_log.close()

    # Containers and processes.

    def admit(self, spec: Spec) -> None:
        """The guest itself gives its files to the containers of a pod, unless their specs mount others."""
        if not spec.has_linux:
            raise InvalidSpec("the pod's VM runs Linux, and the container is for Windows: use an image for Linux")
        taken = {mount.text("destination") for mount in spec.mounts}
        mounts: list[Document] = spec.document.values.get("mounts") or []
        for path, source in self.pod_files.items():
            if path not in taken:
                mount = {"destination": path, "type": "bind", "source": source, "options": ["rbind", "ro"]}
                mounts = [*mounts, mount]
        spec.document.values["mounts"] = mounts

    def check_container(self, plan: ContainerPlan) -> None:
        """Every Linux image runs in every Linux guest."""

    def stdio_settings(self, services: Mapping[str, str]) -> Document:
        return process_parameters.stdio_settings(services)

    def command_parameters(self, arguments: Sequence[str], directory: str) -> Document:
        return process_parameters.command_parameters(arguments, directory)

    # Storage.

    def disk_path(self, number: int) -> str:
        return f"{DISK_PATH}{number}"

    def mount_disk(self, slot: Slot, path: str, read_only: bool, mount: DiskMount) -> None:
        settings = _mapped_disk(slot, path, read_only, mount)
        if mount.options:
            settings["Options"] = list(mount.options)
        if mount.filesystem:
            settings["Filesystem"] = mount.filesystem
        if mount.ensure_filesystem:
            settings["EnsureFilesystem"] = True
        self.vm.gcs.modify_vm("MappedVirtualDisk", "Add", settings)

    def unmount_disk(self, slot: Slot, path: str, read_only: bool, mount: DiskMount) -> None:
        self.vm.gcs.modify_vm("MappedVirtualDisk", "Remove", _mapped_disk(slot, path, read_only, mount))

    def unplug_disk(self, slot: Slot) -> None:
        self.vm.gcs.modify_vm("SCSIDevice", "Remove", _slot(slot))

    def map_directory(self, share: Lease, path: str, read_only: bool) -> None:
        self.shares.map(share, path, read_only)

    # Network.

    def add_namespace(self, namespace: Document) -> None:
        """The guest makes a namespace when its first adapter names it."""

    def remove_namespace(self, id: str) -> None:
        """The guest's namespace ends with its container."""

    def announce_adapter(self, adapter: str, endpoint: Document) -> None:
        """Only Windows guests are told before HCS adds it."""

    def add_adapter(self, adapter: str, namespace: str, endpoint: Document) -> None:
        if self.vm.gcs.supports(NAMESPACES):
            routing = self.settings.policy_routing
            settings = network.guest_adapter(adapter, namespace, endpoint, policy_routing=routing)
            self.vm.gcs.modify_vm("Network", "Add", settings)

    def remove_adapter(self, adapter: str, namespace: str) -> None:
        if self.vm.gcs.supports(NAMESPACES):
            self.vm.gcs.modify_vm("Network", "Remove", network.removed_adapter(adapter, namespace))


def _slot(slot: Slot) -> Document:
    members = zip(("Controller", "Lun"), slot, strict=True)
    return {name: number for name, number in members if number}


def _mapped_disk(slot: Slot, path: str, read_only: bool, mount: DiskMount) -> Document:
    settings: Document = {"MountPath": path, **_slot(slot)}
    if mount.partition:
        settings["Partition"] = mount.partition
    if read_only:
        settings["ReadOnly"] = True
    if mount.block_device:
        settings["BlockDev"] = True
    return settings

"""A container in a utility VM: the same to its task as one on the host, and made of other things.

Its layers are shares, its scratch a disk of the VM, and the guest puts both together; its document goes to the guest,
not to HCS, which knows only the VM. What the VM holds for it is released when it is torn down, and needs no ledger: a
VM that dies has released everything. What concerns the host itself (network, credentials, the VM of a container that
has one to itself) is in the ledger as always.
"""

from __future__ import annotations

from threading import Event

from shim.container import compatibility, credentials, document, layers, network, process_document, resources
from shim.container.base import BaseContainer, ExitCallbacks, ReleaseOnError, release_ledger
from shim.container.ledger import Ledger
from shim.container.mounts import Mapped
from shim.hcs_bindings import errors
from shim.hcs_bindings.errors import ErrorContext, HcsError
from shim.spans import span
from shim.uvm import devices
from shim.uvm.container_plan import ContainerPlan
from shim.uvm.container_system import VmContainerSystem
from shim.uvm.gcs.process import VmProcess
from shim.uvm.vm import Vm
from shim.uvm.windows import boot_files, drivers, hostprocess

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from shim.api.types import Mount
    from shim.logs import Log
    from shim.oci.section import Section
    from shim.oci.spec import Spec
    from shim.uvm.settings import VmSettings

    Document = dict[str, Any]
    Release = Callable[[], None]

SHUTDOWN_SECONDS = 30.0
TERMINATE_SECONDS = 30.0
SIGNALS = "SignalProcessSupported"
SERVICE_TABLE = "VirtualMachine/Devices/HvSocket/HvSocketConfig/ServiceTable/"


class VmContainer(BaseContainer):
    """A container that has been created in a VM and not yet torn down. With `owns_vm`, the VM ends with it."""

    in_vm = True

    def __init__(self, id: str, spec: Spec, vm: Vm, ledger: Ledger, log: Log, *, owns_vm: bool) -> None:
        super().__init__(id, log.warning)
        self.spec = spec
        self.vm = vm
        self.owns_vm = owns_vm
        self.ledger = ledger
        self.system = VmContainerSystem(self)
        self._log = log
        self._exited = Event()
        self._exit = ExitCallbacks()
        self._exit.add(self._exited.set)
        self._has_init = False
        self._init_failed = False
        self._releases: list[Release] = []
        self._layer_releases: list[Release] = []
        self._namespace = ""

    @classmethod
    def create_alone(
        cls, id: str, bundle: str, spec: Spec, rootfs: Sequence[Mount], log: Log, *, scale_limits: bool = False
    ) -> VmContainer:
        """A container with a VM of its own, booted from the container's own image."""
        plan = ContainerPlan(spec, rootfs, bundle, id)
        compatibility.check_vm(spec, plan.layers)
        ledger = Ledger(bundle)
        with ReleaseOnError(ledger, log.warning):
            with span("vm"):
                vm = Vm.boot(f"{id}@vm", spec, boot_files.find(plan.layers.parents, plan.layers.scratch), ledger, log)
            try:
                return cls._create(id, spec, plan, vm, ledger, log, owns_vm=True, scale_limits=scale_limits)
            except BaseException:
                vm.close()
                raise

    @classmethod
    def create_in(
        cls, vm: Vm, pod_id: str, id: str, bundle: str, spec: Spec, rootfs: Sequence[Mount], log: Log,
        *, scale_limits: bool = False,
    ) -> VmContainer:  # fmt: skip
        """A container of a pod, in the pod's VM."""
        plan = ContainerPlan(spec, rootfs, bundle, pod_id)
        compatibility.check_workload(plan.layers, vm.guest_build)
        ledger = Ledger(bundle)
        with ReleaseOnError(ledger, log.warning):
            return cls._create(id, spec, plan, vm, ledger, log, owns_vm=False, scale_limits=scale_limits)

    @classmethod
    def _create(
        cls, id: str, spec: Spec, plan: ContainerPlan, vm: Vm, ledger: Ledger, log: Log,
        *, owns_vm: bool, scale_limits: bool,
    ) -> VmContainer:  # fmt: skip
        hostprocess.validate(spec, vm)
        container = cls(id, spec, vm, ledger, log, owns_vm=owns_vm)
        # What is wrong with the document shows before anything is acquired for it.
        dumps = vm.settings.process_dumps
        with span("document"):
            draft = document.draft(id, spec, Mapped(), vm.settings.processors, log.warning, dumps, assign_devices=False)
        if scale_limits:
            _scale(draft["Processor"], vm.settings)
        for warning in spec.annotations.warnings:
            log.warning(warning)
        try:
            container._acquire(draft, plan)
        except BaseException:
            container._release_all()
            raise
        return container

    def _acquire(self, draft: Document, plan: ContainerPlan) -> None:
        for path in plan.drivers:  # the network may need them
            self._releases.append(drivers.install(self.vm, path, self._log.warning))
        with span("network"):
            self._join_network()
        with span("layers"), ErrorContext("failed to mount container storage"):
            root = self._mount_layers(plan.layers)
        mapped = plan.mounts.acquire(self.vm, self._releases)
        if mapped.directories:
            draft["MappedDirectories"] = mapped.directories
        if mapped.pipes:
            draft["MappedPipes"] = mapped.pipes
        if not self._namespace:
            draft.pop("Networking", None)
        guard = self._add_credentials(plan.credential_spec) if plan.credential_spec else None
        if assigned := devices.assign(self.vm, plan.devices, self._releases):
            draft["AssignedDevices"] = assigned
            for path in plan.drivers:  # once more: when this is done, the devices are ready
                self._releases.append(drivers.install(self.vm, path, self._log.warning))
        whole = document.complete(draft, root, self._namespace, guard)
        hostprocess.set_isolation(self.spec, whole["Container"])
        guest = self.vm.guest
        with ErrorContext(f"failed to create container {self.id}"):
            guest.create_container(self.id, {name: whole[name] for name in ("SchemaVersion", "Container")})
        self._layer_releases.insert(0, self._delete_state)  # the very last
        guest.on_container_exit(self.id, self._exit.fire)
        try:
            guest.properties(self.id, "SystemGUID")
        except HcsError as error:
            self._log.warning("the guest does not tell the container's own id", error=error)

    def _join_network(self) -> None:
        """A container alone in its VM brings its network along; one of a pod uses the pod's."""
        if not self.spec.windows.has("network"):
            return
        if not self.owns_vm:
            given = self.spec.windows.section("network").text("networkNamespace")
            self._namespace = given or self.vm.namespace
            return
        self._namespace = network.namespace(self.spec, self.ledger)
        self.vm.network.add(self._namespace)
        self._releases.append(lambda: self.vm.network.remove(self._namespace))

    def _mount_layers(self, wanted: layers.WindowsLayers) -> layers.Root:
        parents = wanted.with_ids()
        disk = wanted.make_scratch()
        shared = []
        for layer_id, path in parents:
            with ErrorContext("failed to add VSMB layer"):
                held = self.vm.shares.add(path, read_only=True, backup=True)
            self._layer_releases.insert(0, held.release)  # the topmost goes first, as it came
            shared.append((layer_id, held.guest_path))
        with ErrorContext("failed to add SCSI scratch VHD"):
            attached = self.vm.disks.attach(disk)
        self._layer_releases.append(attached.release)
        combined: Document = {
            "ContainerRootPath": attached.guest_path,
            "Layers": [{"Id": layer_id, "Path": path} for layer_id, path in shared],
        }
        self.vm.guest.modify_vm("CombinedLayers", "Add", combined)
        root = {"ContainerRootPath": attached.guest_path}
        self._layer_releases.append(lambda: self.vm.guest.modify_vm("CombinedLayers", "Remove", root))
        return layers.Root(attached.guest_path, shared)

    def _add_credentials(self, credential_spec: str) -> Document | None:
        instance = credentials.add(self.ledger, self.id, credential_spec, "HvSocket")
        self._releases.append(self._remove_credentials)
        socket = instance.get("HvSocketConfig") or {}
        if service := socket.get("ServiceId"):
            path = f"{SERVICE_TABLE}{service}"
            settings = socket.get("ServiceConfig") or {}
            self.vm.modify({"ResourcePath": path, "RequestType": "Update", "Settings": settings})
            if not self.owns_vm:  # a pod's VM goes on without this container
                off = {"ResourcePath": path, "RequestType": "Update", "Settings": {"Disabled": True}}
                self._releases.append(lambda: self.vm.modify(off))
        guard: Document | None = instance.get("CredentialGuard")
        return guard

    def _remove_credentials(self) -> None:
        """While the VM is there; if it is gone, the ledger sees to it."""
        credentials.remove(self.id)
        for entry in self.ledger.entries():
            if entry.kind == "credentials":
                self.ledger.mark_released(entry)

    # Processes.

    def init_parameters(self, *, stdin: bool, stdout: bool, stderr: bool, terminal: bool | None = None) -> Document:
        """The document of the spec's own process, with the pipes that are wanted."""
        parameters = process_document.parameters(
            self.spec.process, stdin=stdin, stdout=stdout, stderr=stderr, terminal=terminal
        )
        return hostprocess.wrap_command(self.spec, parameters)

    def exec_parameters(
        self, process: Section, *, stdin: bool, stdout: bool, stderr: bool, terminal: bool | None = None
    ) -> Document:
        """The document of one more process (`shim.oci.spec.parse_process`)."""
        parameters = process_document.parameters(
            process, stdin=stdin, stdout=stdout, stderr=stderr, terminal=terminal, container=self.spec.process
        )
        return hostprocess.wrap_command(self.spec, parameters)

    def create_process(self, parameters: Document) -> VmProcess:
        try:
            process = VmProcess(self.vm, self.id, parameters)
        except BaseException:
            self._init_failed = not self._has_init  # it runs, and nothing in it that could be asked to end
            raise
        process.is_vital = not self._has_init
        self._has_init = True
        return process

    @property
    def takes_signals(self) -> bool:
        """Whether processes can be sent console events, or only be ended."""
        return self.vm.guest.can(SIGNALS)

    # Life.

    def start(self) -> None:
        self.vm.guest.start_container(self.id)

    def on_exit(self, callback: Callable[[], object]) -> None:
        """Call back once when the container has ended, or its VM; shortly, from any thread."""
        self._exit.add(callback)

    def add_directory(self, settings: Document, timeout: float | None) -> None:
        """Show one more directory of the host in the container, which runs."""
        held = self.vm.shares.add(settings["HostPath"], read_only=bool(settings.get("ReadOnly")))
        entry = {**settings, "HostPath": held.guest_path}
        request = {"ResourcePath": "Container/MappedDirectories", "RequestType": "Add", "Settings": entry}
        try:
            self.vm.guest.modify(self.id, request, timeout)
        except BaseException:
            held.release()
            raise
        self._releases.append(held.release)

    # Stop and teardown.

    def _teardown(self, stopped: bool) -> None:
        self._release_all()
        if self.owns_vm:
            self.vm.close()
        release_ledger(self.ledger, self._warn)

    def _stop(self) -> bool:
        """End all that runs in it, but not the VM: the VM still has to send output that was written."""
        ways = ((False, SHUTDOWN_SECONDS), (True, TERMINATE_SECONDS))
        for force, seconds in ways[1:] if self._init_failed else ways:
            if self._exited.is_set() or self.vm.is_gone:
                return True
            try:
                self.vm.guest.shut_down_container(self.id, force=force)
            except HcsError as error:
                if errors.is_stopped_or_stopping(error):
                    return True
                self._log.warning("the container does not take note of its end", error=error)
            if self._exited.wait(seconds):
                return True
            self._log.warning("the container has not ended", seconds=seconds, forced=force)
        return False

    def _release_all(self) -> None:
        """Backwards, layers last, and on after a failure. A VM that is gone has released everything."""
        releases = [*reversed(self._releases), *reversed(self._layer_releases)]
        self._releases, self._layer_releases = [], []
        for release in releases:
            if self.vm.is_gone:
                return
            try:
                release()
            except (HcsError, OSError) as error:
                if not self.vm.is_gone:
                    self._log.warning("the VM did not release something", error=error)

    def _delete_state(self) -> None:
        self.vm.guest.forget_container(self.id)
        if not self.owns_vm and self.vm.guest.can("DeleteContainerStateSupported"):
            self.vm.guest.delete_container_state(self.id)


def _scale(processor: dict[str, int], vm: VmSettings) -> None:
    """A limit that was meant as a share of the host, as a share of the VM."""
    if "Maximum" in processor:
        scaled = processor["Maximum"] * vm.host_processors // vm.processors
        processor["Maximum"] = max(1, min(scaled, resources.WHOLE_MACHINE))

"""A container in a utility VM. Its task uses it like one on the host.

HCS knows only the VM; the container's document goes to the guest. What the VM holds for the container (layers, disks,
shares, devices) is released when the container is torn down, and needs no ledger: HCS releases all of it with the VM.
What concerns the host itself (network, credentials, the VM of a standalone container) is in the ledger as always.

What the container is made of depends on the kind of guest: `shim.uvm.guest.ContainerPlan`.
"""

from __future__ import annotations

import time
from threading import Event

from shim.container import network
from shim.container.base import BaseContainer, ExitCallbacks, ReleaseOnError, release_ledger, run_all
from shim.container.ledger import Ledger
from shim.hcs_bindings import errors
from shim.hcs_bindings.errors import NOT_SUPPORTED, ErrorContext, HcsError
from shim.platform import hvsocket
from shim.spans import span
from shim.uvm.gcs import members
from shim.uvm.gcs.process import VmProcess
from shim.uvm.guest import guest_kind
from shim.uvm.vm import Vm

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from shim.api.types import Mount
    from shim.logs import Log
    from shim.oci.section import Section
    from shim.oci.spec import Spec
    from shim.uvm.guest import ContainerPlan

    Document = dict[str, Any]
    Release = Callable[[], None]

SHUTDOWN_SECONDS = 30.0
TERMINATE_SECONDS = 30.0
# A Linux guest reports the exit of a container right after that of its init.
NOTIFICATION_SECONDS = 1.0
POLL_SECONDS = 0.01
SIGNALS = "SignalProcessSupported"


class VmContainer(BaseContainer):
    """A container that has been created in a VM and not yet torn down. With `owns_vm`, the VM is closed with it."""

    in_vm = True
    isolation = "hypervisor"

    def __init__(
        self, id: str, spec: Spec, plan: ContainerPlan, vm: Vm, ledger: Ledger, log: Log, *, owns_vm: bool
    ) -> None:
        super().__init__(id, log.warning)
        self.spec = spec
        self.vm = vm
        self.owns_vm = owns_vm
        self.ledger = ledger
        self.log = log
        self.plan = plan
        self.system = VmContainerSystem(self)
        #: The network namespace that it is in, "" for none.
        self.namespace = ""
        #: What undoes each change of the VM made for it, in order. Layers are released after everything else.
        self.releases: list[Release] = []
        self.layer_releases: list[Release] = []
        self.is_linux = vm.guest.os_type == "linux"
        self._exited = Event()
        self._exit = ExitCallbacks()
        self._exit.add(self._exited.set)
        self._has_init = False
        self._init_failed = False
        self._init_exited = Event()
        self._created = False
        self._release_failed = False

    @classmethod
    def create_alone(
        cls, id: str, bundle: str, spec: Spec, rootfs: Sequence[Mount], log: Log, *, scale_limits: bool = False
    ) -> VmContainer:
        """A container with a VM of its own, booted from the container's own image."""
        kind = guest_kind(spec)
        plan = kind.plan_container(spec, rootfs, bundle, id)
        guest = kind.from_spec(spec, rootfs, bundle, log)
        ledger = Ledger(bundle)
        with ReleaseOnError(ledger, log.warning):
            with span("vm"):
                vm = Vm.boot(f"{id}@vm", guest, ledger, log)
            try:
                return cls(id, spec, plan, vm, ledger, log, owns_vm=True)._create(scale_limits)
            except BaseException:
                vm.close()
                raise

    @classmethod
    def create_in(
        cls, vm: Vm, pod_id: str, id: str, bundle: str, spec: Spec, rootfs: Sequence[Mount], log: Log,
        *, scale_limits: bool = False,
    ) -> VmContainer:  # fmt: skip
        """A container of a pod, in the pod's VM."""
        plan = guest_kind(spec).plan_container(spec, rootfs, bundle, pod_id)
        vm.guest.check_container(plan)
        ledger = Ledger(bundle)
        with ReleaseOnError(ledger, log.warning):
            return cls(id, spec, plan, vm, ledger, log, owns_vm=False)._create(scale_limits)

    def _create(self, scale_limits: bool) -> VmContainer:
        gcs = self.vm.gcs
        try:
            document = self.plan.acquire(self, scale_limits=scale_limits)
            with ErrorContext(f"failed to create container {self.id}"):
                gcs.create_container(self.id, document)
            self._created = True
            self.layer_releases.insert(0, self._delete_state)  # the very last
            gcs.on_container_exit(self.id, self._exit.fire)
            if not self.is_linux:
                self._publish_address()
        except BaseException:
            self._release_all()
            raise
        return self

    def _publish_address(self) -> None:
        """Let programs of the host reach the container's Hyper-V sockets."""
        try:
            system_id = members.guid(self.vm.gcs.properties(self.id, "SystemGUID"), "SystemGUID")
            if system_id:
                self.releases.append(hvsocket.AddressInfo(system_id, self.vm.runtime_id).close)
        except (HcsError, OSError, ValueError) as error:
            self.log.warning("host programs cannot reach the container's Hyper-V sockets", error=error)

    def join_network(self) -> None:
        """A standalone container adds its network to its VM; a container of a pod uses the pod's."""
        if not self.spec.windows.has("network"):
            return
        if not self.owns_vm:
            given = self.spec.windows.section("network").text("networkNamespace")
            self.namespace = given or self.vm.namespace
            return
        self.namespace = network.namespace(self.spec, self.ledger)
        self.vm.network.add(self.namespace)
        if self.spec.pod_role:
            self.vm.namespace = self.namespace
        self.releases.append(lambda: self.vm.network.remove(self.namespace))

    def admit(self, id: str, spec: Spec) -> None:
        self.vm.guest.admit(spec)

    # Processes.

    def init_parameters(self, *, stdin: bool, stdout: bool, stderr: bool, terminal: bool | None = None) -> Document:
        """The process document of the spec's own process, with the requested pipes."""
        return self.plan.init_parameters(stdin=stdin, stdout=stdout, stderr=stderr, terminal=terminal)

    def exec_parameters(
        self, process: Section, *, stdin: bool, stdout: bool, stderr: bool, terminal: bool | None = None
    ) -> Document:
        """The process document of an exec (`shim.oci.spec.parse_process`)."""
        return self.plan.exec_parameters(process, stdin=stdin, stdout=stdout, stderr=stderr, terminal=terminal)

    def create_process(self, parameters: Document) -> VmProcess:
        try:
            process = VmProcess(self.vm, self.id, parameters)
        except BaseException:
            self._init_failed = not self._has_init  # it runs, and no process in it could react to a shutdown
            raise
        if not self._has_init:
            process.is_init = self._has_init = True
            process.on_exit(lambda _: self._init_exited.set())
        return process

    @property
    def takes_signals(self) -> bool:
        """Whether processes can be sent signals, or only be terminated."""
        return self.vm.gcs.supports(SIGNALS)

    # Lifecycle.

    def start(self) -> None:
        self.vm.gcs.start_container(self.id)

    def on_exit(self, callback: Callable[[], object]) -> None:
        """Call back once when the container or its VM has exited, from any thread. The callback must not block."""
        self._exit.add(callback)

    def statistics(self, timeout: float) -> Document | None:
        """A Linux guest reports cgroup metrics (`shim.task.stats.linux_messages`)."""
        if not self.is_linux:
            return super().statistics(timeout)
        found: Document = self.system.properties("Statistics", timeout=timeout)
        return found

    def _teardown(self, stopped: bool) -> None:
        close = [self.vm.close] if self.owns_vm else []
        run_all([self._release_all, *close, lambda: release_ledger(self.ledger, self._warn)])

    def _stop(self) -> bool:
        """Stop all that runs in it, but not the VM: the VM still has to send output that was written."""
        if self.is_linux:
            if not self._has_init:
                return self._kill_created()
            if self._init_exited.is_set() and self._exited.wait(NOTIFICATION_SECONDS):
                return True
        attempts = ((False, SHUTDOWN_SECONDS), (True, TERMINATE_SECONDS))
        for force, seconds in attempts[1:] if self._init_failed else attempts:
            if self._exited.is_set() or self.vm.has_exited:
                return True
            try:
                self.vm.gcs.shut_down_container(self.id, force=force)
            except HcsError as error:
                if errors.is_stopped_or_stopping(error):
                    return True
                self.log.warning("guest did not acknowledge shutdown", error=error)
                if self.is_linux:
                    continue  # the signal was not delivered
            if self._exited.wait(seconds):
                return True
            self.log.warning("container did not exit after shutdown", seconds=seconds, forced=force)
        return False

    def _kill_created(self) -> bool:
        """Of a Linux container that has not been started: its init is blocked in the guest, and no exit is reported of
        an init that was never waited for."""
        try:
            self.vm.gcs.shut_down_container(self.id, force=True)
        except HcsError as error:
            if not errors.is_stopped_or_stopping(error):
                self.log.warning("guest did not kill the container", error=error)
            return errors.is_stopped_or_stopping(error)
        deadline = time.monotonic() + TERMINATE_SECONDS
        while not self.vm.has_exited and time.monotonic() < deadline:
            try:
                if not self.system.properties("ProcessList", timeout=TERMINATE_SECONDS).get("ProcessList"):
                    return True
            except HcsError:
                return True  # the guest lists no processes of a container that has stopped
            time.sleep(POLL_SECONDS)
        return self.vm.has_exited

    def _release_all(self) -> None:
        """In reverse order, layers last. A failure is logged. A VM that has exited has released everything, and layers
        of a pod's sandbox are released with the VM that follows it."""
        of_layers = [] if self.owns_vm and self.spec.pod_role and self._created else self.layer_releases
        releases = [*reversed(self.releases), *reversed(of_layers)]
        self.releases, self.layer_releases = [], []
        for release in releases:
            if self.vm.has_exited:
                return
            try:
                release()
            except Exception as error:
                self._release_failed = True
                if not self.vm.has_exited:
                    self.log.warning("failed to release VM resource", error=error)

    def _delete_state(self) -> None:
        self.vm.gcs.forget_container(self.id)
        if self.is_linux and self._release_failed:
            # The guest deletes everything below the container's directory, also in a share that is still mounted there.
            self.log.warning("state of the container is left in the guest: some of its mounts could not be removed")
            return
        if not self.owns_vm and self.vm.gcs.supports("DeleteContainerStateSupported"):
            self.vm.gcs.delete_container_state(self.id)


class VmContainerSystem:
    """The container as a compute system: properties and changes, as of one on the host."""

    def __init__(self, container: VmContainer) -> None:
        self._container = container

    def properties(self, *types: str, timeout: float | None = None) -> Document:
        return self._container.vm.gcs.properties(self._container.id, *types, timeout=timeout)

    def modify(self, request: Document, timeout: float | None = None) -> None:
        self._container.plan.modify(self._container, request, timeout)

    def pause(self) -> None:
        raise self._not_supported("pause")

    def resume(self) -> None:
        raise self._not_supported("resume")

    def _not_supported(self, verb: str) -> HcsError:
        return HcsError(NOT_SUPPORTED, f"{verb} {self._container.id}", detail="containers in a VM cannot be paused")

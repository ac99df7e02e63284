"""The sandbox of a pod in a utility VM: the VM and its network, without a container of its own."""

from __future__ import annotations

from shim.container.base import ReleaseOnError, release_ledger, run_all
from shim.container.ledger import Ledger
from shim.container.null_container import NullContainer, NullProcess
from shim.spans import span
from shim.uvm.guest import guest_kind
from shim.uvm.vm import Vm

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from shim.api.types import Mount
    from shim.logs import Log
    from shim.oci.spec import Spec

    Document = dict[str, Any]


class SandboxVm(NullContainer):
    in_vm = True
    isolation = "hypervisor"
    owns_vm = True

    def __init__(self, id: str, spec: Spec, vm: Vm, ledger: Ledger, log: Log) -> None:
        super().__init__(id, log.warning)
        self.spec = spec
        self.vm = vm
        self.ledger = ledger

    @classmethod
    def create(cls, id: str, bundle: str, spec: Spec, rootfs: Sequence[Mount], log: Log) -> SandboxVm:
        """Boot the pod's VM from the sandbox's image and add the pod's network to it."""
        guest = guest_kind(spec).from_spec(spec, rootfs, bundle, log)
        ledger = Ledger(bundle)
        with ReleaseOnError(ledger, log.warning):
            with span("vm"):
                vm = Vm.boot(f"{id}@vm", guest, ledger, log)
            try:
                if namespace := spec.windows.section("network").text("networkNamespace"):
                    vm.network.add(namespace)
                    vm.namespace = namespace
            except BaseException:
                vm.close()
                raise
        for warning in spec.annotations.warnings:
            log.warning(warning)
        return cls(id, spec, vm, ledger, log)

    def admit(self, id: str, spec: Spec) -> None:
        self.vm.guest.admit(spec)

    # The task's view: the VM runs since it was created, and no process of the sandbox runs in it.

    def create_process(self, parameters: Document) -> NullProcess:
        process = NullProcess()
        self.vm.on_exit(process.mark_lost)
        return process

    def on_exit(self, callback: Callable[[], object]) -> None:
        self.vm.on_exit(callback)

    def _teardown(self, stopped: bool) -> None:
        """Terminate the VM, and with it everything in the pod."""
        run_all([self._leave_network, self.vm.close, lambda: release_ledger(self.ledger, self._warn)])

    def _leave_network(self) -> None:
        if self.vm.namespace and not self.vm.has_exited:
            self.vm.network.remove(self.vm.namespace)

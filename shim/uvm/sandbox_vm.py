"""The sandbox of a pod in a utility VM: the VM and its network, and no container.

Its task has a process all the same, since the task API knows nothing else: one that does not exist, with pid 1, which
runs until it is sent any signal (status 0) or its VM ends (status 1).
"""

from __future__ import annotations

from threading import Lock

from shim.container import compatibility
from shim.container.ledger import Ledger
from shim.container.null_container import AbsentContainer, AbsentProcess
from shim.spans import span
from shim.uvm import container_plan
from shim.uvm.vm import Vm
from shim.uvm.windows import boot_files, hostprocess

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from shim.api.types import Mount
    from shim.logs import Log
    from shim.oci.spec import Spec

    Document = dict[str, Any]

RELEASE_SECONDS = 20.0


class SandboxVm(AbsentContainer):
    owns_vm = True

    def __init__(self, id: str, spec: Spec, vm: Vm, ledger: Ledger, log: Log) -> None:
        super().__init__(id)
        self.spec = spec
        self.vm = vm
        self.ledger = ledger
        self._log = log
        self._lock = Lock()
        self._torn_down = False

    @classmethod
    def create(cls, id: str, bundle: str, spec: Spec, rootfs: Sequence[Mount], log: Log) -> SandboxVm:
        """Boot the pod's VM from the sandbox's image and bring the pod's network into it."""
        container_plan.check(spec)
        layers = container_plan.windows_layers(spec, rootfs, bundle)
        guest_build = compatibility.check_vm(spec, layers)
        boot = boot_files.find(layers.parents, layers.scratch)
        ledger = Ledger(bundle)
        try:
            with span("vm"):
                vm = Vm.boot(f"{id}@vm", spec, boot, ledger, log)
            vm.guest_build = guest_build
            vm.pod_annotations = hostprocess.pod_annotations(spec)
            try:
                if namespace := spec.windows.section("network").text("networkNamespace"):
                    vm.network.add(namespace)
                    vm.namespace = namespace
            except BaseException:
                vm.close()
                raise
        except BaseException as error:
            for failure in ledger.free_all(RELEASE_SECONDS):
                log.warning(str(failure))
                error.add_note(str(failure))
            raise
        for warning in spec.annotations.warnings:
            log.warning(warning)
        return cls(id, spec, vm, ledger, log)

    # As a container, to its task: the VM runs since it was made, and nothing of the sandbox's own runs in it.

    def create_process(self, parameters: Document) -> AbsentProcess:
        process = AbsentProcess()
        self.vm.on_exit(process.lose)
        return process

    def on_exit(self, callback: Callable[[], object]) -> None:
        self.vm.on_exit(callback)

    def teardown(self) -> None:
        """End the VM, and with it everything in the pod."""
        with self._lock:
            if self._torn_down:
                return
            self._torn_down = True
            if self.vm.namespace and not self.vm.is_gone:
                self.vm.network.remove(self.vm.namespace)
            self.vm.close()
            for failure in self.ledger.free_all(RELEASE_SECONDS):
                self._log.warning(str(failure))

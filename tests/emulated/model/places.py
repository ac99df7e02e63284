"""Where the containers of the model run: on the host, in a VM of their own, or two of them in a pod."""

from __future__ import annotations

from typing import Any

from runhcs.task_client import TaskClient
from tests.support.emulator import Emulator
from tests.support.shims import Shim, Shims
from tests.support.vm_image import VmShims, options

PROCESS, HYPERVISOR = "process", "hypervisor"
POD, VM_POD = "pod", "hypervisor pod"
PODS = (POD, VM_POD)
#: The number of containers in a pod, besides its sandbox.
MEMBERS = 2
_TYPE, _SANDBOX = "io.kubernetes.cri.container-type", "io.kubernetes.cri.sandbox-id"


class Places:
    """Starts shims for containers of every kind, and creates their tasks."""

    def __init__(self, emulator: Emulator, shims: Shims) -> None:
        self._shims = shims
        self._vms = VmShims(emulator, shims)
        shims.rootfs()

    def start(self, kind: str, id: str, *command: str) -> Shim:
        return self._shims.start(id, self._spec(kind, *command))

    def start_sandbox(self, kind: str, id: str) -> Shim:
        """A sandbox that runs."""
        shim = self._shims.start(id, self._in_pod(self._spec(kind, "sleep", "600"), id, "sandbox"))
        self.create(kind, shim)
        TaskClient.start(shim)
        return shim

    def start_member(self, kind: str, pod: str, id: str, *command: str) -> Shim:
        return self._shims.start(id, self._in_pod(self._spec(kind, *command), pod, "container"))

    def create(self, kind: str, client: TaskClient) -> None:
        if kind in (HYPERVISOR, VM_POD):
            client.create(rootfs=self._vms.rootfs(client.id), options=options())
        else:
            client.create(rootfs=self._shims.rootfs())

    def _spec(self, kind: str, *command: str) -> dict[str, Any]:
        return self._vms.spec(*command) if kind in (HYPERVISOR, VM_POD) else self._shims.spec(*command)

    def _in_pod(self, spec: dict[str, Any], pod: str, role: str) -> dict[str, Any]:
        return {**spec, "annotations": {**spec.get("annotations", {}), _TYPE: role, _SANDBOX: pod}}

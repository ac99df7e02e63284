"""Where a container runs: on the host, in a utility VM of its own, or in its pod's VM.

The pod decides for its workloads: in a pod that is a VM every workload runs in the VM, whatever its own spec says about
isolation, and a workload gets no VM in a pod that has none. On the host, a container is an HCS container, or a
host-process container (a job object) if its spec says so.

Modules of VMs and of host processes are imported only when a container needs them.
"""

from __future__ import annotations

from shim.container.container import Container
from shim.container.null_container import NullContainer
from shim.task.errors import failed_precondition
from shim.task.signals import always_terminate, console_event, linux_signal, terminate_only

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from shim.api.types import Mount
    from shim.logs import Log
    from shim.oci.spec import Spec
    from shim.task import interfaces
    from shim.task.pod import Pod
    from shim.uvm.container import VmContainer
    from shim.uvm.vm import Vm


class PlacedContainer:
    """A created container, how signals reach its processes, and the utility VM that belongs to it alone, if any."""

    __slots__ = ("console_event_for", "container", "vm")

    def __init__(
        self,
        container: interfaces.NewContainer,
        console_event_for: Callable[[int], str | int | None] = console_event,
        vm: Vm | None = None,
    ) -> None:
        self.container = container
        self.console_event_for = console_event_for
        self.vm = vm


def place_sandbox(
    id: str, bundle: str, spec: Spec, rootfs: Sequence[Mount], log: Log, *, with_container: bool = True
) -> PlacedContainer:
    """Create the sandbox of a pod. That of Linux containers is a container in the pod's VM. `with_container` is False
    for one of the Sandbox service: on the host it is only a name."""
    if spec.is_lcow:
        from shim.uvm.container import VmContainer

        return _placed(VmContainer.create_alone(id, bundle, spec, rootfs, log))
    if spec.is_isolated:
        from shim.uvm.sandbox_vm import SandboxVm

        sandbox = SandboxVm.create(id, bundle, spec, rootfs, log)
        return PlacedContainer(sandbox, always_terminate, sandbox.vm)
    if spec.is_host_process:
        from shim.hostprocess.sandbox_container import HostProcessSandbox

        return PlacedContainer(HostProcessSandbox(id, spec, log.warning), always_terminate)
    if with_container:
        return PlacedContainer(Container.create(id, bundle, spec, rootfs, log.warning))
    return PlacedContainer(NullContainer(id, log.warning), always_terminate)


def place_container(
    id: str, bundle: str, spec: Spec, rootfs: Sequence[Mount], pod: Pod, log: Log, *, scale_cpu_limits: bool = False
) -> PlacedContainer:
    """Create a standalone container, or a workload of a pod."""
    is_workload = spec.pod_role == "container"
    vm = pod.vm if is_workload else None
    if is_workload and pod.sandbox is not None and (vm is not None or not spec.is_isolated):
        pod.sandbox.container.admit(id, spec)
    if vm is None and not spec.is_isolated:
        if spec.is_host_process:
            from shim.hostprocess.container import HostProcessContainer

            return PlacedContainer(HostProcessContainer.create(id, bundle, spec, rootfs, log.warning))
        return PlacedContainer(Container.create(id, bundle, spec, rootfs, log.warning))
    if is_workload and vm is None:
        raise failed_precondition(
            f"container {id!r} asks for a utility VM, and its pod {spec.sandbox_id!r} has none; give the "
            "pod's runtime SandboxIsolation = 1"
        )
    from shim.uvm.container import VmContainer

    if vm is not None:
        container = VmContainer.create_in(
            vm, spec.sandbox_id, id, bundle, spec, rootfs, log, scale_limits=scale_cpu_limits
        )
    else:
        container = VmContainer.create_alone(id, bundle, spec, rootfs, log, scale_limits=scale_cpu_limits)
    return _placed(container)


def _placed(container: VmContainer) -> PlacedContainer:
    vm = container.vm if container.owns_vm else None
    if not container.takes_signals:
        return PlacedContainer(container, terminate_only, vm)
    return PlacedContainer(container, linux_signal if container.is_linux else console_event, vm)

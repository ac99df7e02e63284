"""Where a container lives: on the host, in a VM of its own, or in its pod's VM.

The pod decides for its workloads: in a pod that is a VM everything lives in the VM, whatever a workload's own spec says
of isolation, and no VM joins a pod that has none. On the host, a container is one of HCS, or a job of the host's own
processes if its spec says so.
"""

from __future__ import annotations

from shim.container.container import Container
from shim.task.errors import failed_precondition
from shim.task.signals import console_event, terminating, without_console_events

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from shim.api.task import CreateTaskRequest
    from shim.logs import Log
    from shim.oci.options import Options
    from shim.oci.spec import Spec
    from shim.task import interfaces
    from shim.task.pod import Pod
    from shim.uvm.vm import Vm


class Hosted:
    """A container, how signals reach its processes, and the VM it has to answer for, if any."""

    __slots__ = ("container", "event_of", "vm")

    def __init__(
        self,
        container: interfaces.NewContainer,
        event_of: Callable[[int], str | None] = console_event,
        vm: Vm | None = None,
    ) -> None:
        self.container = container
        self.event_of = event_of
        self.vm = vm


def make_container(request: CreateTaskRequest, spec: Spec, options: Options, pod: Pod, log: Log) -> Hosted:
    bundle, rootfs = request.bundle, request.rootfs
    is_workload = spec.pod_role == "container"
    vm = pod.vm if is_workload else None
    if is_workload and pod.sandbox is not None and (vm is not None or not spec.is_isolated):
        pod.sandbox.container.admit(request.id, spec)
    if vm is None and not spec.is_isolated:
        if spec.is_host_process:
            return _make_job(request, spec, log)
        return Hosted(Container.create(request.id, bundle, spec, rootfs, log.warning))
    if is_workload and vm is None:
        raise failed_precondition(
            f"container {request.id!r} asks for a utility VM, and its pod {spec.sandbox_id!r} has none; give the "
            "pod's runtime SandboxIsolation = 1"
        )
    if options.values.boot_files_root_path:
        log.warning("option BootFilesRootPath has no effect: this VM boots from its image's own files")
    # Only now: who has no VM does not pay for what one needs.
    from shim.uvm.container import VmContainer
    from shim.uvm.sandbox_vm import SandboxVm

    scale = options.values.scale_cpu_limits_to_sandbox
    if spec.pod_role == "sandbox":
        sandbox = SandboxVm.create(request.id, bundle, spec, rootfs, log)
        return Hosted(sandbox, terminating, sandbox.vm)
    if vm is not None:
        container = VmContainer.create_in(
            vm, spec.sandbox_id, request.id, bundle, spec, rootfs, log, scale_limits=scale
        )
    else:
        container = VmContainer.create_alone(request.id, bundle, spec, rootfs, log, scale_limits=scale)
    event_of = console_event if container.takes_signals else without_console_events
    return Hosted(container, event_of, container.vm if container.owns_vm else None)


def _make_job(request: CreateTaskRequest, spec: Spec, log: Log) -> Hosted:
    """Only now: who asks for none does not pay for what one needs."""
    if spec.pod_role == "sandbox":
        from shim.hostprocess.sandbox_container import HostProcessSandbox

        return Hosted(HostProcessSandbox(request.id, spec, log.warning), terminating)
    from shim.hostprocess.container import HostProcessContainer

    return Hosted(HostProcessContainer.create(request.id, request.bundle, spec, request.rootfs, log.warning))

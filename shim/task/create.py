"""Create and Exec, and CreateSandbox of the Sandbox service: from a request to a task in the pod.

A Create takes these steps, in this order:

    reserve the id in the pod -> options -> spec -> normalize -> role in the pod -> stdio -> container
        -> add the task to the pod -> publish TaskCreate -> watch the container's exit

Stdio is opened before the container is created, since it costs least to undo. When a later step fails, stdio is closed;
the container has released its own resources by then.
"""

from __future__ import annotations

from shim.api.wellknown import Any
from shim.container import resources
from shim.oci import normalize
from shim.oci import options as runtime_options
from shim.oci import spec as oci
from shim.oci.errors import InvalidSpec
from shim.platform import host
from shim.spans import attribute, span
from shim.task.errors import failed_precondition, invalid_argument
from shim.task.events.task_events import TaskEvents
from shim.task.isolation import place_container, place_sandbox
from shim.task.pod import Role
from shim.task.stdio.process_io import open_stdio
from shim.task.task import Task

TYPE_CHECKING = False
if TYPE_CHECKING:
    from shim.api.sandbox import CreateSandboxRequest
    from shim.api.task import CreateTaskRequest, ExecProcessRequest
    from shim.task.context import ShimContext
    from shim.task.pod import Pod
    from shim.task.stdio.process_io import Stdio


def create_task(context: ShimContext, request: CreateTaskRequest, pod: Pod) -> Task:
    """Create a container and add it to the pod as a task."""
    host.wait_for_debugger(context.log)
    with pod.reserve(request.id):
        task = _create_member(context, request, pod) if context.sandbox_api else _create(context, request, pod)
        pod.add(task)
        task.publish_created(request)
        task.watch_container()
        return task


def _create_member(context: ShimContext, request: CreateTaskRequest, pod: Pod) -> Task:
    """containerd runs no `delete` for a workload of the Sandbox service. Record its bundle, so that `delete` of the
    sandbox releases its resources."""
    from shim.task import pod_members

    def remove() -> None:
        pod_members.remove_if_released(context.bundle, request.id, request.bundle)

    pod_members.add(context.bundle, request.id, request.bundle)
    try:
        task = _create(context, request, pod)
    except BaseException:
        remove()
        raise
    task.init.done.add_callback(remove)
    return task


def _create(context: ShimContext, request: CreateTaskRequest, pod: Pod) -> Task:
    log = context.log.bind(tid=request.id)
    with span("options"):
        options = runtime_options.decode(request.options)
    with span("spec"):
        spec = oci.load(request.bundle)
        if context.sandbox_api:
            from shim.task.sandbox_spec import set_pod_annotations

            set_pod_annotations(spec, oci.CONTAINER, context.id)
        normalize.normalize_spec(spec, options)
        pod.check(request.id, Role(spec.pod_role, spec.sandbox_id))
    retry = options.values.io_retry_timeout_in_sec
    with span("stdio"):
        # CRI ends stdin by CloseIO, and closes its FIFO when containerd restarts too. ctr may not call CloseIO.
        io = _open_stdio(context, request, request.id, "", retry, stdin_outlives_client=bool(spec.pod_role))
    try:
        if options.values.boot_files_root_path and not spec.has_linux and (spec.is_isolated or pod.vm is not None):
            log.warning("option BootFilesRootPath has no effect: this VM boots from its image's own files")
        if spec.pod_role == oci.SANDBOX:
            placed = place_sandbox(request.id, request.bundle, spec, request.rootfs, log)
        else:
            scale = options.values.scale_cpu_limits_to_sandbox
            placed = place_container(request.id, request.bundle, spec, request.rootfs, pod, log, scale_cpu_limits=scale)
        parameters = placed.container.init_parameters(**io.requested_pipes(), terminal=request.terminal)
    except BaseException:
        io.close()
        raise
    if spec.pod_role == oci.SANDBOX and placed.vm is not None and not placed.vm.guest.sandbox_is_container:
        # No process runs in the sandbox of a VM: State reports no streams, as Microsoft's shim does.
        io.stdin = io.stdout = io.stderr = ""
    attribute("isolation", placed.container.isolation)
    task = Task(
        request.id,
        request.bundle,
        placed.container,
        parameters,
        io,
        TaskEvents(context.publisher, request.id),
        log,
        is_pod_member=bool(spec.pod_role),
        vm=placed.vm,
        console_event_for=placed.console_event_for,
    )
    task.io_retry_seconds = retry
    task.memory_limit = resources.memory(spec).get("SizeInMB", 0) * resources.MIB
    return task


def create_sandbox(context: ShimContext, request: CreateSandboxRequest, pod: Pod) -> None:
    """Create the sandbox of the Sandbox service and add it to the pod as a task.

    It publishes no events: containerd publishes `/sandboxes/*` itself, and its clients know no such task.
    """
    from shim.task.events.task_events import UnpublishedEvents
    from shim.task.sandbox_spec import pod_config, sandbox_platform, sandbox_spec, start_options

    sandbox_id, bundle = request.sandbox_id, request.bundle_path
    log = context.log.bind(tid=sandbox_id)
    with pod.reserve_sandbox():
        config = pod_config(request)
        spec = sandbox_spec(request, start_options(context), config, sandbox_platform(context)[0])
        pod_files = {}
        if spec.is_lcow:
            from shim.task.linux_sandbox import write_pod_files

            pod_files = write_pod_files(bundle, config)
        placed = place_sandbox(sandbox_id, bundle, spec, request.rootfs, log, with_container=False)
        if placed.vm is not None:
            placed.vm.guest.pod_files = pod_files
        no_streams = open_stdio("", "", "", False, namespace=context.namespace, id=sandbox_id, exec_id="")
        task = Task(
            sandbox_id,
            bundle,
            placed.container,
            placed.container.init_parameters(stdin=False, stdout=False, stderr=False),
            no_streams,
            UnpublishedEvents(),
            log,
            is_pod_member=True,
            vm=placed.vm,
            console_event_for=placed.console_event_for,
        )
        pod.add(task)
        task.watch_container()
        log.info("sandbox created", bundle=bundle)


def create_exec(context: ShimContext, task: Task, request: ExecProcessRequest) -> None:
    task.check_exec(request.exec_id)
    if request.spec is None:
        raise invalid_argument(f"exec {request.exec_id!r} has no process spec")
    with span("spec"):
        process = oci.parse_process(request.spec.value)
    with span("stdio"):
        io = _open_stdio(context, request, task.id, request.exec_id, task.io_retry_seconds)
    try:
        parameters = task.container.exec_parameters(process, **io.requested_pipes(), terminal=request.terminal)
        task.add_exec(request.exec_id, io, parameters)
    except BaseException:
        io.close()
        raise


def _open_stdio(
    context: ShimContext,
    request: CreateTaskRequest | ExecProcessRequest,
    id: str,
    exec_id: str,
    retry: int,
    *,
    stdin_outlives_client: bool = False,
) -> Stdio:
    if request.terminal and request.stderr and request.stderr != request.stdout:
        from shim.platform.client_quirks import names_stderr_of_terminals

        # The same URI twice is how Linux clients name one log for both.
        if not names_stderr_of_terminals():
            raise failed_precondition("if using terminal, stderr must be empty")
        request.stderr = ""
    return open_stdio(
        request.stdin,
        request.stdout,
        request.stderr,
        request.terminal,
        namespace=context.namespace,
        id=id,
        exec_id=exec_id,
        retry_seconds=retry,
        log=context.log,
        stdin_outlives_client=stdin_outlives_client,
    )


def warm_up(context: ShimContext) -> None:
    """Importing this module has loaded the code. Load HCS's library too, and the VM modules if the options ask for a
    VM."""
    from shim.hcs_bindings.library import computecore

    _ = computecore.HcsCreateComputeSystem
    try:
        options = runtime_options.decode(Any(type_url=context.options_type, value=context.options))
    except InvalidSpec:
        return  # Create reports it
    if options.values.sandbox_isolation == runtime_options.HYPERVISOR:
        if options.values.sandbox_platform.lower().startswith("linux"):
            from shim.uvm import container as linux_container
            from shim.uvm.linux import guest as linux_guest

            _ = linux_container, linux_guest
            return
        from shim.uvm import container, sandbox_vm
        from shim.uvm.windows import guest

        _ = container, sandbox_vm, guest

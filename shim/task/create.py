"""From a Create or Exec request to a task or an exec: read, check, connect the streams, make.

Streams are connected first, since they cost least to undo; if what follows fails, they are closed again, and the
container has undone its own part by then.
"""

from __future__ import annotations

from shim.api.wellknown import Any
from shim.container import resources
from shim.oci import normalize
from shim.oci import options as runtime_options
from shim.oci import spec as oci
from shim.oci.errors import InvalidSpec
from shim.spans import span
from shim.task.errors import failed_precondition, invalid_argument
from shim.task.events.task_events import Announcer
from shim.task.isolation import make_container
from shim.task.pod import Role
from shim.task.stdio.process_io import open_stdio
from shim.task.task import Task

TYPE_CHECKING = False
if TYPE_CHECKING:
    from shim.api.task import CreateTaskRequest, ExecProcessRequest
    from shim.task.context import ShimContext
    from shim.task.pod import Pod
    from shim.task.stdio.process_io import Stdio


def make_task(context: ShimContext, request: CreateTaskRequest, pod: Pod) -> Task:
    """The container of a Create request, created, with its streams connected; not yet announced."""
    log = context.log.bind(tid=request.id)
    with span("options"):
        options = runtime_options.decode(request.options)
    with span("spec"):
        spec = oci.load(request.bundle)
        if context.sandbox_api:
            from shim.task.sandbox_spec import mark

            mark(spec, oci.CONTAINER, context.id)
        normalize.settle(spec, options)
        pod.check(request.id, Role(spec.pod_role, spec.sandbox_id))
    retry = options.values.io_retry_timeout_in_sec
    with span("stdio"):
        io = _open(context, request, request.id, "", retry)
    try:
        hosted = make_container(request, spec, options, pod, log)
        parameters = hosted.container.init_parameters(**io.wanted(), terminal=request.terminal)
    except BaseException:
        io.close()
        raise
    if spec.pod_role == oci.SANDBOX and hosted.vm is not None:
        # Nothing runs there that could have streams: State names none, as Microsoft's shim does not.
        io.stdin = io.stdout = io.stderr = ""
    task = Task(
        request.id,
        request.bundle,
        hosted.container,
        parameters,
        io,
        Announcer(context.publisher, request.id),
        log,
        is_pod_member=bool(spec.pod_role),
        vm=hosted.vm,
        event_of=hosted.event_of,
    )
    task.io_retry_seconds = retry
    task.memory_limit = resources.memory(spec).get("SizeInMB", 0) * resources.MIB
    return task


def add_exec(context: ShimContext, task: Task, request: ExecProcessRequest) -> None:
    task.check_exec(request.exec_id)
    if request.spec is None:
        raise invalid_argument(f"exec {request.exec_id!r} has no process spec")
    with span("spec"):
        process = oci.parse_process(request.spec.value)
    with span("stdio"):
        io = _open(context, request, task.id, request.exec_id, task.io_retry_seconds)
    try:
        parameters = task.container.exec_parameters(process, **io.wanted(), terminal=request.terminal)
        task.add_exec(request.exec_id, io, parameters)
    except BaseException:
        io.close()
        raise


def _open(
    context: ShimContext, request: CreateTaskRequest | ExecProcessRequest, id: str, exec_id: str, retry: int
) -> Stdio:
    if request.terminal and request.stderr and request.stderr != request.stdout:
        # The same URI twice is how Linux clients name one log for both.
        raise failed_precondition("if using terminal, stderr must be empty")
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
    )


def warm_up(context: ShimContext) -> None:
    """Importing this module has loaded the code; load the library of HCS as well, and what a VM needs if there will be
    one."""
    from shim.hcs_bindings.library import computecore

    _ = computecore.HcsCreateComputeSystem
    try:
        options = runtime_options.decode(Any(type_url=context.options_type, value=context.options))
    except InvalidSpec:
        return  # Create will say so
    if options.values.sandbox_isolation == runtime_options.HYPERVISOR:
        __import__("shim.uvm.container")
        __import__("shim.uvm.sandbox_vm")

"""The Task service: the RPCs of `containerd.task.v2.Task` and `.v3.Task` for the tasks of a pod.

A handler decodes its request, calls the pod or a task, and encodes the response. It runs in one of three ways:

- inline, in the thread that reads the connection, from memory: State, Connect, Checkpoint, Shutdown;
- deferred: Wait, which holds no thread however long it takes;
- in a worker thread: everything that may call HCS or access a file.

This module and the pod are imported before the first Connect can be answered, so they import only what that needs;
handlers import the rest.

No handler keeps state of a connection (except a deferred Wait, whose response is dropped when its client disconnects):
containerd may restart at any time and open any number of connections.
"""

from __future__ import annotations

from shim import spans
from shim.api.wire import read_string_entry, varint
from shim.logs import DEBUG
from shim.task.errors import to_status, unimplemented
from shim.task.pod import Pod
from shim.threads import run_soon
from shim.ttrpc import status
from shim.ttrpc.server import Call, Method
from shim.ttrpc.status import StatusError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from shim.task.context import ShimContext

TASK_V2 = "containerd.task.v2.Task"
TASK_V3 = "containerd.task.v3.Task"
EXTENDED = "ExtendedTask"
SHIM_DIAG = "containerd.runhcs.v1.diag.ShimDiag"
SHIM_DIAG_METHODS = ("DiagExecInHost", "DiagStacks", "DiagTasks", "DiagShare", "DiagPid")
INSPECT = "runhcs.inspect.v1.Inspect"
# What ends a task, whatever else hangs.
URGENT = ("Kill", "Delete")

EMPTY = b""


def build_services(context: ShimContext, pod: Pod | None = None) -> Mapping[str, Mapping[str, Method]]:
    """All ttrpc services of this shim, for `Server`. Modules that only a task needs are imported by the handlers."""
    if pod is None:
        pod = Pod(context)
    service = TaskService(pod, context)
    methods = service.methods()
    services = {
        TASK_V2: methods,
        TASK_V3: methods,
        EXTENDED: service.extended_methods(),
        SHIM_DIAG: {name: service.diagnostic(name) for name in SHIM_DIAG_METHODS},
        INSPECT: {name: service.diagnostic(name) for name in ("Shim", "Record")},
    }
    if context.sandbox_api:
        from shim.task.sandbox_service import SANDBOX, SandboxService

        services[SANDBOX] = SandboxService(pod, context).methods(service.guarded)
    return services


def warm_up(context: ShimContext) -> None:
    """Import what the first Create and Start need, before they arrive. Rarely used modules are not loaded: they would
    delay a Create that comes in meanwhile, since the interpreter runs one thread at a time."""
    from shim.task import create

    create.warm_up(context)


def read_ids(payload: bytes) -> tuple[str, str]:
    """Fields 1 and 2 of a request, its `id` and `exec_id`, without the module of its message class."""
    return read_string_entry(payload, 0, len(payload))


class TaskService:
    def __init__(self, pod: Pod, context: ShimContext) -> None:
        self._pod = pod
        self._context = context

    def methods(self) -> dict[str, Method]:
        inline = {
            "State": self.state,
            "Connect": self.connect,
            "Wait": self.wait,
            "CloseIO": self.close_io,
            "Checkpoint": self.checkpoint,
            "Shutdown": self.shutdown,
        }
        worker = {
            "Create": self.create,
            "Start": self.start,
            "Delete": self.delete,
            "Pids": self.pids,
            "Pause": self.pause,
            "Resume": self.resume,
            "Kill": self.kill,
            "Exec": self.exec,
            "ResizePty": self.resize_pty,
            "Update": self.update,
            "Stats": self.stats,
        }
        methods = {name: Method.inline(self.guarded(name, handler)) for name, handler in inline.items()}
        for name, handler in worker.items():
            methods[name] = Method.worker(self.guarded(name, handler), name in URGENT)
        return methods

    def extended_methods(self) -> dict[str, Method]:
        """The service of Microsoft's shim beside the task API."""
        return {"ComputeProcessorInfo": Method.inline(self.guarded("ComputeProcessorInfo", self.processor_info))}

    def diagnostic(self, name: str) -> Method:
        """A method of ShimDiag or Inspect."""

        def handle(call: Call) -> bytes:
            from shim.task.diagnostics import service as diagnostics

            return diagnostics.HANDLERS[name](self._pod, self._context, call)

        return Method.worker(self.guarded(name, handle))

    def guarded(self, name: str, handler: Callable[[Call], bytes]) -> Callable[[Call], bytes]:
        """The handler of every RPC, with its errors turned into statuses. Unexpected errors are logged; each call is,
        at debug level."""
        log = self._context.log
        handler = spans.rpc(name, handler)

        def run(call: Call) -> bytes:
            try:
                return handler(call)
            except StatusError:
                raise
            except Exception as error:
                converted = to_status(error)
                if converted.code == status.UNKNOWN:
                    from shim.task.rpc_log import request_ids

                    ids = request_ids(name, call.payload)
                    log.error(f"{name} failed", error=error, type=type(error).__name__, **ids)
                raise converted from error

        if log.enabled(DEBUG):
            from shim.task.rpc_log import log_calls

            return log_calls(name, run, log)
        return run

    # Inline.

    def state(self, call: Call) -> bytes:
        """The most frequent call, and therefore decoded without its message class."""
        return self._pod.process(*read_ids(call.payload)).state_response

    def connect(self, call: Call) -> bytes:
        """The first call of all; its messages are decoded and encoded without their classes, to save their import."""
        fields = ((b"\x08", self._context.pid), (b"\x10", self._pod.task_pid(read_ids(call.payload)[0])))
        return b"".join(tag + varint(value) for tag, value in fields if value)

    def processor_info(self, call: Call) -> bytes:
        """The number of processors of the utility VM that belongs to this task alone."""
        from shim.api.extendedtask import ComputeProcessorInfoRequest, ComputeProcessorInfoResponse

        task = self._pod.task(ComputeProcessorInfoRequest.decode(call.payload).id)
        if task.vm is None:
            raise StatusError(status.UNKNOWN, "task is not isolated: it has no utility VM to itself; ask for its pod")
        return ComputeProcessorInfoResponse(count=task.vm.settings.processors).encode()

    def checkpoint(self, call: Call) -> bytes:
        raise unimplemented("HCS cannot checkpoint a container")

    def wait(self, call: Call) -> bytes:
        process = self._pod.process(*read_ids(call.payload))
        if process.reported.is_set:
            return process.wait_response()

        def answer() -> None:
            call.reply(process.wait_response())

        deferred = call.defer(lambda: process.reported.remove_callback(answer))
        process.reported.add_callback(answer)
        return deferred

    def shutdown(self, call: Call) -> bytes:
        from shim.api.task import ShutdownRequest

        request = ShutdownRequest.decode(call.payload)
        if not self._pod.shutdown_stops_shim(request.id):
            return EMPTY
        # Respond first: containerd would report a lost connection otherwise. It may remove the bundle right after.
        deferred = call.defer()
        self._context.release_bundle()
        call.reply(EMPTY)
        if self._pod.is_released:
            self._context.request_shutdown(request.now)
        else:
            run_soon(self._stop_all, request.now)
        return deferred

    def _stop_all(self, now: bool) -> None:
        try:
            self._pod.stop_all()
        finally:
            self._context.request_shutdown(now)

    # In a worker thread.

    def create(self, call: Call) -> bytes:
        from shim.api.task import CreateTaskRequest, CreateTaskResponse
        from shim.task.create import create_task

        task = create_task(self._context, CreateTaskRequest.decode(call.payload), self._pod)
        return CreateTaskResponse(pid=task.init.pid).encode()

    def start(self, call: Call) -> bytes:
        from shim.api.task import StartRequest, StartResponse

        request = StartRequest.decode(call.payload)
        return StartResponse(pid=self._pod.task(request.id).start(request.exec_id)).encode()

    def delete(self, call: Call) -> bytes:
        from shim.api.task import DeleteRequest, DeleteResponse

        request = DeleteRequest.decode(call.payload)
        process = self._pod.delete(request.id, request.exec_id)
        return DeleteResponse(pid=process.pid, exit_status=process.exit_status, exited_at=process.exited_at).encode()

    def pids(self, call: Call) -> bytes:
        from shim.api.task import PidsRequest, PidsResponse
        from shim.task.stats.pids import pids

        task = self._pod.task(PidsRequest.decode(call.payload).id)
        return PidsResponse(processes=pids(task)).encode()

    def stats(self, call: Call) -> bytes:
        from shim.api.task import StatsRequest, StatsResponse
        from shim.task.stats import collect

        task = self._pod.task(StatsRequest.decode(call.payload).id)
        return StatsResponse(stats=collect.stats(task)).encode()

    def pause(self, call: Call) -> bytes:
        from shim.api.task import PauseRequest

        self._pod.task(PauseRequest.decode(call.payload).id).pause()
        return EMPTY

    def resume(self, call: Call) -> bytes:
        from shim.api.task import ResumeRequest

        self._pod.task(ResumeRequest.decode(call.payload).id).resume()
        return EMPTY

    def kill(self, call: Call) -> bytes:
        from shim.api.task import KillRequest

        request = KillRequest.decode(call.payload)
        self._pod.kill(request.id, request.exec_id, request.signal, request.all)
        return EMPTY

    def exec(self, call: Call) -> bytes:
        from shim.api.task import ExecProcessRequest
        from shim.task.create import create_exec

        request = ExecProcessRequest.decode(call.payload)
        create_exec(self._context, self._pod.task(request.id), request)
        return EMPTY

    def resize_pty(self, call: Call) -> bytes:
        from shim.api.task import ResizePtyRequest

        request = ResizePtyRequest.decode(call.payload)
        self._pod.process(request.id, request.exec_id).resize(request.width, request.height)
        return EMPTY

    def close_io(self, call: Call) -> bytes:
        self._pod.process(*read_ids(call.payload)).close_stdin()
        return EMPTY

    def update(self, call: Call) -> bytes:
        from shim.api.task import UpdateTaskRequest
        from shim.task.update import container

        request = UpdateTaskRequest.decode(call.payload)
        container.require_resources(request)
        container.apply(self._pod.task(request.id), request)
        return EMPTY

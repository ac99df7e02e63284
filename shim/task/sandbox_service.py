"""The Sandbox service, `containerd.runtime.sandbox.v1.Sandbox`: a pod whose sandbox is not a container of containerd.

containerd 2.x uses it for pods with `sandboxer = "shim"`. It creates a pod like any other (`shim.task.pod`): the
sandbox is a task without a container, or with a utility VM, and workloads join through the Task service of the same
connection, without `start` before and `delete` after them. Two things differ: Shutdown of a task never stops the shim,
ShutdownSandbox does; and since containerd runs no `delete` for workloads, the sandbox's bundle lists their bundles
(`shim.task.pod_members`).

Only a shim that was started for a sandbox imports and offers it (see `shim.commands.start`).
"""

from __future__ import annotations

import time

from shim.api import sandbox as api
from shim.api.types import Metric, Platform, Status
from shim.api.wellknown import Timestamp
from shim.task.errors import deadline_exceeded, not_found
from shim.ttrpc.server import Call, Method

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from shim.task.context import ShimContext
    from shim.task.pod import Pod
    from shim.task.task import Task

SANDBOX = "containerd.runtime.sandbox.v1.Sandbox"

READY = "SANDBOX_READY"
NOT_READY = "SANDBOX_NOTREADY"
# How long StopSandbox waits for the exit if the request has no timeout.
STOP_TIMEOUT = 20.0
# How long the client of ShutdownSandbox has to close its connection.
DISCONNECT_TIMEOUT = 1.0
EMPTY = b""


class SandboxService:
    def __init__(self, pod: Pod, context: ShimContext) -> None:
        self._pod = pod
        self._context = context
        self._created_at: Timestamp | None = None

    def methods(self, guarded: Callable[[str, Callable[[Call], bytes]], Callable[[Call], bytes]]) -> dict[str, Method]:
        """`guarded` turns the exceptions of a handler into statuses."""
        inline = {"WaitSandbox": self.wait, "SandboxStatus": self.status, "PingSandbox": self.ping}
        worker = {
            "CreateSandbox": self.create,
            "StartSandbox": self.start,
            "Platform": self.platform,
            "StopSandbox": self.stop,
            "ShutdownSandbox": self.shutdown,
            "SandboxMetrics": self.metrics,
        }
        methods = {name: Method.inline(guarded(name, handler)) for name, handler in inline.items()}
        methods.update((name, Method.worker(guarded(name, handler))) for name, handler in worker.items())
        return methods

    def create(self, call: Call) -> bytes:
        from shim.task.create import create_sandbox

        request = api.CreateSandboxRequest.decode(call.payload)
        self._require_own_id(request.sandbox_id)
        create_sandbox(self._context, request, self._pod)
        return EMPTY

    def start(self, call: Call) -> bytes:
        task = self._sandbox(api.StartSandboxRequest.decode(call.payload).sandbox_id)
        task.start("")
        self._created_at = _now()
        return api.StartSandboxResponse(pid=self._pid(task), created_at=self._created_at).encode()

    def platform(self, call: Call) -> bytes:
        from shim.hcs_bindings.windows_version import windows_build
        from shim.task.sandbox_spec import sandbox_platform

        self._require_own_id(api.PlatformRequest.decode(call.payload).sandbox_id)
        system, architecture = sandbox_platform(self._context)
        version = f"10.0.{windows_build()}" if system == "windows" else ""
        answer = Platform(os=system, architecture=architecture, os_version=version)
        return api.PlatformResponse(platform=answer).encode()

    def stop(self, call: Call) -> bytes:
        request = api.StopSandboxRequest.decode(call.payload)
        task = self._sandbox(request.sandbox_id)
        self._pod.stop_sandbox()
        timeout = float(request.timeout_secs) or STOP_TIMEOUT
        if not task.init.done.wait(timeout):
            raise deadline_exceeded(f"sandbox {task.id!r} is still being torn down after {timeout:.0f} s; try again")
        return EMPTY

    def wait(self, call: Call) -> bytes:
        init = self._sandbox(api.WaitSandboxRequest.decode(call.payload).sandbox_id).init

        def answer() -> None:
            call.reply(api.WaitSandboxResponse(exit_status=init.exit_status, exited_at=init.exited_at).encode())

        deferred = call.defer(lambda: init.reported.remove_callback(answer))
        init.reported.add_callback(answer)
        return deferred

    def status(self, call: Call) -> bytes:
        request = api.SandboxStatusRequest.decode(call.payload)
        task = self._sandbox(request.sandbox_id)
        info = {}
        if request.verbose:
            info = {"isolation": "process" if task.vm is None else "hypervisor", "tasks": " ".join(self._pod.workloads)}
        return api.SandboxStatusResponse(
            sandbox_id=task.id,
            pid=self._pid(task),
            state=READY if task.init.status == Status.RUNNING else NOT_READY,
            info=info,
            created_at=self._created_at,
            exited_at=task.init.exited_at,
        ).encode()

    def ping(self, call: Call) -> bytes:
        self._sandbox(api.PingRequest.decode(call.payload).sandbox_id)
        return EMPTY

    def shutdown(self, call: Call) -> bytes:
        """All resources are released before the response: containerd then removes the bundle, and the ledger with it.

        The client closes the connection: it may report an error if the connection closes right after a response.
        """
        self._require_own_id(api.ShutdownSandboxRequest.decode(call.payload).sandbox_id)
        deferred = call.defer()
        try:
            self._pod.stop_all()
        finally:
            self._context.release_bundle()
            call.reply(EMPTY)
            call.connection.wait_end(DISCONNECT_TIMEOUT)
            self._context.request_shutdown(False)
        return deferred

    def metrics(self, call: Call) -> bytes:
        from shim.task.stats import collect

        task = self._sandbox(api.SandboxMetricsRequest.decode(call.payload).sandbox_id)
        data = collect.stats(task) if task.vm is not None else collect.no_stats()
        return api.SandboxMetricsResponse(metrics=Metric(timestamp=_now(), id=task.id, data=data)).encode()

    def _pid(self, task: Task) -> int:
        """CRI names the namespaces of a Linux pod by this pid, which is one of the guest. Other sandboxes have no
        process: it is the shim's."""
        if task.vm is not None and task.vm.guest.sandbox_is_container:
            return task.init.pid
        return self._context.pid

    def _sandbox(self, id: str) -> Task:
        self._require_own_id(id)
        return self._pod.task(id)

    def _require_own_id(self, id: str) -> None:
        if id != self._context.id:
            raise not_found(f"this shim serves sandbox {self._context.id!r}; sandbox {id!r}")


def _now() -> Timestamp:
    seconds, nanos = divmod(time.time_ns(), 1_000_000_000)
    return Timestamp(seconds=seconds, nanos=nanos)

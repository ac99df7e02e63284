"""Diagnostics of a running shim: Microsoft's ShimDiag service, and our own `Inspect`.

    containerd.runhcs.v1.diag.ShimDiag    DiagExecInHost, DiagTasks, DiagShare, DiagPid, DiagStacks
    runhcs.inspect.v1.Inspect             Shim: everything at once, as JSON, for `runhcs ps`, `inspect` and `gc`
                                          Record: send what the shim does to `runhcs record`

All methods run in worker threads, so that a shim whose other calls hang still answers. The module is imported with the
first such call.

DiagExecInHost runs a program where the containers run: in the utility VM as SYSTEM, or, for containers without a VM, on
the host with the rights of the shim. This gives no new rights: any client that can connect to the shim (its own user,
root) can run programs with them in a container already. The process belongs to no task: it has no events, and is killed
when its call ends, also when the caller disconnects.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from time import perf_counter_ns

from shim import spans, threads
from shim.api import shimdiag as api
from shim.api.inspect import InspectRequest, InspectResponse, RecordRequest, RecordResponse
from shim.api.types import Status
from shim.container.process_document import is_absolute_in_container
from shim.hcs_bindings.errors import HcsError
from shim.platform import diagnostic_process, host
from shim.task.diagnostics import stacks
from shim.task.errors import failed_precondition, invalid_argument
from shim.task.process import Process
from shim.task.signals import SIGKILL
from shim.task.stats.vm_messages import working_set
from shim.task.stdio.process_io import open_stdio
from shim.threads import run_soon
from shim.version import VERSION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from shim.task.context import ShimContext
    from shim.task.interfaces import HcsProcess
    from shim.task.pod import Pod
    from shim.task.task import Task
    from shim.ttrpc.server import Call
    from shim.uvm.vm import Vm

    Handler = Callable[[Pod, ShimContext, Call], bytes]

EXEC_ID = "diagnostics"
GUEST_STACKS_SECONDS = 5.0
PROPERTIES_SECONDS = 5.0
STACKS_SUPPORTED = "DumpStacksSupported"
# The names of Microsoft's shim.
_STATES = {Status.CREATED: "created", Status.RUNNING: "running", Status.PAUSED: "paused", Status.STOPPED: "exited"}


def pid(pod: Pod, context: ShimContext, call: Call) -> bytes:
    return api.PidResponse(pid=context.pid).encode()


def tasks(pod: Pod, context: ShimContext, call: Call) -> bytes:
    """The tasks, and with `execs` their execs; the init is the task itself."""
    request = api.TasksRequest.decode(call.payload)
    answer = []
    for task in pod.tasks():
        execs = task.processes()[1:] if request.execs else []
        answer.append(
            api.Task(id=task.id, execs=[api.Exec(id=one.exec_id, state=_STATES[one.status]) for one in execs])
        )
    return api.TasksResponse(tasks=answer).encode()


def all_stacks(pod: Pod, context: ShimContext, call: Call) -> bytes:
    """The stacks of the shim, which need no other component, and of the guest, with a timeout. If the guest has none,
    the text says why."""
    own = stacks.all_threads(threads.current_pod())
    vm = pod.vm
    return api.StacksResponse(stacks=own, guest_stacks=_guest_stacks(vm) if vm is not None else "").encode()


def log_stacks(pod: Pod, context: ShimContext) -> None:
    """Write the stacks to the log, in the words of Microsoft's shim, which dumps goroutines: collectors search for
    them. Requested by a capture-state of the ETW provider."""
    context.log.info("goroutine stack dump", tid=context.id, stack=stacks.all_threads(threads.current_pod()))
    vm = pod.vm
    if vm is not None:
        context.log.info("guest stack dump", tid=context.id, stack=_guest_stacks(vm))


def _guest_stacks(vm: Vm) -> str:
    if vm.has_exited:
        return "(no guest stacks: the VM has exited)"
    if not vm.gcs.supports(STACKS_SUPPORTED):
        return "(no guest stacks: this guest does not support it)"
    try:
        return vm.gcs.stacks(GUEST_STACKS_SECONDS)
    except HcsError as error:
        return f"(no guest stacks: {error})"


def share(pod: Pod, context: ShimContext, call: Call) -> bytes:
    """Share a directory or file of the host with the VM, until the VM exits."""
    request = api.ShareRequest.decode(call.payload)
    pod.task(context.id)
    vm = pod.vm
    if vm is None or vm.has_exited:
        raise failed_precondition(f"{context.id!r} has no running utility VM to share {request.host_path!r} with")
    linux = vm.guest.os_type == "linux"
    if not (request.uvm_path.startswith("/") if linux else is_absolute_in_container(request.uvm_path)):
        example = "/shared" if linux else "C:\\shared"
        raise invalid_argument(f"uvm_path is {request.uvm_path!r}: give an absolute path in the VM, such as {example}")
    if not host.exists(request.host_path):
        raise invalid_argument(f"host_path is {request.host_path!r}, which is not on this host: give one that is")
    lease = vm.shares.add(os.path.realpath(request.host_path), read_only=request.read_only)
    try:
        vm.guest.map_directory(lease, request.uvm_path, request.read_only)
    except BaseException:
        lease.release()
        raise
    paths = {"host-path": request.host_path, "uvm-path": request.uvm_path}
    context.log.info("path shared with utility VM", **{"uvm-id": vm.id}, **paths)
    return api.ShareResponse().encode()


# Processes outside of containers.


def exec_in_host(pod: Pod, context: ShimContext, call: Call) -> bytes:
    request = api.ExecProcessRequest.decode(call.payload)
    if not request.args or not request.args[0]:
        raise invalid_argument("args names no program to run")
    if request.terminal and request.stderr:
        raise failed_precondition("a terminal has no error stream of its own; leave stderr empty")
    pod.task(context.id)
    vm = pod.vm
    if vm is not None and vm.has_exited:
        raise failed_precondition(f"the VM of {context.id!r} has exited; nothing can run in it")
    io = open_stdio(
        request.stdin, request.stdout, request.stderr, request.terminal,
        namespace=context.namespace, id=context.id, exec_id=EXEC_ID, log=context.log,
    )  # fmt: skip

    owner = _DiagnosticOwner(vm, request, io.requested_pipes())
    process = Process(context.id, EXEC_ID, context.bundle, io, {}, owner, context.log)
    process.start()
    where = {"uvm-id": vm.id} if vm is not None else {}
    context.log.info("diagnostic process started", pid=process.pid, program=request.args[0], **where)

    def answer() -> None:
        status = process.exit_status
        code = status - (1 << 32) if status & 0x80000000 else status
        call.reply(api.ExecProcessResponse(exit_code=code).encode())

    def cancelled() -> None:
        process.done.remove_callback(answer)
        run_soon(_kill, process)

    deferred = call.defer(cancelled)
    process.done.add_callback(answer)
    return deferred


class _DiagnosticOwner:
    """The `ProcessOwner` of a process that belongs to no task: it has no events and no container."""

    __slots__ = ("_pipes", "_request", "_vm")

    def __init__(self, vm: Vm | None, request: api.ExecProcessRequest, pipes: dict[str, bool]) -> None:
        self._vm = vm
        self._request = request
        self._pipes = pipes

    def create_process(self, process: Process) -> HcsProcess:
        request = self._request
        if self._vm is not None:
            return _run_in_vm(self._vm, request, self._pipes)
        try:
            return diagnostic_process.start(request.args, request.workdir, **self._pipes, terminal=request.terminal)
        except OSError as error:
            raise invalid_argument(f"{request.args[0]!r} cannot be run on the host: {error}") from error

    def console_event_for(self, signal: int) -> str | int | None:
        return None

    def publish_started(self, process: Process) -> None:
        pass

    def stop_container(self) -> None:
        pass

    def process_exited(self, process: Process) -> None:
        pass


def _run_in_vm(vm: Vm, request: api.ExecProcessRequest, pipes: dict[str, bool]) -> HcsProcess:
    from shim.uvm.gcs.connection import THE_VM
    from shim.uvm.gcs.process import VmProcess

    parameters = vm.guest.command_parameters(request.args, request.workdir)
    if request.terminal:
        parameters["EmulateConsole"] = True
    keys = {"stdin": "CreateStdInPipe", "stdout": "CreateStdOutPipe", "stderr": "CreateStdErrPipe"}
    parameters.update((keys[name], True) for name, is_needed in pipes.items() if is_needed)
    return VmProcess(vm, THE_VM, parameters)


def _kill(process: Process) -> None:
    """The caller has closed its connection."""
    try:
        process.kill(SIGKILL)
    except Exception:
        pass  # it has exited


def record(pod: Pod, context: ShimContext, call: Call) -> bytes:
    if context.record is not None:
        context.record(RecordRequest.decode(call.payload).address)
    return RecordResponse().encode()


# Inspect.


def inspect(pod: Pod, context: ShimContext, call: Call) -> bytes:
    request = InspectRequest.decode(call.payload)
    vm = pod.vm
    found = {
        "version": VERSION,
        "pid": context.pid,
        "namespace": context.namespace,
        "id": context.id,
        "is_sandbox": context.is_sandbox,
        "bundle": context.bundle,
        "address": context.address,
        "debug": context.debug,
        "hcs": os.environ.get("HCS_EMULATOR_DIR", ""),
        "options": context.options_type,
        "scope": context.scope,
        "tasks": [_task(task, request.properties, request.stats) for task in pod.tasks()],
        "creating": pod.creating(),
        "events": {"queued": context.publisher.queued, "dropped": context.publisher.dropped},
        "in_flight": _in_flight(),
        "vm": None if vm is None else _vm(vm, request.properties, request.stats),
    }
    if request.properties:
        found["allocated_blocks"] = _allocated_blocks()
    return InspectResponse(json=json.dumps(found)).encode()


def _allocated_blocks() -> int:
    """What Python's allocator has in use, without garbage: it grows only if the shim keeps something. The memory of the
    process also depends on fragmentation."""
    gc.collect()
    return sys.getallocatedblocks()


def _task(task: Task, properties: bool, stats: bool) -> dict[str, object]:
    init, *execs = task.processes()
    found: dict[str, object] = {
        "id": task.id,
        "bundle": task.bundle,
        "is_pod_member": task.is_pod_member,
        "isolation": task.container.isolation,
        "deleted": task.deleted,
        **_process(init),
        "execs": [{"id": one.exec_id, **_process(one)} for one in execs],
    }
    if properties:
        found["properties"] = _query(lambda: task.container.system.properties(timeout=PROPERTIES_SECONDS))
    if stats and init.status == Status.RUNNING:
        found["stats"] = _query(lambda: _task_stats(task))
    return found


def _in_flight() -> list[dict[str, object]]:
    """Calls in progress; only if spans are recorded."""
    now = perf_counter_ns()
    pods, own = threads.pods(), threads.current_pod()
    return [
        {
            "name": root.name.removeprefix(spans.RPC),
            "task": root.task,
            "exec": root.exec,
            "seconds": (now - root.begin) / 1e9,
        }
        for root in spans.open_roots()
        if root.name != spans.RPC + "Shim" and pods.get(root.thread, "") == own
    ]


def _process(process: Process) -> dict[str, object]:
    exited = process.status == Status.STOPPED
    return {
        "state": process.state_name,
        "pid": process.pid,
        "exit_status": process.exit_status if exited else None,
        "terminal": process.terminal,
        **process.streams,
    }


def _task_stats(task: Task) -> dict[str, int]:
    """In the form of HCS, or of the guest of a Linux container."""
    document = task.container.statistics(PROPERTIES_SECONDS) or {}
    if task.container.is_linux:
        usage = (document.get("cpu") or {}).get("usage") or {}
        memory = (document.get("memory") or {}).get("usage") or {}
        return {"cpu_ns": usage.get("total", 0), "memory_bytes": memory.get("usage", 0)}
    processor, memory = document.get("Processor") or {}, document.get("Memory") or {}
    return {
        "cpu_ns": processor.get("TotalRuntime100ns", 0) * 100,
        "memory_bytes": memory.get("MemoryUsagePrivateWorkingSetBytes", 0),
    }


def _vm_stats(vm: Vm) -> dict[str, int]:
    document = vm.properties("Statistics", "Memory", timeout=PROPERTIES_SECONDS)
    memory = (document.get("Memory") or {}).get("VirtualMachineMemory") or {}
    processor = (document.get("Statistics") or {}).get("Processor") or {}
    return {
        "cpu_ns": processor.get("TotalRuntime100ns", 0) * 100,
        "memory_bytes": working_set(memory, vm.settings.physically_backed),
    }


def _vm(vm: Vm, properties: bool, stats: bool) -> dict[str, object]:
    found: dict[str, object] = {
        "id": vm.id,
        "runtime_id": vm.runtime_id,
        "is_gone": vm.has_exited,
        "namespace": vm.namespace,
        "settings": {name: getattr(vm.settings, name, None) for name in ("processors", "memory_mb")},
    }
    if properties:
        found["properties"] = _query(lambda: vm.properties(timeout=PROPERTIES_SECONDS))
    if stats and not vm.has_exited:
        found["stats"] = _query(lambda: _vm_stats(vm))
    return found


def _query(properties: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The properties, or the error."""
    try:
        return properties()
    except Exception as error:
        return {"error": str(error)}


HANDLERS: dict[str, Handler] = {
    "DiagExecInHost": exec_in_host,
    "DiagStacks": all_stacks,
    "DiagTasks": tasks,
    "DiagShare": share,
    "DiagPid": pid,
    "Shim": inspect,
    "Record": record,
}

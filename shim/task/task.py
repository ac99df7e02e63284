"""One container as the task API sees it: an init process, any number of execs, and their common exit path.

`Task` is the `ProcessOwner` of its processes; the diagram in `shim.task.process` shows who calls whom. Whatever stops
the init (its exit, a kill before the start, a failed start, the exit of the container) leads to `process_exited`, once,
in a thread:

    _prepare_stop          no exec can be added any more; write the exit record, terminate the execs, sample stats
    container.teardown
    execs                  wait until they are done; they publish their exits
    _publish_exit          the exit of the init; Wait and Delete continue after that

When a child process holds the stdio of a killed init open, `stop_container` runs `_prepare_stop` earlier and stops the
container, while the rest of the output is awaited.
"""

from __future__ import annotations

import time
from _thread import allocate_lock

from shim.api.types import Status
from shim.task import exit_record
from shim.task.errors import (
    already_exists,
    deadline_exceeded,
    failed_precondition,
    has_no_stats,
    is_not_supported,
    not_found,
    unimplemented,
)
from shim.task.one_shot import OneShotEvent
from shim.task.process import CALL_TIMEOUT, LOST_EXIT_TIMEOUT, NOT_STARTED_EXIT, Process
from shim.task.signals import SIGKILL, console_event
from shim.threads import run_parallel, run_soon

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from shim.api.task import CreateTaskRequest
    from shim.logs import Log
    from shim.task.events.task_events import TaskEvents
    from shim.task.interfaces import Container, Document, HcsProcess, ProcessIO
    from shim.uvm.vm import Vm

# For a query of properties, which HCS normally answers at once.
PROPERTIES_TIMEOUT = 10.0
# How long Delete waits for the teardown. containerd's clients retry after an error.
DELETE_TIMEOUT = 30.0
# How long terminated execs have to exit before the teardown stops them.
EXEC_EXIT_TIMEOUT = 5.0
# After the teardown no process runs; only exit notifications can be missing.
EXIT_NOTIFICATION_TIMEOUT = 3.0
# How long the init's exit waits for the last output of its execs.
EXEC_DRAIN_TIMEOUT = 10.0
# STATUS_COMMITMENT_LIMIT: the exit code of a process that exceeds its container's memory limit. Windows reports no
# such event; CRI calls the container OOMKilled if we publish it.
COMMITMENT_LIMIT = 0xC000012D
# The exit code of a Linux process that SIGKILL has ended.
KILLED_EXIT = 128 + SIGKILL


class Task:
    def __init__(
        self,
        id: str,
        bundle: str,
        container: Container,
        parameters: Document,
        io: ProcessIO,
        events: TaskEvents,
        log: Log,
        *,
        is_pod_member: bool = False,
        vm: Vm | None = None,
        console_event_for: Callable[[int], str | int | None] = console_event,
    ) -> None:
        """`parameters` are those of the init process. `vm` is the utility VM that belongs to this task alone."""
        self.id = id
        self.bundle = bundle
        self.container = container
        self.is_pod_member = is_pod_member
        self.vm = vm
        self.deleted = False
        #: As `ProcessOwner` has it: what a signal stands for.
        self.console_event_for = console_event_for
        #: How long output of this task waits for a reader that closed its end; 0 is without limit.
        self.io_retry_seconds = 0
        #: The container's memory limit in bytes, from Create or the last Update; 0 is no limit.
        self.memory_limit = 0
        self._events = events
        self._log = log
        self._lock = allocate_lock()
        self._stopping = False
        self._execs: dict[str, Process] = {}
        #: The last stats from HCS, for Stats calls after the exit: the container's, and those of the task's own VM. One
        #: value, since other threads read it at any time.
        self.last_stats: tuple[Document | None, Document | None] = (None, None)
        #: `last_stats` will not change any more.
        self.stats_final = OneShotEvent()
        self.last_processes: list[Document] = []
        #: Of a Linux container: how many processes its guest's kernel has killed for want of memory; None: unknown.
        self._oom_kills: int | None = None
        self.init = Process(id, id, bundle, io, parameters, self, log)

    def publish_created(self, request: CreateTaskRequest) -> None:
        self._events.publish_created(request)
        self._log.info("task created", tid=self.id, bundle=self.bundle)

    def watch_container(self) -> None:
        """From now on the exit of the container stops the task."""
        self.container.on_exit(self._container_exited)

    # Processes.

    def process(self, exec_id: str) -> Process:
        """The process of this exec id; "" and the task's own id mean the init."""
        if not exec_id or exec_id == self.id:
            return self.init
        process = self._execs.get(exec_id)
        if process is None:
            raise not_found(f"exec: '{exec_id}' in task: '{self.id}' not found")
        return process

    def processes(self) -> list[Process]:
        """The init and all execs."""
        with self._lock:
            return [self.init, *self._execs.values()]

    @property
    def _is_vm_sandbox(self) -> bool:
        """The sandbox of a pod in a VM, which has no container if the pod's containers are Windows ones."""
        return self.vm is not None and self.is_pod_member and not self.vm.guest.sandbox_is_container

    def start(self, exec_id: str) -> int:
        return self.process(exec_id).start()

    def check_exec(self, exec_id: str) -> None:
        """Refuse an exec that cannot be added, before its stdio is opened."""
        if self._is_vm_sandbox:
            raise unimplemented("WCOW Pod task should never issue exec: the sandbox is a VM without a container")
        if not exec_id or exec_id == self.id or exec_id in self._execs:
            raise already_exists(f"exec: '{exec_id}' in task: '{self.id}' already exists")
        self._require_running()

    def add_exec(self, exec_id: str, io: ProcessIO, parameters: Document) -> None:
        process = Process(self.id, exec_id, self.bundle, io, parameters, self, self._log)
        with self._lock:
            self.check_exec(exec_id)
            self._execs[exec_id] = process
            self._events.publish_exec_added(exec_id)

    def _require_running(self) -> None:
        if self._stopping or self.init.status != Status.RUNNING:
            raise failed_precondition(f"exec: '' in task: '{self.id}' must be running to create additional execs")

    # Signals.

    def kill(self, exec_id: str, signal: int, all_processes: bool) -> None:
        if all_processes and exec_id and self.is_pod_member:
            raise failed_precondition(f"cannot signal all with non empty ExecID: '{exec_id}'")
        process = self.process(exec_id)
        if all_processes and exec_id:
            raise failed_precondition(f"cannot signal all for non-empty exec: '{exec_id}'")
        if signal == SIGKILL and self.init.status == Status.PAUSED:
            # A process of a paused container may not exit before the container is resumed.
            self._try("resume paused container", self.resume)
        if all_processes:
            self._signal_execs(signal)
        process.kill(signal)

    def _signal_execs(self, signal: int) -> None:
        """In parallel, with one timeout, as `_terminate_execs`."""

        def deliver(process: Process) -> Callable[[], None]:
            def kill() -> None:
                try:
                    process.kill(signal)
                except Exception as error:
                    self._log.debug("failed to signal exec", tid=self.id, eid=process.exec_id, error=error)

            return kill

        run_parallel([deliver(process) for process in self.processes()[1:]], CALL_TIMEOUT)

    # Pause and resume.

    def pause(self) -> None:
        self._pause_or_resume(True)

    def resume(self) -> None:
        self._pause_or_resume(False)

    def _pause_or_resume(self, pause: bool) -> None:
        verb, required, call = ("pause", Status.RUNNING, self.container.system.pause) if pause else (
            "resume", Status.PAUSED, self.container.system.resume)  # fmt: skip
        if self.init.status != required:
            # Not a failed precondition: Microsoft's shim implements neither call, and answers so in any state.
            raise unimplemented(f"task {self.id!r} is {self.init.state_name}; it cannot {verb}")
        try:
            call()
        except Exception as error:
            if is_not_supported(error):
                raise unimplemented(f"HCS does not {verb} this kind of container ({error})") from error
            raise
        self.init.set_paused(pause)
        if pause:
            self._events.publish_paused()
        else:
            self._events.publish_resumed()

    # Delete and shutdown.

    def delete(self, exec_id: str, *, once: bool = False) -> Process:
        """`once`: a task that has been deleted is not found, as an exec. Otherwise its Delete can be repeated."""
        process = self.process(exec_id)
        if process.status in (Status.RUNNING, Status.PAUSED):
            raise process.in_wrong_state("delete", exec_id)
        process.stop_if_not_started(NOT_STARTED_EXIT if self._is_vm_sandbox else 0)  # as Microsoft's shim does
        if process.status != Status.STOPPED:  # started in the meantime
            raise process.in_wrong_state("delete", exec_id)
        if not process.wait_done(DELETE_TIMEOUT):
            raise deadline_exceeded(f"{process} is still being torn down after {DELETE_TIMEOUT:.0f} s; try again")
        with self._lock:
            if process is self.init:
                if once and self.deleted:  # a concurrent Delete was faster
                    raise not_found(f"task with id: '{self.id}' not found")
                self.deleted = True
                self._execs.clear()
            elif self._execs.pop(process.exec_id, None) is None:  # as well
                raise not_found(f"exec: '{exec_id}' in task: '{self.id}' not found")
            # Under the lock: who is told that it is not found may create it again.
            self._events.publish_deleted(process)
        if process is self.init:
            self._log.info("task deleted", **_exit_fields(process))
        return process

    def request_stop(self) -> None:
        """Terminate the task without waiting for its exit."""
        try:
            self.kill("", SIGKILL, False)
        except Exception as error:
            self._log.debug("task already stopped", tid=self.id, error=error)

    def _container_exited(self) -> None:
        """In a thread of the bindings, which must not block."""
        run_soon(self._mark_processes_lost)

    def _mark_processes_lost(self) -> None:
        _mark_lost(self.processes())

    # The owner of its processes.

    def create_process(self, process: Process) -> HcsProcess:
        if process.is_init:
            self.container.start()
        else:
            self._require_running()
        return self.container.create_process(process.parameters)

    def publish_started(self, process: Process) -> None:
        self._events.publish_started(process)
        self._log.info("task started" if process.is_init else "exec started", **process.log_fields())

    def stop_container(self) -> None:
        self._prepare_stop()
        self._try("stop container", self.container.stop)

    def process_exited(self, process: Process) -> None:
        if process.is_init:
            self._prepare_stop()
            self._try("tear down container", self.container.teardown)
            self._finish_execs()
            self._publish_exit(process)
        elif process.started:
            self._publish_exit(process)

    def _prepare_stop(self) -> None:
        """Once, while the container still exists: exit record, end of the execs, last stats."""
        with self._lock:
            if self._stopping:
                return
            self._stopping = True
            execs = list(self._execs.values())
        self._try("write exit record", self._record_exit)
        self._terminate_execs([process for process in execs if not process.stopped.is_set])
        _wait_all([process.stopped for process in execs], EXEC_EXIT_TIMEOUT)
        if self.init.started:
            self._try("sample the last stats", self._sample_last_stats)
        self.stats_final.set()

    def _terminate_execs(self, execs: list[Process]) -> None:
        """In parallel, with one timeout: HCS or a guest may not answer, and there may be many of them."""

        def terminate(process: Process) -> Callable[[], None]:
            return lambda: self._try("terminate exec", process.terminate_with_init)

        calls = [terminate(process) for process in execs]
        if len(calls) == 1:
            calls[0]()
        elif not run_parallel(calls, CALL_TIMEOUT):
            self._log.warning("not all execs could be terminated in time", tid=self.id, execs=len(execs))

    def _finish_execs(self) -> None:
        """The container is torn down: no exec runs any more. Wait until each has published its exit."""
        execs = self.processes()[1:]
        _wait_all([process.stopped for process in execs], EXIT_NOTIFICATION_TIMEOUT)
        _mark_lost(execs)
        # A child process that held their stdio open has exited with the container: only slow readers are left.
        _wait_all([process.done for process in execs], EXEC_DRAIN_TIMEOUT)

    def _publish_exit(self, process: Process) -> None:
        if self.container.is_linux:
            self._publish_linux_oom(process)
        # The job object of a host-process container reports that its limit was hit; any exit code may follow.
        elif process.exit_status == COMMITMENT_LIMIT or (process.exit_status != 0 and self.container.memory_breached):
            self._events.publish_oom()
        self._events.publish_exited(process)
        self._log.info("task exited" if process.is_init else "exec exited", **_exit_fields(process))

    def _publish_linux_oom(self, process: Process) -> None:
        """Guests report no such event. They count the processes that the kernel killed; where they do not, a process
        that was killed, and not by a client, counts as one."""
        if process.exit_status != KILLED_EXIT or process.stop_requested:
            return
        if not self._stopping:  # an exec, while the container runs
            self._try("read the number of OOM kills", self._sample_last_stats)
        if self._oom_kills is None:
            self._events.publish_oom()

    def _note_oom_kills(self, statistics: Document | None) -> None:
        """Publish an OOM event if there were more OOM kills than at the last time."""
        if not statistics or not self.container.is_linux:
            return
        from shim.task.stats.linux_messages import oom_kills

        kills = oom_kills(statistics)
        if kills is None:
            return
        with self._lock:
            before, self._oom_kills = self._oom_kills or 0, kills
        if kills > before:
            self._events.publish_oom()

    def _sample_last_stats(self) -> None:
        try:
            self.refresh_stats()
        except Exception as error:
            if not has_no_stats(error):  # a container or VM that exited by itself has none any more
                raise

    def _record_exit(self) -> None:
        init = self.init
        exit_record.write(self.bundle, init.exit_status, init.exited_at.seconds, init.exited_at.nanos, init.pid)

    def _try(self, what: str, step: Callable[[], object]) -> None:
        """One step of a stop. A failure is logged and does not prevent the next step."""
        try:
            step()
        except Exception as error:
            self._log.error(f"failed to {what}", tid=self.id, error=error)

    # Stats.

    def refresh_processes(self) -> list[Document]:
        answer = self.container.system.properties("ProcessList", timeout=PROPERTIES_TIMEOUT)
        self.last_processes = answer.get("ProcessList") or []
        return self.last_processes

    def refresh_stats(self) -> None:
        of_container = self.container.statistics(PROPERTIES_TIMEOUT)
        of_vm = None
        if self.vm is not None:
            of_vm = self.vm.properties("Statistics", "Memory", timeout=PROPERTIES_TIMEOUT)
        last_of_container, last_of_vm = self.last_stats
        self.last_stats = (of_container or last_of_container, of_vm or last_of_vm)
        self._note_oom_kills(of_container)


def _exit_fields(process: Process) -> dict[str, object]:
    return {**process.log_fields(), "exit-status": process.exit_status}


def _mark_lost(processes: list[Process]) -> None:
    deadline = time.monotonic() + LOST_EXIT_TIMEOUT
    for process in processes:
        process.mark_container_lost(deadline)


def _wait_all(events: list[OneShotEvent], timeout: float) -> None:
    """Wait for all events; the timeout is for all of them together."""
    deadline = time.monotonic() + timeout
    for event in events:
        event.wait(max(0.0, deadline - time.monotonic()))

"""One container as the task API sees it: an init process, any number of execs, and the end of all of them.

The end has one path. Whatever stops the init (its exit, a kill before the start, a failed start, the death of the
container) leads to `_init_ended`, once, in a thread: no exec may join any more and those that are left are put out;
last figures are taken; the container is torn down; the execs' exits are published, then the init's; then whoever waits
is released. Delete waits for that, for a while. The first half comes earlier for a killed init whose streams somebody
holds open (`_stop_all`): its container is stopped while its output is waited for.
"""

from __future__ import annotations

import time
from _thread import allocate_lock, start_new_thread

from shim.api.types import Status
from shim.task import exit_record
from shim.task.errors import (
    already_exists,
    deadline_exceeded,
    failed_precondition,
    not_found,
    refuses,
    unimplemented,
)
from shim.task.one_shot import Waiters
from shim.task.process import FORCED_EXIT, Process
from shim.task.signals import SIGKILL, console_event

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from shim.api.task import CreateTaskRequest
    from shim.logs import Log
    from shim.task.events.task_events import Announcer
    from shim.task.interfaces import Container, Document, HcsProcess, ProcessIO
    from shim.uvm.vm import Vm

# HCS answers a question at once, or is in trouble.
QUESTION_TIMEOUT = 10.0
# How long Delete waits for the teardown. containerd's clients try again after an error.
DELETE_TIMEOUT = 30.0
# How long the execs that are left get to end after they were killed, before the teardown takes them along.
EXPEL_TIMEOUT = 5.0
# After the teardown nothing runs any more; what is missing then are only notices.
NOTICE_TIMEOUT = 3.0
# How long the init's exit waits for the last output of its execs.
LAST_OUTPUT_TIMEOUT = 10.0
# STATUS_COMMITMENT_LIMIT: how a process ends that asked for more memory than its container may have. Windows tells
# nobody; CRI calls the container OOMKilled if we do.
COMMITMENT_LIMIT = 0xC000012D


class Task:
    def __init__(
        self,
        id: str,
        bundle: str,
        container: Container,
        parameters: Document,
        io: ProcessIO,
        announcer: Announcer,
        log: Log,
        *,
        is_pod_member: bool = False,
        vm: Vm | None = None,
        event_of: Callable[[int], str | None] = console_event,
    ) -> None:
        """`vm` is the utility VM that this task has to itself; `event_of` as in `Process`."""
        self.id = id
        self.bundle = bundle
        self.container = container
        self.is_pod_member = is_pod_member
        self.vm = vm
        self.deleted = False
        #: How long output of this task waits for a reader that went away; 0 is for ever.
        self.io_retry_seconds = 0
        #: Bytes of memory that the container may have, as it was made or last updated; 0 is no limit.
        self.memory_limit = 0
        self._event_of = event_of
        self._parameters = parameters
        self._announce = announcer
        self._log = log
        self._lock = allocate_lock()
        self._closing = False
        self._execs: dict[str, Process] = {}
        #: The latest figures from HCS, for questions that come when there is nothing left to ask.
        #: The container's, and those of the VM that it has to itself; one value, since they are asked for at any time.
        self.last_statistics: tuple[Document | None, Document | None] = (None, None)
        #: There will be no others.
        self.figures_are_last = Waiters()
        self.last_processes: list[Document] = []
        self.init = Process(id, id, bundle, io, log, self._launch_init, self._init_ended, event_of, self._stop_all)

    def publish_created(self, request: CreateTaskRequest) -> None:
        self._announce.created(request)

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
    def _is_only_a_vm(self) -> bool:
        """A pod's sandbox without a container."""
        return self.vm is not None and self.is_pod_member

    def start(self, exec_id: str) -> int:
        return self.process(exec_id).start(self._announce.started)

    def _launch_init(self) -> HcsProcess:
        self.container.start()
        return self.container.create_process(self._parameters)

    def check_exec(self, exec_id: str) -> None:
        """Refuse an exec that cannot be added, before anything is opened for it."""
        if self._is_only_a_vm:
            raise unimplemented("WCOW Pod task should never issue exec: the sandbox is a VM without a container")
        if not exec_id or exec_id == self.id or exec_id in self._execs:
            raise already_exists(f"exec: '{exec_id}' in task: '{self.id}' already exists")
        self._require_running()

    def add_exec(self, exec_id: str, io: ProcessIO, parameters: Document) -> None:
        def launch() -> HcsProcess:
            self._require_running()
            return self.container.create_process(parameters)

        process = Process(self.id, exec_id, self.bundle, io, self._log, launch, self._exec_ended, self._event_of)
        with self._lock:
            self.check_exec(exec_id)
            self._execs[exec_id] = process
            self._announce.exec_added(exec_id)

    def _require_running(self) -> None:
        if self._closing or self.init.status != Status.RUNNING:
            raise failed_precondition(f"exec: '' in task: '{self.id}' must be running to create additional execs")

    # Signals.

    def kill(self, exec_id: str, signal: int, everybody: bool) -> None:
        if everybody and exec_id and self.is_pod_member:
            raise failed_precondition(f"cannot signal all with non empty ExecID: '{exec_id}'")
        process = self.process(exec_id)
        if everybody and exec_id:
            raise failed_precondition(f"cannot signal all for non-empty exec: '{exec_id}'")
        if signal == SIGKILL and self.init.status == Status.PAUSED:
            # A frozen process may not die before it is thawed.
            self._attempt("resuming a paused container to end it", self.resume)
        if everybody:
            for member in self.processes()[1:]:
                try:
                    member.kill(signal)
                except Exception as error:
                    self._log.debug("exec not signalled", tid=self.id, eid=member.exec_id, error=error)
        process.kill(signal)

    # Pause and resume.

    def pause(self) -> None:
        self._freeze(True)

    def resume(self) -> None:
        self._freeze(False)

    def _freeze(self, pause: bool) -> None:
        verb, wanted, asked = ("pause", Status.RUNNING, self.container.system.pause) if pause else (
            "resume", Status.PAUSED, self.container.system.resume)  # fmt: skip
        if self.init.status != wanted:
            # Not a failed precondition: Microsoft's shim knows no such state, and to clients that is what it says.
            raise unimplemented(f"task {self.id!r} is {self.init.state_name}; it cannot {verb}")
        try:
            asked()
        except Exception as error:
            if refuses(error):
                raise unimplemented(f"HCS does not {verb} this kind of container ({error})") from error
            raise
        self.init.set_paused(pause)
        if pause:
            self._announce.paused()
        else:
            self._announce.resumed()

    # The end.

    def delete(self, exec_id: str) -> Process:
        process = self.process(exec_id)
        if process.status in (Status.RUNNING, Status.PAUSED):
            raise process.in_wrong_state("delete", exec_id)
        process.expel(FORCED_EXIT if self._is_only_a_vm else 0)  # as Microsoft's shim has it
        if process.status != Status.STOPPED:  # it was started in between
            raise process.in_wrong_state("delete", exec_id)
        if not process.is_over(DELETE_TIMEOUT):
            raise deadline_exceeded(f"{process} is still being torn down after {DELETE_TIMEOUT:.0f} s; try again")
        with self._lock:
            if process is self.init:
                self.deleted = True
                self._execs.clear()
            elif self._execs.pop(process.exec_id, None) is None:  # somebody else was faster
                raise not_found(f"exec: '{exec_id}' in task: '{self.id}' not found")
        self._announce.deleted(process)
        return process

    def end(self) -> None:
        """The shim is about to exit: begin the end of whatever is left, without waiting for it."""
        try:
            self.kill("", SIGKILL, False)
        except Exception as error:
            self._log.debug("nothing to end", tid=self.id, error=error)

    def _container_exited(self) -> None:
        """From a thread of the bindings, which is not to be held up."""
        start_new_thread(self._lose_processes, ())

    def _lose_processes(self) -> None:
        for process in self.processes():
            process.lose()

    def _exec_ended(self, process: Process) -> None:
        if process.started:
            self._announce_exit(process)

    def _announce_exit(self, process: Process) -> None:
        # A job of the host's own processes is told of its limit; what such a process ends with is its own affair.
        breached = process.exit_status != 0 and self.container.memory_breached
        if process.exit_status == COMMITMENT_LIMIT or breached:
            self._announce.out_of_memory()
        self._announce.exited(process)

    def _stop_all(self) -> None:
        self._close_down()
        self._attempt("stopping the container", self.container.stop)

    def _init_ended(self, init: Process) -> None:
        self._close_down()
        self._attempt("tearing down the container", self.container.teardown)
        execs = self.processes()[1:]
        _wait_for([process.stopped for process in execs], NOTICE_TIMEOUT)
        for process in execs:
            process.lose()
        # A child that held their streams open is gone with the container: this is the time that their clients take.
        _wait_for([process.done for process in execs], LAST_OUTPUT_TIMEOUT)
        self._announce_exit(init)

    def _close_down(self) -> None:
        """Once: what there is to do while there still is a container to ask."""
        with self._lock:
            if self._closing:
                return
            self._closing = True
            execs = list(self._execs.values())
        self._attempt("recording the exit", self._record_exit)
        for process in execs:
            self._attempt("ending an exec", process.put_out)
        _wait_for([process.stopped for process in execs], EXPEL_TIMEOUT)
        if self.init.started:
            self._attempt("taking the last figures", self.refresh_statistics)
        self.figures_are_last.release()

    def _record_exit(self) -> None:
        init = self.init
        exit_record.write(self.bundle, init.exit_status, init.exited_at.seconds, init.exited_at.nanos, init.pid)

    def _attempt(self, what: str, step: Callable[[], object]) -> None:
        """One step of an end: its failure is told, and does not keep the next from being taken."""
        try:
            step()
        except Exception as error:
            self._log.error(f"{what} failed", tid=self.id, error=error)

    # Figures.

    def refresh_processes(self) -> list[Document]:
        answer = self.container.system.properties("ProcessList", timeout=QUESTION_TIMEOUT)
        self.last_processes = answer.get("ProcessList") or []
        return self.last_processes

    def refresh_statistics(self) -> None:
        statistics = self.container.system.properties("Statistics", timeout=QUESTION_TIMEOUT).get("Statistics")
        of_vm = None
        if self.vm is not None:
            of_vm = self.vm.properties("Statistics", "Memory", timeout=QUESTION_TIMEOUT)
        of_container, before = self.last_statistics
        self.last_statistics = (statistics or of_container, of_vm or before)


def _wait_for(happenings: list[Waiters], timeout: float) -> None:
    """For all of them, no longer than this together."""
    deadline = time.monotonic() + timeout
    for one in happenings:
        one.wait(max(0.0, deadline - time.monotonic()))

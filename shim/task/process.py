"""One process of a container: its init, or an exec.

    created ───start───> running <───pause, resume───> paused
       │                    │
       │                    └── exit, kill, exit of the container ──────────┐
       └── kill, delete, failed start, exit of the container ───────────────┴──> stopped

Who calls whom, from HCS's exit notification to the answers of Wait and Delete (`owner` is the task):

    HCS's exit notification, in a thread of the bindings      kill or delete before the start, failed start,
        │                                                     lost exit notification, exit of the container
        └───────────────────────────┬────────────────────────────────────┘
                                    v
    Process._stop                      once: STOPPED, exit status and time; State returns them; `stopped` is set
                                    │  in a new thread
                                    v
    Process._drain_and_report
        ├── ProcessIO.drain            wait, bounded, for the rest of the output; owner.stop_container if a child
        │                              process holds the stdio of a killed init open
        ├── ProcessIO.close
        ├── owner.process_exited       an exec: publish TaskExit
        │                              the init: exit record, terminate the execs, last stats, tear the container
        │                              down, publish TaskExit of the execs, then its own
        ├── `reported` is set          Wait is answered
        ├── HcsProcess.close
        └── `done` is set              Delete continues

Two locks. `_start_lock` is held through a start, HCS calls included, and a kill waits for it, bounded. `_state_lock`
covers only the fields and is never held during a call, so that an exit can be recorded at any moment. State is answered
without a lock from bytes that each transition encodes.
"""

from __future__ import annotations

import time
from _thread import allocate_lock

from shim.api.task import StateResponse, WaitResponse
from shim.api.types import Status
from shim.api.wellknown import Timestamp
from shim.spans import EXIT, attribute, span, task_span
from shim.task.errors import deadline_exceeded, failed_precondition, not_found
from shim.task.one_shot import OneShotEvent
from shim.threads import run_soon
from shim.ttrpc.status import StatusError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from shim.logs import Log
    from shim.task.interfaces import Document, HcsProcess, ProcessIO, ProcessOwner

# Until a process has exited: the exit status that clients read as unknown, and Go's zero time (an absent time would
# read as 1970).
NOT_EXITED = 255
ZERO_TIME = Timestamp(seconds=-62135596800)

# The exit status of a process that never ran, and of one whose exit notification was lost.
NOT_STARTED_EXIT = 1
UNKNOWN_EXIT = 0xFFFFFFFF

# The longest that one HCS call for a process may delay an RPC.
CALL_TIMEOUT = 30.0
# HCS may fail to close its pipes; the rest of the output is dropped then.
DRAIN_TIMEOUT = 1.0
# A kill that finds no running process should be followed by its exit notification; it is lost if not.
LOST_EXIT_TIMEOUT = 1.0

_STATE_NAMES = {Status.CREATED: "created", Status.RUNNING: "running", Status.STOPPED: "exited", Status.PAUSED: "paused"}


class Process:
    __slots__ = (
        "_bundle", "_deleting", "_hcs", "_io", "_killed", "_log", "_owner", "_start_lock", "_state_lock",
        "_stop_requested", "_task_id", "done", "exec_id", "exit_status", "exited_at", "is_init", "parameters", "pid",
        "reported", "started", "state_response", "status", "stopped", "terminal",
    )  # fmt: skip

    def __init__(
        self,
        task_id: str,
        exec_id: str,
        bundle: str,
        io: ProcessIO,
        parameters: Document,
        owner: ProcessOwner,
        log: Log,
    ) -> None:
        """`exec_id` is the task's own id for its init. `parameters` are HCS's, for `owner.create_process`."""
        self._task_id = task_id
        self._bundle = bundle
        self._io = io
        self._owner = owner
        self._log = log
        self._start_lock = allocate_lock()
        self._state_lock = allocate_lock()
        self._hcs: HcsProcess | None = None
        # The client stops the process or waits for its deletion, so it is not about to open the output.
        self._stop_requested = False
        # Terminated by SIGKILL, which is meant for its child processes too.
        self._killed = False
        # A client waits for its deletion, and no longer reads the output.
        self._deleting = False
        self.parameters = parameters
        self.exec_id = exec_id
        self.is_init = exec_id == task_id
        self.terminal = io.terminal
        self.status = Status.CREATED
        self.pid = 0
        self.started = False
        self.exit_status = NOT_EXITED
        self.exited_at = ZERO_TIME
        #: The process has exited; its output may not have drained yet.
        self.stopped = OneShotEvent()
        #: The exit is drained and published, and for an init the container is torn down.
        self.reported = OneShotEvent()
        #: The same, and no handle is held any more.
        self.done = OneShotEvent()
        self.state_response = b""
        self._encode_state()

    def __str__(self) -> str:
        return f"exec: '{self.exec_id}' in task: '{self._task_id}'"

    def in_wrong_state(self, operation: str, exec_id: str | None = None) -> StatusError:
        """The error for an operation that this state does not allow, with the id that the request had."""
        shown = self.exec_id if exec_id is None else exec_id
        return failed_precondition(
            f"exec: '{shown}' in task: '{self._task_id}' is in invalid state: '{self.state_name}' for {operation}"
        )

    @property
    def state_name(self) -> str:
        return _STATE_NAMES[self.status]

    @property
    def stop_requested(self) -> bool:
        """A client has stopped it, or the shim has with its container."""
        return self._stop_requested

    @property
    def streams(self) -> dict[str, str]:
        """The paths and URIs that the client gave."""
        return {"stdin": self._io.stdin, "stdout": self._io.stdout, "stderr": self._io.stderr}

    def wait_response(self) -> bytes:
        return WaitResponse(exit_status=self.exit_status, exited_at=self.exited_at).encode()

    # Start and stop.

    def start(self) -> int:
        """Create the process in HCS and publish the start, before its exit can be seen. A failure stops it for good."""
        self._acquire_start_lock()
        try:
            if self.status != Status.CREATED:
                raise self.in_wrong_state("start")
            hcs: HcsProcess | None = None
            try:
                with span("launch"):
                    hcs = self._owner.create_process(self)
                with span("stdio"):
                    self._io.attach(hcs)
            except BaseException:
                if hcs is not None:
                    self._terminate_without_stdio(hcs)
                self._stop(NOT_STARTED_EXIT)
                raise
            with self._state_lock:
                self._hcs = hcs
                self.pid = hcs.pid
                self.started = True
                self.status = Status.RUNNING
                self._encode_state()
            self._owner.publish_started(self)
        finally:
            self._start_lock.release()
        hcs.on_exit(lambda exited: self._stop(exited.code))
        return hcs.pid

    def stop_if_not_started(self, status: int, timeout: float = CALL_TIMEOUT) -> bool:
        """Stop a created process with this exit status. False if it has been started (or has exited)."""
        self._acquire_start_lock(timeout)
        try:
            if self.status != Status.CREATED:
                return False
            self._stop(status)
            return True
        finally:
            self._start_lock.release()

    def kill(self, signal: int) -> None:
        """Deliver a signal without waiting for its effect."""
        self._acquire_start_lock()
        try:
            if self.status == Status.CREATED:
                self._stop(NOT_STARTED_EXIT)
                return
            hcs = self._hcs
            if self.status == Status.STOPPED or hcs is None:
                raise not_found(f"{self} not found")
            self._stop_requested = True
            event = self._owner.console_event_for(signal)
            if isinstance(event, str):
                # HcsSignalProcess may return only when the target has exited.
                run_soon(self._signal, hcs, event)
                return
            if event is None:
                self._killed = True
        finally:
            self._start_lock.release()
        if event is None:
            self._terminate(hcs)
        elif not hcs.signal({"Signal": event}):
            raise not_found(f"{self} not found")

    def _acquire_start_lock(self, timeout: float = CALL_TIMEOUT) -> None:
        if not self._start_lock.acquire(timeout=timeout):
            raise deadline_exceeded(f"{self} is being started, and HCS has not answered yet; try again")

    def terminate_with_init(self) -> None:
        """The init has exited: stop this exec too, in any state."""
        self._stop_requested = True
        if not self.stop_if_not_started(NOT_STARTED_EXIT, LOST_EXIT_TIMEOUT):
            hcs = self._hcs
            if hcs is not None and not self.stopped.is_set:
                self._killed = True
                self._terminate(hcs)

    def _terminate(self, hcs: HcsProcess) -> None:
        try:
            if not hcs.terminate(timeout=CALL_TIMEOUT):
                run_soon(self._stop_if_exit_is_lost, LOST_EXIT_TIMEOUT)
        except Exception:
            if not self.stopped.wait(LOST_EXIT_TIMEOUT):
                raise

    def mark_container_lost(self, deadline: float) -> None:
        """The container has exited. If no exit notification of the process follows until the deadline (monotonic
        seconds, one for all processes of the container), its exit status is unknown."""
        self._stop_requested = True
        try:
            if not self.stop_if_not_started(NOT_STARTED_EXIT, max(0.0, deadline - time.monotonic())):
                self._stop_if_exit_is_lost(max(0.0, deadline - time.monotonic()))
        except StatusError:
            self._log.warning("container exited while a process was being started in it", **self.log_fields())

    def wait_done(self, timeout: float) -> bool:
        """Wait until the exit is complete, for a client that no longer reads the output."""
        self._stop_requested = self._deleting = True
        return self.done.wait(timeout)

    def resize(self, width: int, height: int) -> None:
        if not self.terminal:
            raise failed_precondition(f"{self} is not a tty")
        hcs = self._hcs
        if self.status == Status.STOPPED or hcs is None:
            return  # nothing to resize, nothing lost
        size = {"Height": height & 0xFFFF, "Width": width & 0xFFFF}
        try:
            hcs.modify({"Operation": "ConsoleSize", "ConsoleSize": size}, timeout=CALL_TIMEOUT)
        except Exception:
            if not self.stopped.wait(LOST_EXIT_TIMEOUT):
                raise

    def close_stdin(self) -> None:
        self._io.close_stdin()

    def set_paused(self, paused: bool) -> None:
        with self._state_lock:
            if self.status in (Status.RUNNING, Status.PAUSED):
                self.status = Status.PAUSED if paused else Status.RUNNING
                self._encode_state()

    # Exit.

    def _stop(self, exit_code: int) -> None:
        """Record the exit, once. A new thread does the rest."""
        nanos = time.time_ns()
        with self._state_lock:
            if self.status == Status.STOPPED:
                return
            self.status = Status.STOPPED
            self.exit_status = exit_code & 0xFFFFFFFF
            self.exited_at = Timestamp(seconds=nanos // 1_000_000_000, nanos=nanos % 1_000_000_000)
            self._encode_state()
        self.stopped.set()
        run_soon(self._finish_exit)

    def _finish_exit(self) -> None:
        with task_span(EXIT, self._task_id, "" if self.is_init else self.exec_id):
            attribute("exit_status", self.exit_status)
            self._drain_and_report()

    def _drain_and_report(self) -> None:
        hcs, self._hcs = self._hcs, None
        try:
            with span("stdio"):
                # An exec that was killed does not stop its container.
                on_held_open = self._owner.stop_container if self._killed and self.is_init else None
                try:
                    if hcs is not None and not self._io.drain(
                        DRAIN_TIMEOUT,
                        waits_for_late_client=self._waits_for_late_client,
                        waits_for_reader=self._waits_for_reader,
                        on_held_open=on_held_open,
                    ):
                        self._log.warning("stdio drain timed out, output lost", **self.log_fields())
                finally:
                    self._io.close()
        except Exception as error:
            self._log.error("failed to close stdio", error=error, **self.log_fields())
        try:
            self._owner.process_exited(self)
        except Exception as error:
            self._log.error("failed to publish exit", error=error, **self.log_fields())
        self.reported.set()
        try:
            if hcs is not None:
                hcs.close()  # neither the event nor Wait depends on it
        except Exception as error:
            self._log.error("failed to close process handle", error=error, **self.log_fields())
        finally:
            self.done.set()

    def _waits_for_late_client(self) -> bool:
        """Whether a client may still be about to open the output."""
        return not self._stop_requested

    def _waits_for_reader(self) -> bool:
        """Whether a client that is connected may still want the output."""
        return not (self._killed or self._deleting)

    def _stop_if_exit_is_lost(self, timeout: float) -> None:
        if not self.stopped.wait(timeout):
            self._log.warning("no exit notification from HCS for a process that has exited", **self.log_fields())
            self._stop(UNKNOWN_EXIT)

    def _signal(self, hcs: HcsProcess, event: str) -> None:
        try:
            hcs.signal({"Signal": event})
        except Exception as error:
            if not self.stopped.is_set:
                self._log.warning("failed to deliver signal", signal=event, error=error, **self.log_fields())

    def _terminate_without_stdio(self, hcs: HcsProcess) -> None:
        """A process whose stdio could not be attached must not keep running."""
        try:
            hcs.terminate(timeout=CALL_TIMEOUT)
        except Exception as error:
            self._log.warning("failed to terminate a process without stdio", error=error, **self.log_fields())
        hcs.close()

    def _encode_state(self) -> None:
        io = self._io
        self.state_response = StateResponse(
            id=self._task_id,
            bundle=self._bundle,
            pid=self.pid,
            status=self.status,
            stdin=io.stdin,
            stdout=io.stdout,
            stderr=io.stderr,
            terminal=io.terminal,
            exit_status=self.exit_status,
            exited_at=self.exited_at,
            exec_id=self.exec_id,
        ).encode()

    def log_fields(self) -> dict[str, object]:
        """Under the names of Microsoft's shim, see https://github.com/microsoft/hcsshim/tree/main/internal/logfields."""
        fields: dict[str, object] = {"tid": self._task_id, "pid": self.pid}
        if not self.is_init:
            fields["eid"] = self.exec_id
        return fields

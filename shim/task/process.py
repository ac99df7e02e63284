"""One process of a container: its init, or an exec.

    created ──start──> running ──exit──> stopped
       └──────── killed, deleted, start failed, container gone ────────┘

Two locks. `_gate` is held through a start, HCS calls included, and a kill waits for it, within limits. `_state` covers
only the fields and is never held during a call, so that an exit can be noted at any moment. State is answered without
any lock from bytes that each transition leaves behind.

An exit comes in two steps. That the process is gone is known at once, from a thread of the bindings, and State says
so. What it wrote may still be on its way: a thread of its own lets the output drain (bounded), then hands over to the
task, which publishes the exit, tears down if this was the init, and only then releases whoever waits. A child that a
killed init has left behind holds its streams open: it is ended then, with everything in the container.
"""

from __future__ import annotations

import time
from _thread import allocate_lock, start_new_thread

from shim.api.task import StateResponse, WaitResponse
from shim.api.types import Status
from shim.api.wellknown import Timestamp
from shim.spans import span, task_span
from shim.task.errors import deadline_exceeded, failed_precondition, not_found
from shim.task.one_shot import Waiters
from shim.task.signals import console_event
from shim.ttrpc.status import StatusError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from shim.logs import Log
    from shim.task.interfaces import HcsProcess, ProcessIO

# Until a process has exited: the status that reads as "not known", and the zero time of Go (an absent time would read
# as 1970).
NOT_EXITED = 255
ZERO_TIME = Timestamp(seconds=-62135596800)

# What a process that never ran ends with, and one whose exit code nobody can tell any more.
FORCED_EXIT = 1
UNKNOWN_EXIT = 0xFFFFFFFF

# No single request to a process may hold up an RPC for longer.
CALL_TIMEOUT = 30.0
# HCS may fail to close its pipes; then the rest of the output is given up.
DRAIN_TIMEOUT = 1.0
# A kill that finds nothing to kill should be followed by the exit's notice; it has been lost if not.
LOST_EXIT_TIMEOUT = 1.0

_NAMES = {Status.CREATED: "created", Status.RUNNING: "running", Status.STOPPED: "exited", Status.PAUSED: "paused"}


class Process:
    __slots__ = (
        "_bundle", "_ended", "_event_of", "_forced", "_gate", "_hcs", "_io", "_killed", "_launch", "_log", "_state",
        "_take_along", "_task_id", "done", "exec_id", "exit_status", "exited_at", "is_init", "pid", "started",
        "state_answer", "status", "stopped", "terminal",
    )  # fmt: skip

    def __init__(
        self,
        task_id: str,
        exec_id: str,
        bundle: str,
        io: ProcessIO,
        log: Log,
        launch: Callable[[], HcsProcess],
        ended: Callable[[Process], None],
        event_of: Callable[[int], str | None] = console_event,
        take_along: Callable[[], None] | None = None,
    ) -> None:
        """`exec_id` is the task's own id for its init. `launch` runs it; `ended` is the task's part of its exit, called
        once, in a thread; `event_of` says which console event a signal is, None for termination. `take_along` ends
        everything that a process which was killed has left behind."""
        self._task_id = task_id
        self._bundle = bundle
        self._io = io
        self._log = log
        self._launch = launch
        self._ended = ended
        self._event_of = event_of
        self._take_along = take_along
        self._gate = allocate_lock()
        self._state = allocate_lock()
        self._hcs: HcsProcess | None = None
        self._forced = False  # made to end, or its end is being waited for: no time for who reads late
        self._killed = False  # by force, which whoever asked for it means for what it has started as well
        self.exec_id = exec_id
        self.is_init = exec_id == task_id
        self.terminal = io.terminal
        self.status = Status.CREATED
        self.pid = 0
        self.started = False
        self.exit_status = NOT_EXITED
        self.exited_at = ZERO_TIME
        #: The process is gone; what it wrote may not have arrived yet.
        self.stopped = Waiters()
        #: Everything about the exit is over: drained, reported, for an init also torn down.
        self.done = Waiters()
        self.state_answer = b""
        self._encode_state()

    def __str__(self) -> str:
        return f"exec: '{self.exec_id}' in task: '{self._task_id}'"

    def in_wrong_state(self, operation: str, exec_id: str | None = None) -> StatusError:
        """The refusal of an operation, with the id by which it was asked for."""
        shown = self.exec_id if exec_id is None else exec_id
        return failed_precondition(
            f"exec: '{shown}' in task: '{self._task_id}' is in invalid state: '{self.state_name}' for {operation}"
        )

    @property
    def state_name(self) -> str:
        return _NAMES[self.status]

    @property
    def streams(self) -> dict[str, str]:
        """Where its client said they are."""
        return {"stdin": self._io.stdin, "stdout": self._io.stdout, "stderr": self._io.stderr}

    def wait_answer(self) -> bytes:
        return WaitResponse(exit_status=self.exit_status, exited_at=self.exited_at).encode()

    # Life.

    def start(self, announce: Callable[[Process], None]) -> int:
        """Launch it and let the world know, before its exit can be noticed. A failure stops the process for good."""
        self._enter()
        try:
            if self.status != Status.CREATED:
                raise self.in_wrong_state("start")
            hcs: HcsProcess | None = None
            try:
                with span("launch"):
                    hcs = self._launch()
                with span("stdio"):
                    self._io.attach(hcs)
            except BaseException:
                if hcs is not None:
                    self._discard(hcs)
                self._stop(FORCED_EXIT)
                raise
            with self._state:
                self._hcs = hcs
                self.pid = hcs.pid
                self.started = True
                self.status = Status.RUNNING
                self._encode_state()
            announce(self)
        finally:
            self._gate.release()
        hcs.on_exit(lambda ended: self._stop(ended.code))
        return hcs.pid

    def expel(self, status: int, patience: float = CALL_TIMEOUT) -> bool:
        """End it if it never ran, with this status. False if it has been started (or has ended)."""
        self._enter(patience)
        try:
            if self.status != Status.CREATED:
                return False
            self._stop(status)
            return True
        finally:
            self._gate.release()

    def kill(self, signal: int) -> None:
        """Deliver a signal without waiting for its effect."""
        self._enter()
        try:
            if self.status == Status.CREATED:
                self._stop(FORCED_EXIT)
                return
            hcs = self._hcs
            if self.status == Status.STOPPED or hcs is None:
                raise not_found(f"{self} not found")
            self._forced = True
            event = self._event_of(signal)
            if event is not None:
                # HcsSignalProcess may return only when the target is dead.
                start_new_thread(self._signal, (hcs, event))
                return
            self._killed = True
        finally:
            self._gate.release()
        self._terminate(hcs)

    def _enter(self, patience: float = CALL_TIMEOUT) -> None:
        if not self._gate.acquire(timeout=patience):
            raise deadline_exceeded(f"{self} is being started, and HCS has not answered yet; try again")

    def put_out(self) -> None:
        """The init has gone: end this one too, whatever its state."""
        self._forced = True
        if not self.expel(FORCED_EXIT, LOST_EXIT_TIMEOUT):
            hcs = self._hcs
            if hcs is not None and not self.stopped.released:
                self._terminate(hcs)

    def _terminate(self, hcs: HcsProcess) -> None:
        try:
            if not hcs.terminate(timeout=CALL_TIMEOUT):
                start_new_thread(self._presume_dead, ())
        except Exception:
            if not self.stopped.wait(LOST_EXIT_TIMEOUT):
                raise

    def lose(self) -> None:
        """Its container is gone. If the exit does not follow, it is lost and its status with it."""
        self._forced = True
        try:
            if not self.expel(FORCED_EXIT, LOST_EXIT_TIMEOUT):
                self._presume_dead()
        except StatusError:
            self._log.warning("container gone while a process was being started in it", **self._fields())

    def is_over(self, timeout: float) -> bool:
        """Wait until everything about the exit is over, for somebody who is done with the process, and its output."""
        self._forced = True
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
        with self._state:
            if self.status in (Status.RUNNING, Status.PAUSED):
                self.status = Status.PAUSED if paused else Status.RUNNING
                self._encode_state()

    # The exit.

    def _stop(self, exit_code: int) -> None:
        """Note the exit, once, and see to the rest of it in a thread."""
        nanos = time.time_ns()
        with self._state:
            if self.status == Status.STOPPED:
                return
            self.status = Status.STOPPED
            self.exit_status = exit_code & 0xFFFFFFFF
            self.exited_at = Timestamp(seconds=nanos // 1_000_000_000, nanos=nanos % 1_000_000_000)
            self._encode_state()
        self.stopped.release()
        start_new_thread(self._finish, ())

    def _finish(self) -> None:
        with task_span("exit", self._task_id):
            self._come_to_rest()

    def _come_to_rest(self) -> None:
        hcs, self._hcs = self._hcs, None
        try:
            with span("stdio"):
                ends = self._take_along if self._killed else None
                if hcs is not None and not self._io.drain(
                    DRAIN_TIMEOUT, waits_for_late_client=self._is_patient, on_held_open=ends
                ):
                    self._log.warning("output was still on its way when its time was over", **self._fields())
                self._io.close()
        except Exception as error:
            self._log.error("closing the streams of a process that has exited", error=error, **self._fields())
        try:
            self._ended(self)
        except Exception as error:
            self._log.error("reporting an exit", error=error, **self._fields())
        try:
            if hcs is not None:
                hcs.close()  # nobody waits for that
        except Exception as error:
            self._log.error("closing a process that has exited", error=error, **self._fields())
        finally:
            self.done.release()

    def _is_patient(self) -> bool:
        return not self._forced

    def _presume_dead(self) -> None:
        if not self.stopped.wait(LOST_EXIT_TIMEOUT):
            self._log.warning("HCS has not reported the exit of a process that is gone", **self._fields())
            self._stop(UNKNOWN_EXIT)

    def _signal(self, hcs: HcsProcess, event: str) -> None:
        try:
            hcs.signal({"Signal": event})
        except Exception as error:
            if not self.stopped.released:
                self._log.warning("signal not delivered", signal=event, error=error, **self._fields())

    def _discard(self, hcs: HcsProcess) -> None:
        """A process whose streams could not be attached must not stay behind."""
        try:
            hcs.terminate(timeout=CALL_TIMEOUT)
        except Exception as error:
            self._log.warning("a process without its streams could not be ended", error=error, **self._fields())
        hcs.close()

    # Small things.

    def _encode_state(self) -> None:
        io = self._io
        self.state_answer = StateResponse(
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

    def _fields(self) -> dict[str, object]:
        return {"tid": self._task_id, "eid": self.exec_id, "pid": self.pid}

"""A process in a compute system.

`stdin`, `stdout` and `stderr` are handles of the operating system (file descriptors, or overlapped pipe handles on
Windows) for the requested pipes. The caller owns and closes them; closing the process handle
does not.
"""

from __future__ import annotations

from _thread import allocate_lock

from shim.hcs_bindings import errors, events, operation, timers
from shim.hcs_bindings._hcs_cffi import ffi
from shim.hcs_bindings.handle import Handle, NativeHandle
from shim.hcs_bindings.library import computecore
from shim.hcs_bindings.strings import NULL, dump, dump_optional, load_object, text
from shim.threads import run_soon

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from shim.hcs_bindings.events import Exit
    from shim.hcs_bindings.operation import ProcessInfo

    Document = dict[str, Any]

# HCS will not report an exit later than this after it has occurred.
LOST_EXIT_SECONDS = 1.0
# HcsSignalProcess may block until the target exits. The signal has been delivered by then: do not wait longer.
SIGNAL_SECONDS = 0.25
# Timeout of queries in the timer's thread.
QUERY_SECONDS = 10.0


class Process(Handle):
    __slots__ = ("pid", "stderr", "stdin", "stdout", "system_id")

    def __init__(
        self,
        system_id: str,
        pid: int,
        info: ProcessInfo | None,
        native: NativeHandle,
        subscription: events.Subscription,
    ) -> None:
        super().__init__(native, subscription)
        self.system_id = system_id
        self.pid = pid
        self.stdin = info.stdin if info else None
        self.stdout = info.stdout if info else None
        self.stderr = info.stderr if info else None

    def _name(self, verb: str) -> str:
        return f"hcs::Process::{verb} {self.system_id}:{self.pid}"

    @classmethod
    def create(cls, system: Any, system_id: str, parameters: Document, name: str, timeout: float | None) -> Process:
        """For ComputeSystem.create_process: `system` is the native handle, acquired by the caller."""
        document = dump(parameters)
        place = ffi.new("HCS_PROCESS *")
        try:
            info = _create(name, system, document, place, timeout)
        except BaseException:
            if place[0] != NULL:
                computecore.HcsCloseProcess(place[0])
            raise
        try:
            return cls._listen(system_id, info.pid, info, place[0], name)
        except BaseException:
            info.close()
            computecore.HcsCloseProcess(place[0])
            raise

    @classmethod
    def open(cls, system: Any, system_id: str, pid: int, name: str) -> Process:
        """For ComputeSystem.open_process. The creator of the process has its stdio handles; `info` returns new ones."""
        raw = _open(system, pid, name)
        try:
            return cls._listen(system_id, pid, None, raw, name)
        except BaseException:
            computecore.HcsCloseProcess(raw)
            raise

    @classmethod
    def _listen(cls, system_id: str, pid: int, info: ProcessInfo | None, raw: Any, name: str) -> Process:
        subscription = events.Subscription(f"hcs::Process {system_id}:{pid}", events.PROCESS_EXITED, _decode_exit)
        context = events.register(subscription)
        code = computecore.HcsSetProcessCallback(raw, 0, context, events.native_callback)
        if code < 0:
            subscription.release()
            raise errors.HcsError(code, name, detail="HcsSetProcessCallback failed")
        native = NativeHandle(raw, computecore.HcsCloseProcess, subscription)
        # It may have exited before we registered. HCS should report that too; query once, in the timer's thread.
        timers.after(LOST_EXIT_SECONDS, lambda: _poll_exit(native, subscription))
        return cls(system_id, pid, info, native, subscription)

    def info(self, timeout: float | None = None) -> ProcessInfo:
        """The process id and *new* stdio handles, which the caller closes."""
        name = self._name("Info")
        raw = self._native.acquire(name)
        try:
            return operation.run_for_process(name, lambda op: computecore.HcsGetProcessInfo(raw, op), timeout)
        finally:
            self._native.release()

    def properties(self, timeout: float | None = None) -> Document:
        """ProcessStatus: `Exited`, `ExitCode` …; absent members are zero."""
        document = self._run("Properties", lambda raw, op: computecore.HcsGetProcessProperties(raw, op, NULL), timeout)
        return load_object(document, self._name("Properties"))

    def modify(self, settings: Document, timeout: float | None = None) -> None:
        """Change the console's size or close the process's stdin (`Operation`: `ConsoleSize`, `CloseHandle`)."""
        document = dump(settings)
        self._run("Modify", lambda raw, op: computecore.HcsModifyProcess(raw, op, document), timeout)

    def signal(self, options: Document | None = None) -> bool:
        """Send a signal (`{"Signal": "CtrlC"}` …). False: the process had exited.

        HCS may respond only after the target has exited. So the call runs in a thread of its own; if it has not
        returned after SIGNAL_SECONDS, the signal counts as delivered, and the thread stays in the call.
        """
        document = dump_optional(options)
        outcome: list[errors.HcsError | None] = []
        done = allocate_lock()
        done.acquire()

        def send() -> None:
            try:
                self._run("Signal", lambda raw, op: computecore.HcsSignalProcess(raw, op, document))
                outcome.append(None)
            except errors.HcsError as error:
                outcome.append(error)
            done.release()

        run_soon(send)
        if done.acquire(timeout=SIGNAL_SECONDS) and (error := outcome[0]) is not None:
            if not errors.is_process_exited(error):
                raise error
            self._expect_exit()
            return False
        return True

    def terminate(self, timeout: float | None = None) -> bool:
        """Kill it. False: it had exited.

        HCS serializes signals per system handle and process, so a kill would wait behind a signal that blocks: it uses
        a second handle of the system.
        """
        name = self._name("Terminate")
        if self._native.closed:
            raise errors.AlreadyClosed(name)
        try:
            self._terminate_by_new_handle(name, timeout)
        except errors.HcsError as error:
            if errors.is_access_denied(error):  # TerminateProcess on an exited process
                return False
            if not errors.is_process_exited(error):
                raise
            self._expect_exit()
            return False
        return True

    def _terminate_by_new_handle(self, name: str, timeout: float | None) -> None:
        place = ffi.new("HCS_SYSTEM *")
        code = computecore.HcsOpenComputeSystem(text(self.system_id, name), operation.GENERIC_ALL, place)
        if code < 0:
            raise errors.HcsError(code, name)
        try:
            raw = _open(place[0], self.pid, name)
            try:
                operation.run(name, lambda op: computecore.HcsTerminateProcess(raw, op, NULL), timeout)
            finally:
                computecore.HcsCloseProcess(raw)
        finally:
            computecore.HcsCloseComputeSystem(place[0])

    def _expect_exit(self) -> None:
        """HCS reports that the process has exited: if the exit event does not follow soon, finish without it."""
        native, subscription = self._native, self._subscription
        timers.after(LOST_EXIT_SECONDS, lambda: _poll_exit(native, subscription, events.Exit(-1)))


def _create(name: str, system: Any, parameters: str, place: Any, timeout: float | None) -> ProcessInfo:
    """Start a process.

    For a process-isolated container the call may complete at once and leave an operation that cannot be waited for
    (seen on Server 2022), although the process exists. Only then query its information again: a short-lived process may
    have exited by now. If that fails too, the first error is the relevant one.
    """
    try:
        return operation.run_for_process(
            name, lambda op: computecore.HcsCreateProcess(system, parameters, op, NULL, place), timeout
        )
    except errors.HcsError:
        if place[0] == NULL:
            raise
        try:
            return operation.run_for_process(name, lambda op: computecore.HcsGetProcessInfo(place[0], op), timeout)
        except errors.HcsError:
            pass
        raise


def _open(system: Any, pid: int, name: str) -> Any:
    place = ffi.new("HCS_PROCESS *")
    code = computecore.HcsOpenProcess(system, pid, operation.GENERIC_ALL, place)
    if code < 0:
        raise errors.HcsError(code, name)
    return place[0]


def _poll_exit(native: NativeHandle, subscription: events.Subscription, otherwise: Exit | None = None) -> None:
    """Query HCS whether the process has exited, if that was not reported yet."""
    if subscription.exit is not None or native.closed:
        return
    name = subscription.name
    try:
        raw = native.acquire(name)
    except errors.AlreadyClosed:
        return
    try:
        document = operation.run(
            name, lambda op: computecore.HcsGetProcessProperties(raw, op, NULL), timeout=QUERY_SECONDS
        )
        status = load_object(document, name)
    except errors.HcsError:
        if otherwise is not None:
            subscription.finish(otherwise)
        return
    finally:
        native.release()
    if status.get("Exited"):
        subscription.finish(_exit_of(status))


def _decode_exit(data: str, name: str) -> Exit:
    try:
        return _exit_of(load_object(data, name))
    except errors.HcsError:
        return events.Exit(-1)


def _exit_of(status: Document) -> Exit:
    """From ProcessStatus. The exit code is valid only if HCS's own wait for the process succeeded."""
    if status.get("LastWaitResult"):
        return events.Exit(-1)
    code = status.get("ExitCode")
    return events.Exit((code if isinstance(code, int) else 0) & 0xFFFFFFFF)

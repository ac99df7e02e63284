"""A process in a VM: of one of its containers, or of the VM itself."""

from __future__ import annotations

from threading import Event

from shim.hcs_bindings import errors, timers
from shim.hcs_bindings.errors import NOT_SUPPORTED, OPERATION_TIMEOUT, HcsError
from shim.platform.exit_event import ExitEvent
from shim.platform.stdio_endpoints import close as close_handle
from shim.platform.stdio_endpoints import duplicate
from shim.threads import run_soon
from shim.uvm.gcs.connection import UNKNOWN_EXIT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from shim.platform.exit_event import Exit
    from shim.platform.hvsocket import Stream
    from shim.uvm.vm import Vm

    Document = dict[str, Any]

_PIPES = (("StdIn", "CreateStdInPipe"), ("StdOut", "CreateStdOutPipe"), ("StdErr", "CreateStdErrPipe"))
SIGNAL_SECONDS = 30.0
# If an init has not exited that long after it was terminated, its guest hangs. An exec counts as exited then.
KILL_SECONDS = 30.0


class VmProcess(ExitEvent):
    """Like `shim.hcs_bindings.process.Process`. Its streams are connections; whoever takes their handles sets them to
    None.

    The handle of stdin is a duplicate. Closing a connection may discard what the guest has not read yet, so the end of
    the input is a half close, and the connection stays open until the process is closed
    (https://github.com/microsoft/hcsshim/blob/main/internal/gcs/process.go).
    """

    def __init__(self, vm: Vm, container_id: str, parameters: Document) -> None:
        """Start it. `container_id` is a container's, or THE_VM."""
        super().__init__()
        self._vm = vm
        self._container_id = container_id
        self._exited = Event()
        self.on_exit(lambda _: self._exited.set())
        self._watched = False
        #: Of a container's init: if it does not exit when it is terminated, the guest hangs and the VM is terminated,
        #: whatever else runs in it.
        self.is_init = False
        self._stdin: Stream | None = None
        self.stdin: int | None = None
        self.stdout: int | None = None
        self.stderr: int | None = None
        listeners = vm.stdio.listen([name for name, member in _PIPES if parameters.get(member)])
        try:
            stdio = vm.guest.stdio_settings(listeners.services)
            self.pid = vm.gcs.execute(container_id, parameters, stdio)
            self._forget_exit = vm.gcs.on_process_exit(container_id, self.pid, self.finish)
            try:
                streams = listeners.accept()
            except BaseException:
                self._terminate_without_streams()
                raise
        finally:
            listeners.close()
        self._stdin = streams.pop("StdIn", None)
        if self._stdin is not None:
            self.stdin = duplicate(self._stdin.fileno())
        self.stdout, self.stderr = (
            streams[name].detach() if name in streams else None for name in ("StdOut", "StdErr")
        )

    def wait(self, timeout: float) -> Exit:
        if not self._exited.wait(timeout):
            raise HcsError(OPERATION_TIMEOUT, f"process {self.pid} in {self._vm.id}")
        assert self._exit is not None
        return self._exit

    def signal(self, options: Document) -> bool:
        """False: it had exited. A console event may take until the process has exited; a Linux signal does not."""
        return self._signal(options, SIGNAL_SECONDS if isinstance(options.get("Signal"), int) else None)

    def terminate(self, timeout: float | None = None) -> bool:
        """False: it had exited."""
        self._watch_exit_once()
        return self._signal(self._vm.guest.terminate_options, timeout)

    def _signal(self, options: Document | None, timeout: float | None) -> bool:
        try:
            self._vm.gcs.signal(self._container_id, self.pid, options, timeout)
        except HcsError as error:
            if errors.is_process_exited(error):
                return False
            raise
        return True

    def modify(self, settings: Document, timeout: float | None = None) -> None:
        operation = settings.get("Operation")
        if operation == "ConsoleSize":
            size = settings["ConsoleSize"]
            self._vm.gcs.resize(self._container_id, self.pid, size["Height"], size["Width"], timeout)
        elif operation == "CloseHandle":
            self._close_stdin()
        else:
            raise HcsError(NOT_SUPPORTED, f"modify process {self.pid} in {self._vm.id}", detail=str(operation))

    def _close_stdin(self) -> None:
        stream = self._stdin
        if stream is not None:
            try:
                stream.shutdown_write()
            except OSError:
                pass  # the guest, or `close`, has closed the connection

    def _watch_exit_once(self) -> None:
        with self._lock:
            if self._watched or self._exit is not None:
                return
            self._watched = True
        if self.is_init:
            run_soon(self._watch_exit)
        else:
            timers.after(KILL_SECONDS, self._end_watch)

    def _watch_exit(self) -> None:
        if not self._exited.wait(KILL_SECONDS):
            self._vm.terminate_unresponsive(self._did_not_exit())

    def _end_watch(self) -> None:
        """In the timer's thread. A guest that lets execs run for ever must not make the shim keep them."""
        if not self._exited.is_set():
            self._vm.warn(f"{self._did_not_exit()}: its exit is reported without a status")
            self._forget_exit()
            self.finish(UNKNOWN_EXIT)

    def _did_not_exit(self) -> str:
        return f"process {self.pid} of {self._container_id} did not exit {KILL_SECONDS:.0f} s after it was killed"

    def _terminate_without_streams(self) -> None:
        """It runs, but its output cannot be read."""
        try:
            self.terminate(KILL_SECONDS)
        except HcsError:
            pass  # its VM is exiting too

    def close(self) -> None:
        handles = (self.stdin, self.stdout, self.stderr)
        self.stdin = self.stdout = self.stderr = None
        for handle in handles:
            if handle is not None:
                close_handle(handle)
        stream, self._stdin = self._stdin, None
        if stream is not None:
            stream.close()
        if not self._watched:  # who terminated it waits for its exit
            self._forget_exit()

"""Processes in a VM: of its containers, and of the VM itself."""

from __future__ import annotations

from threading import Event, Thread

from shim.hcs_bindings import errors
from shim.hcs_bindings.errors import NOT_SUPPORTED, OPERATION_TIMEOUT, HcsError
from shim.platform.exit_event import ExitEvent
from shim.platform.stdio_endpoints import close as close_handle
from shim.uvm.windows.guest import THE_VM

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from shim.platform.exit_event import Exit
    from shim.uvm.vm import Vm

    Document = dict[str, Any]

_PIPES = (("StdIn", "CreateStdInPipe"), ("StdOut", "CreateStdOutPipe"), ("StdErr", "CreateStdErrPipe"))
# A process that was terminated and has not ended by then sits in a guest that hangs.
KILL_SECONDS = 30.0
# How long a tool that prepares something in the VM may run.
TOOL_SECONDS = 60.0
SYSTEM_USER = "NT AUTHORITY\\SYSTEM"


class VmProcess(ExitEvent):
    """As `shim.hcs_bindings.process.Process`. Its streams are connections; who takes their handles sets them to
    None."""

    def __init__(self, vm: Vm, container_id: str, parameters: Document) -> None:
        """Run it. `container_id` is a container's, or THE_VM."""
        super().__init__()
        self._vm = vm
        self._container_id = container_id
        self._exited = Event()
        self.on_exit(lambda _: self._exited.set())
        self._watched = False
        #: When it is told to die and does not, its guest hangs, and the VM is ended, whoever else lives in it.
        self.is_vital = False
        self.stdin: int | None = None
        self.stdout: int | None = None
        self.stderr: int | None = None
        awaited = vm.streams.listen([name for name, member in _PIPES if parameters.get(member)])
        try:
            self.pid = vm.guest.execute(container_id, parameters, awaited.services)
            vm.guest.on_process_exit(container_id, self.pid, self.finish)
            try:
                handles = awaited.accept()
            except BaseException:
                self._end_unheard()
                raise
        finally:
            awaited.close()
        self.stdin, self.stdout, self.stderr = (handles.get(name) for name, _ in _PIPES)

    # Its end.

    def wait(self, timeout: float) -> Exit:
        if not self._exited.wait(timeout):
            raise HcsError(OPERATION_TIMEOUT, f"process {self.pid} in {self._vm.id}")
        assert self._exit is not None
        return self._exit

    # Requests.

    def signal(self, options: Document) -> bool:
        """False: it had gone."""
        return self._signal(options, None)

    def terminate(self, timeout: float | None = None) -> bool:
        """End it by force. False: it had gone."""
        if self.is_vital:
            self._watch_death_once()
        return self._signal(None, timeout)

    def _signal(self, options: Document | None, timeout: float | None) -> bool:
        try:
            self._vm.guest.signal(self._container_id, self.pid, options, timeout)
        except HcsError as error:
            if errors.is_process_exited(error):
                return False
            raise
        return True

    def modify(self, settings: Document, timeout: float | None = None) -> None:
        operation = settings.get("Operation")
        if operation == "ConsoleSize":
            size = settings["ConsoleSize"]
            self._vm.guest.resize(self._container_id, self.pid, size["Height"], size["Width"], timeout)
        elif operation != "CloseHandle":  # whoever has a stream closes it, and the guest sees that
            raise HcsError(NOT_SUPPORTED, f"modify process {self.pid} in {self._vm.id}", detail=str(operation))

    def _watch_death_once(self) -> None:
        with self._lock:
            if self._watched or self._exit is not None:
                return
            self._watched = True
        Thread(target=self._watch_death, name=f"kill-watch:{self.pid}", daemon=True).start()

    def _watch_death(self) -> None:
        if not self._exited.wait(KILL_SECONDS):
            who = f"process {self.pid} of {self._container_id}"
            self._vm.abandon(f"{who} did not end {KILL_SECONDS:.0f} s after it was killed")

    def _end_unheard(self) -> None:
        """It runs, but nobody will ever hear it."""
        try:
            self.terminate(KILL_SECONDS)
        except HcsError:
            pass  # the VM that has it is on its way out too

    def close(self) -> None:
        handles = (self.stdin, self.stdout, self.stderr)
        self.stdin = self.stdout = self.stderr = None
        for handle in handles:
            if handle is not None:
                close_handle(handle)


def output_in_vm(vm: Vm, command_line: str, limit: int = 1 << 16, *, complaints: bool = False) -> tuple[int, str]:
    """Run a tool in the VM itself and wait for it; its exit code and what it said, up to `limit` bytes. With
    `complaints` that is what it said on its error stream."""
    from _socket import socket

    pipe = "CreateStdErrPipe" if complaints else "CreateStdOutPipe"
    parameters = {"CommandLine": command_line, "User": SYSTEM_USER, "WorkingDirectory": "C:\\", pipe: True}
    process = VmProcess(vm, THE_VM, parameters)
    handle = process.stderr if complaints else process.stdout
    assert handle is not None
    stream, process.stdout, process.stderr = socket(fileno=handle), None, None
    said = b""
    try:
        stream.settimeout(TOOL_SECONDS)
        while len(said) < limit and (more := stream.recv(4096)):
            said += more
        return process.wait(TOOL_SECONDS).code, said[:limit].decode("utf-8", "replace")
    except (HcsError, OSError):
        process.terminate(TOOL_SECONDS)
        raise
    finally:
        stream.close()
        process.close()


def run_in_vm(vm: Vm, command_line: str) -> int:
    """Run a tool in the VM itself, without streams, and wait for it; its exit code."""
    parameters = {"CommandLine": command_line, "User": SYSTEM_USER, "WorkingDirectory": "C:\\"}
    process = VmProcess(vm, THE_VM, parameters)
    try:
        return process.wait(TOOL_SECONDS).code
    except HcsError:
        process.terminate(TOOL_SECONDS)
        raise

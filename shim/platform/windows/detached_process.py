"""Start this program again as a detached process: a daemon as `start` sees it, or a standby."""

from __future__ import annotations

import _winapi
import nt
import sys
from _thread import allocate_lock, start_new_thread

from shim.platform.windows.daemon import DONE, READY, Startup, quote

# The death of a daemon is noticed at once; this is for one that hangs, or for an overloaded machine.
READY_TIMEOUT = 100.0

_DETACHED_PROCESS = 0x8
_NEW_PROCESS_GROUP = 0x200


def own_command() -> list[str]:
    """The command that starts this program again: the distribution's launcher, or Python with the module."""
    program = sys.executable
    if program.rpartition("\\")[2].lower().startswith("python"):
        return [program, "-m", "shim"]
    return [program]


class Child:
    """The daemon as `start` sees it, until the handover."""

    __slots__ = ("_from", "_process", "_to", "pid", "problem")

    def __init__(self, process: int, pid: int, to_it: int, from_it: int) -> None:
        self._process = process
        self._to = to_it
        self._from = from_it
        self.pid = pid
        self.problem = ""

    def send_input(self, data: bytes) -> None:
        """Send the content of stdin. `wait_ready` notices a child that does not read it."""

        def send() -> None:
            try:
                _winapi.WriteFile(self._to, len(data).to_bytes(4, "little") + data)
            except OSError:
                pass

        if len(data) < 2048:
            send()  # a pipe accepts this much without a reader
        else:
            try:
                start_new_thread(send, ())
            except (RuntimeError, MemoryError):
                send()

    def wait_ready(self) -> bool:
        """False if it died or hangs; then `problem` says which."""
        answer: list[bytes] = []
        answered = allocate_lock()
        answered.acquire()

        def read() -> None:
            try:
                answer.append(_winapi.ReadFile(self._from, 1)[0])
            except OSError:
                pass
            answered.release()

        try:
            start_new_thread(read, ())
        except (RuntimeError, MemoryError) as error:
            self.problem = f"cannot be waited for: {error}"
            return False
        if not answered.acquire(True, READY_TIMEOUT):
            self.problem = f"has not been ready within {READY_TIMEOUT:.0f} s"
        elif answer != [READY]:
            self.problem = "died as it started"
        return not self.problem

    def release(self) -> None:
        """Complete the handover: the daemon outlives `start`."""
        try:
            _winapi.WriteFile(self._to, DONE)
        except OSError:
            pass

    def close(self) -> None:
        for handle in (self._process, self._to, self._from):
            _winapi.CloseHandle(handle)

    def kill(self) -> None:
        try:
            _winapi.TerminateProcess(self._process, 1)
            _winapi.WaitForSingleObject(self._process, 5000)
        except OSError:
            pass


def spawn(arguments: list[str], directory: str, panic_log: int, *more: int) -> Child:
    """Start this program again, detached; it inherits two pipes, the panic log and `more` handles only."""
    their_input, our_output = _winapi.CreatePipe(None, 0)
    our_input, their_output = _winapi.CreatePipe(None, 0)
    given = (their_input, their_output, panic_log)
    try:
        for handle in (*given, *more):
            nt.set_handle_inheritable(handle, True)
        command = [*own_command(), *arguments]
        process, thread, pid, _ = _winapi.CreateProcess(
            command[0],
            quote(command),
            None,
            None,
            True,
            _DETACHED_PROCESS | _NEW_PROCESS_GROUP,
            None,  # type: ignore[arg-type]  # our own environment
            directory,
            Startup(*given, more=more),
        )
    except BaseException:
        _winapi.CloseHandle(our_input)
        _winapi.CloseHandle(our_output)
        raise
    finally:
        _winapi.CloseHandle(their_input)
        _winapi.CloseHandle(their_output)
        for handle in (panic_log, *more):
            nt.set_handle_inheritable(handle, False)
    _winapi.CloseHandle(thread)
    return Child(process, pid, our_output, our_input)

"""A process in a silo: its streams, its signals, and its exit code as Windows reports it."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import select
import signal
import struct
import termios
from collections.abc import Callable, Iterable

from hcs_emulator.service.silo.channel import Reply

E_ACCESS_DENIED = 0x80070005
E_FILE_NOT_FOUND = 0x80070002
E_NOT_ENOUGH_MEMORY = 0x80070008
E_BAD_EXE_FORMAT = 0x800700C1
E_DIRECTORY = 0x8007010B
E_NO_SUCH_USER = 0x80070525
E_INVALID_ARGUMENT = 0x80070057
E_TOO_LONG = 0x800700CE
E_FAIL = 0x80004005

STATUS_CONTROL_C_EXIT = 0xC000013A
STATUS_COMMITMENT_LIMIT = 0xC000012D
# The exit code of a process that HcsTerminateProcess has killed.
TERMINATED = 0xFFFFFFFF

# Console control events. Each terminates a program that has no handler for it, with STATUS_CONTROL_C_EXIT.
CONTROL_SIGNALS = {
    "CtrlC": signal.SIGINT,
    "CtrlBreak": signal.SIGQUIT,
    "CtrlClose": signal.SIGHUP,
    "CtrlLogOff": signal.SIGHUP,
    "CtrlShutdown": signal.SIGTERM,
}

_EXCEPTION_CODES = {
    signal.SIGSEGV: 0xC0000005,  # access violation
    signal.SIGBUS: 0xC0000006,  # in-page error
    signal.SIGILL: 0xC000001D,  # illegal instruction
    signal.SIGFPE: 0xC0000094,  # integer divided by zero
    signal.SIGABRT: 0xC0000409,  # fail fast
    signal.SIGTRAP: 0x80000003,  # breakpoint
    signal.SIGSYS: 0xC000001C,  # invalid system service
    signal.SIGXCPU: 0xC0000044,  # quota exceeded
    signal.SIGKILL: TERMINATED,
    signal.SIGINT: STATUS_CONTROL_C_EXIT,
    signal.SIGQUIT: STATUS_CONTROL_C_EXIT,
    signal.SIGHUP: STATUS_CONTROL_C_EXIT,
    signal.SIGTERM: STATUS_CONTROL_C_EXIT,
}


class LaunchError(Exception):
    """A compute system or a process could not be started."""

    def __init__(self, hresult: int, message: str) -> None:
        super().__init__(f"{message} (0x{hresult:08x})")
        self.hresult = hresult
        self.message = message


def launch_error(reply: Reply, program: str, directory: str, user: str) -> LaunchError:
    """Why a process did not start, as Windows reports it."""
    reason = os.strerror(reply.errno)
    if reply.stage == "user":
        return LaunchError(E_NO_SUCH_USER, f"the user name '{user}' is not known in the container")
    if reply.stage == "directory":
        return LaunchError(E_DIRECTORY, f"the working directory '{directory}' cannot be entered: {reason}")
    if reply.errno in (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG):
        return LaunchError(E_FILE_NOT_FOUND, f"the system cannot find the file specified: '{program}'")
    if reply.errno in (errno.EACCES, errno.EPERM):
        return LaunchError(E_ACCESS_DENIED, f"access to '{program}' is denied")
    if reply.errno == errno.ENOEXEC:
        return LaunchError(E_BAD_EXE_FORMAT, f"'{program}' is not a program that can run here")
    if reply.errno == errno.E2BIG:
        return LaunchError(E_TOO_LONG, "the command line or a variable is too long for a process")
    if reply.errno in (errno.EAGAIN, errno.ENOMEM):
        return LaunchError(E_NOT_ENOUGH_MEMORY, f"no resources for another process in the compute system: {reason}")
    return LaunchError(E_FAIL, f"starting '{program}' failed ({reply.stage}): {reason}")


def windows_exit_code(wait_status: int, exit_code: int) -> int:
    """The 32-bit exit code: the process's own, or the code of the exception that corresponds to a Linux signal."""
    if os.WIFSIGNALED(wait_status):
        return _EXCEPTION_CODES.get(signal.Signals(os.WTERMSIG(wait_status)), TERMINATED)
    return exit_code


class SiloProcess:
    """A running or exited process. It owns its descriptors: pass duplicates to others, and call `close` at the end.

    `stdin` stays open until `close_stdin`, even if the holder of a duplicate closes it: as with HCS, a process reads
    the end of its input only when both are closed.
    """

    def __init__(self, pid: int, send_signal: Callable[[int], bool], console: bool) -> None:
        self.pid = pid
        self.stdin: int | None = None
        self.stdout: int | None = None
        self.stderr: int | None = None
        self.console = console
        self.exited: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.killed = False
        self._master: int | None = None
        self._send_signal = send_signal

    def signal(self, name: str) -> bool:
        """Send a console control event to the process and those that share its console; False if it has exited."""
        return self._send_signal(CONTROL_SIGNALS[name])

    def signal_number(self, number: int) -> bool:
        """Send a signal by its Linux number."""
        return self._send_signal(number)

    def kill(self) -> bool:
        """Kill this process, as TerminateProcess does: not its children, and without a chance to clean up."""
        if self.exited.done():
            return False
        self.killed = True
        return self._send_signal(signal.SIGKILL)

    def resize(self, height: int, width: int) -> None:
        if self._master is None:
            raise ValueError("the process has no console")
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    def close_stdin(self) -> None:
        """Close the input. A console's input cannot be closed, so its end-of-file character is sent instead."""
        if self.stdin is None:
            return
        if self.console and not self.exited.done():
            attributes = termios.tcgetattr(self.stdin)
            writable = select.select([], [self.stdin], [], 0)[1]
            if attributes[3] & termios.ICANON and writable:
                os.write(self.stdin, attributes[6][termios.VEOF])
        os.close(self.stdin)
        self.stdin = None

    def close(self) -> None:
        """Close all streams."""
        for name in ("stdin", "stdout", "stderr", "_master"):
            descriptor = getattr(self, name)
            if descriptor is not None:
                os.close(descriptor)
                setattr(self, name, None)

    def attach_console(self, master: int, *, stdin: bool, stdout: bool) -> None:
        self._master = master
        self.stdin = os.dup(master) if stdin else None
        self.stdout = os.dup(master) if stdout else None

    def finish(self, code: int) -> None:
        """The process has exited. Its streams stay open: it may exit before they are handed out."""
        if not self.exited.done():
            self.exited.set_result(code)


async def request_shutdown(processes: Iterable[SiloProcess], timeout: float) -> None:
    """Send CtrlShutdown to every process, and wait for those that react to it."""
    signalled = list(processes)
    for process in signalled:
        process.signal("CtrlShutdown")
    if signalled:
        await asyncio.wait([process.exited for process in signalled], timeout=timeout)

"""A process of a job, started by the keeper: its streams, its console, its exit code as on Windows."""

from __future__ import annotations

import os
import signal

from shim.platform.exit_event import ExitEvent
from shim.platform.job_types import (
    ACCESS_DENIED,
    BAD_FORMAT,
    DIRECTORY,
    FILE_NOT_FOUND,
    GENERAL_FAILURE,
    LOGON_FAILURE,
    NOT_ENOUGH_MEMORY,
    TOO_LONG,
    JobError,
)
from shim.platform.linux.job_channel import AT_DIRECTORY, AT_USER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from shim.platform.job_types import Launch
    from shim.platform.linux.job_channel import Reply

    Document = dict[str, Any]

# Exit codes of a terminated process, and of one that hit the memory limit.
TERMINATED = 0xFFFFFFFF
COMMITMENT_LIMIT = 0xC000012D
_CONTROL_C_EXIT = 0xC000013A
# Console events as signals. Without a handler each terminates a program, as on Windows.
SIGNALS = {
    "CtrlC": signal.SIGINT,
    "CtrlBreak": signal.SIGQUIT,
    "CtrlClose": signal.SIGHUP,
    "CtrlLogOff": signal.SIGHUP,
    "CtrlShutdown": signal.SIGTERM,
}
_EXCEPTIONS = {
    signal.SIGSEGV: 0xC0000005,
    signal.SIGBUS: 0xC0000006,
    signal.SIGILL: 0xC000001D,
    signal.SIGFPE: 0xC0000094,
    signal.SIGABRT: 0xC0000409,
    signal.SIGTRAP: 0x80000003,
    signal.SIGKILL: TERMINATED,
    **dict.fromkeys(SIGNALS.values(), _CONTROL_C_EXIT),
}


def exit_code(wait_status: int, code: int) -> int:
    """The 32-bit exit code: the process's own, or the exception code for a signal."""
    if os.WIFSIGNALED(wait_status):
        return _EXCEPTIONS.get(os.WTERMSIG(wait_status), TERMINATED)  # type: ignore[call-overload, no-any-return]
    return code


def launch_error(reply: Reply, launch: Launch) -> JobError:
    """The Win32 error of a failed start."""
    import errno

    reason = os.strerror(reply.errno)
    if reply.stage == AT_USER:
        return JobError(LOGON_FAILURE, f"the container's user cannot be logged on: {reason}")
    if reply.stage == AT_DIRECTORY:
        return JobError(DIRECTORY, f"the working directory {launch.directory!r} cannot be entered: {reason}")
    code = {
        errno.ENOENT: FILE_NOT_FOUND,
        errno.ENOTDIR: FILE_NOT_FOUND,
        errno.EACCES: ACCESS_DENIED,
        errno.EPERM: ACCESS_DENIED,
        errno.ENOEXEC: BAD_FORMAT,
        errno.E2BIG: TOO_LONG,
        errno.EAGAIN: NOT_ENOUGH_MEMORY,
        errno.ENOMEM: NOT_ENOUGH_MEMORY,
    }.get(reply.errno, GENERAL_FAILURE)
    return JobError(code, f"{launch.program!r} cannot be started: {reason}")


class JobProcess(ExitEvent):
    def __init__(self, pid: int, send: Callable[[int], bool], streams: dict[str, int], console: int | None) -> None:
        super().__init__()
        self.pid = pid
        self.stdin: int | None = streams.get("stdin")
        self.stdout: int | None = streams.get("stdout")
        self.stderr: int | None = streams.get("stderr")
        #: Whether this shim has terminated it.
        self.killed = False
        self._console = console
        self._send = send

    def signal(self, options: Document) -> bool:
        return self._exit is None and self._send(SIGNALS[options["Signal"]])

    def terminate(self, timeout: float | None = None) -> bool:
        if self._exit is not None:
            return False
        self.killed = True
        return self._send(signal.SIGKILL)

    def modify(self, settings: Document, timeout: float | None = None) -> None:
        """Set the console's size, or end its input; a pipe needs no message for that."""
        with self._lock:
            if self._console is None:
                return
            if size := settings.get("ConsoleSize"):
                import fcntl
                import termios

                packed = b"".join(number.to_bytes(2, "little") for number in (size["Height"], size["Width"], 0, 0))
                fcntl.ioctl(self._console, termios.TIOCSWINSZ, packed)
            elif settings.get("Operation") == "CloseHandle":
                _send_end_of_file(self._console)

    def close(self) -> None:
        with self._lock:
            handles = {self.stdin, self.stdout, self.stderr, self._console}
            self.stdin = self.stdout = self.stderr = self._console = None
        for handle in handles:
            if handle is not None:
                os.close(handle)


def _send_end_of_file(console: int) -> None:
    """A console has no EOF: send the EOF character, if a program reads lines."""
    import select
    import termios

    attributes = termios.tcgetattr(console)
    if attributes[3] & termios.ICANON and select.select([], [console], [], 0)[1]:
        key = attributes[6][termios.VEOF]
        os.write(console, key if isinstance(key, bytes) else bytes([key]))

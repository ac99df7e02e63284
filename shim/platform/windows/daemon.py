"""From `start` to a daemon: a process of its own, spawned with `serve`, since Windows has no fork.

The two speak over the child's standard input and output, which are pipes:

    start -> daemon    u32 length and what came on start's own stdin, then D when the address has been handed over
    daemon -> start    R when the endpoint listens

The launcher's `start` (launcher/windows/start.c) has made the endpoint itself and does not wait: the daemon has no
standard output then.

A parent that dies in between leaves a child that reads the end of its input instead of D, and goes too: nobody else
knows of it. The child gets these pipes and the panic log and not one handle more; one of containerd's that it held
open would hold containerd up.
"""

from __future__ import annotations

import _winapi
import nt
import sys
from _thread import allocate_lock

from shim.platform.windows.files import environment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

    from shim.platform.windows.detached_process import Child as Child

#: No fork: `start` spawns `serve`.
FORKS = False
#: Where the system may say more about a process that died.
SYSTEM_LOG = "Windows' event log"
READY = b"R"
DONE = b"D"
HANDOVER_TIMEOUT = 30.0

_USE_STD_HANDLES = 0x100
_SYNCHRONIZE = 0x100000
_WAIT_TIMEOUT = 258


class Startup:
    """What `_winapi.CreateProcess` reads: the standard streams, which are all that is inherited, or none."""

    def __init__(self, *streams: int) -> None:
        self.dwFlags = _USE_STD_HANDLES if streams else 0
        self.wShowWindow = 0
        self.hStdInput, self.hStdOutput, self.hStdError = streams or (0, 0, 0)
        self.lpAttributeList = {"handle_list": list(streams)}


def quote(arguments: list[str]) -> str:
    """One command line, by the C runtime's rules."""
    words = []
    for argument in arguments:
        if argument and not any(char in argument for char in ' \t"'):
            words.append(argument)
            continue
        word, slashes = '"', 0
        for char in argument:
            if char == "\\":
                slashes += 1
                continue
            word += "\\" * (2 * slashes + 1 if char == '"' else slashes) + char
            slashes = 0
        words.append(word + "\\" * (2 * slashes) + '"')
    return " ".join(words)


def spawn(arguments: list[str], directory: str, panic_log: int) -> Child:
    """This program again, as a daemon."""
    from shim.platform.windows import detached_process

    return detached_process.spawn(arguments, directory, panic_log)


def leave_standby() -> None:
    """The daemon does, for which somebody waits less than for `start`: `standby_start`."""


def standby_door() -> str:
    """Where a standby listens, or should; "" if none is wanted. The launcher knows."""
    door = sys._xoptions.get("runhcs_standby")
    return door if isinstance(door, str) else ""


def neutral_directory() -> str:
    """Where a daemon lives: a current directory cannot be removed, so it must not be the bundle."""
    return environment("SYSTEMROOT") or "C:\\"


class Link:
    """The daemon's side of the two pipes; `is_awaited` if `start` waits for the word that the endpoint listens."""

    __slots__ = ("_is_awaited",)

    def __init__(self, is_awaited: bool) -> None:
        self._is_awaited = is_awaited

    def receive_input(self, limit: int) -> bytes:
        length = int.from_bytes(self.read_exactly(4), "little")
        if length > limit:
            raise OSError(8, "start has sent more than it may")
        return self.read_exactly(length)

    def read_exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = nt.read(0, size - len(data))
            if not piece:
                raise OSError(109, "start ended before it had said what is wanted")
            data += piece
        return data

    def say_ready(self) -> None:
        """The endpoint listens. `start` may be dead already: then `handed_over` hears it."""
        if not self._is_awaited:
            return
        try:
            nt.write(1, READY)
        except OSError:
            pass


    def handed_over(self) -> bool:
        try:
            return nt.read(0, 1) == DONE
        except OSError:
            return False
        finally:
            close_stdout()


def handed_over(link: Link) -> bool:
    """In the daemon: wait until `start` has printed the address. False if it died before."""
    return link.handed_over()


class Ending:
    """The word to end: given by any thread, waited for by the main thread."""

    __slots__ = ("_told", "now", "requested")

    def __init__(self) -> None:
        self.requested = False
        self.now = False
        self._told = allocate_lock()
        self._told.acquire()

    def request(self, now: bool = False) -> None:
        self.now = self.now or now
        self.requested = True
        try:
            self._told.release()
        except RuntimeError:
            pass  # told already

    def catch_signals(self) -> None:
        """A detached process has no console and so gets no control events; in the foreground Ctrl-C ends us."""

    def wait(self) -> None:
        while not self.requested:
            self._told.acquire(True, 3600.0)


def watch_faults(stacks: Callable[[], str]) -> None:
    """A crash of native code writes all threads' stacks to stderr. Windows has no signal to ask for them."""
    import faulthandler

    faulthandler.enable(2)


def own_pid() -> int:
    return nt.getpid()


def close_stdout() -> None:
    """Standard input and output lead nowhere from here on."""
    null = nt.open("NUL", nt.O_RDWR)
    nt.dup2(null, 0, False)
    nt.dup2(null, 1, False)
    if null > 2:
        nt.close(null)


def leave_bundle() -> None:
    """Let go of the panic log: Windows cannot remove a folder as long as a file of it, though deleted, is open. What
    goes wrong from here on is told by the log channel alone."""
    try:
        null = nt.open("NUL", nt.O_RDWR)
        nt.dup2(null, 2, False)
        nt.close(null)
    except OSError:
        pass  # no reason to stay


def exit_now(code: int) -> NoReturn:
    """Leave without the interpreter's clean-up, which takes longer than some commands and would trip over threads."""
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):
        pass
    nt._exit(code)  # type: ignore[attr-defined]
    raise AssertionError


def is_running(pid: int) -> bool:
    """Whether there is such a process."""
    try:
        process = _winapi.OpenProcess(_SYNCHRONIZE, False, pid)
    except OSError:
        return False
    try:
        return _winapi.WaitForSingleObject(process, 0) == _WAIT_TIMEOUT
    finally:
        _winapi.CloseHandle(process)

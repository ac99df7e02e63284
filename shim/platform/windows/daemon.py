"""From `start` to a daemon: `start` spawns `serve` as a new process, since Windows has no fork.

The two are connected by the child's stdin and stdout, which are pipes:

    start -> daemon    u32 length and the content of start's own stdin, then D when the address has been printed
    daemon -> start    R when the endpoint listens

The launcher's `start` (launcher/windows/start.c) has created the endpoint itself and does not wait: the daemon has
no stdout then.

If the parent dies in between, the child reads EOF instead of D and exits too: containerd does not know about it. The
child inherits these pipes and the panic log and no other handle: an inherited handle of containerd's would block
containerd.
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
    from typing import Any, NoReturn

    from shim.platform.windows.detached_process import Child as Child

#: No fork: `start` spawns `serve`.
FORKS = False
#: Where the system may log more about a process that died.
SYSTEM_LOG = "Windows' event log"
#: As on Linux, a thread that imports must not delay a response. But Python rounds the wait for the GIL down to whole
#: milliseconds on Windows: with less than one, threads that wait would spin.
SWITCH_INTERVAL = 0.001
#: A user may be created for a host process container.
CREATES_USERS = True
#: A file that is deleted while it is open stays in its directory, which cannot be removed.
OPEN_FILES_STAY = True
_is_limited = False
READY = b"R"
DONE = b"D"
HANDOVER_TIMEOUT = 30.0

# As in launcher/windows/launcher.c: no dialogs.
_ERROR_MODE = 0x8003  # SEM_FAILCRITICALERRORS, SEM_NOGPFAULTERRORBOX, SEM_NOOPENFILEERRORBOX
_USE_STD_HANDLES = 0x100
_SYNCHRONIZE = 0x100000
_WAIT_TIMEOUT = 258


class Startup:
    """STARTUPINFO for `_winapi.CreateProcess`: no other handles are inherited than the given ones."""

    def __init__(self, *streams: int, more: tuple[int, ...] = ()) -> None:
        """`more` handles are inherited, too."""
        self.dwFlags = _USE_STD_HANDLES if streams else 0
        self.wShowWindow = 0
        self.hStdInput, self.hStdOutput, self.hStdError = streams or (0, 0, 0)
        self.lpAttributeList = {"handle_list": [*streams, *more]}


def quote(arguments: list[str]) -> str:
    """One command line, quoted by the C runtime's rules."""
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


def spawn(arguments: list[str], directory: str, panic_log: int, *more: int) -> Child:
    """Start this program again, as a daemon. It inherits the panic log and `more` handles."""
    from shim.platform.windows import detached_process

    return detached_process.spawn(arguments, directory, panic_log, *more)


def start_standby() -> None:
    """Nothing to do: the daemon starts the standby (`standby_start`), so that containerd does not wait for it."""


def standby_path() -> str:
    """The pipe at which a standby listens; "" if standbys are off. The launcher passes it."""
    path = sys._xoptions.get("runhcs_standby")
    return path if isinstance(path, str) else ""


def neutral_directory() -> str:
    """A daemon's working directory. Not the bundle: Windows cannot remove a process's working directory."""
    return environment("SYSTEMROOT") or "C:\\"


class Link:
    """The daemon's side of the two pipes; `is_awaited` if `start` waits for READY."""

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
                raise OSError(109, "start ended before it had sent its input")
            data += piece
        return data

    def report_ready(self) -> None:
        """The endpoint listens. If `start` is dead already, `wait_for_handover` will notice."""
        if not self._is_awaited:
            return
        try:
            nt.write(1, READY)
        except OSError:
            pass

    def wait_for_handover(self) -> bool:
        try:
            return nt.read(0, 1) == DONE
        except OSError:
            return False
        finally:
            redirect_stdio_to_null()


def wait_for_handover(link: Link) -> bool:
    """In the daemon: wait until `start` has printed the address. False if it died before that."""
    return link.wait_for_handover()


class ShutdownRequest:
    """A request to shut down: made by any thread, waited for by the main thread."""

    __slots__ = ("_wake", "failed", "now", "requested")

    def __init__(self) -> None:
        self.requested = False
        self.now = False
        #: The daemon cannot do its work any more.
        self.failed = False
        self._wake = allocate_lock()
        self._wake.acquire()

    def request(self, now: bool = False) -> None:
        self.now = self.now or now
        self.requested = True
        try:
            self._wake.release()
        except RuntimeError:
            pass  # requested already

    def catch_signals(self) -> None:
        """Nothing to do: a detached process has no console; in the foreground Ctrl-C raises KeyboardInterrupt."""

    def wake(self) -> None:
        """Have the waiting thread call `woken`. From any thread."""
        try:
            self._wake.release()
        except RuntimeError:
            pass  # it will wake already

    def wait(self, woken: Callable[[], object]) -> None:
        while not self.requested:
            self._wake.acquire(True, 3600.0)
            if not self.requested:
                woken()


def enable_fault_handler(stacks: Callable[[], str]) -> None:
    """A crash in native code dumps all threads' stacks to stderr. Windows has no signal to request them."""
    import faulthandler

    faulthandler.enable(2)


def announce_and_load(announce: Callable[[], None]) -> None:
    """Call `announce` and load the libraries that every Create needs, in a thread of its own. The imports of Python
    modules and the response to a call need not wait for it: it holds the GIL for moments only."""
    from shim.threads import run_soon

    run_soon(_announce_and_load, announce)


def _announce_and_load(announce: Callable[[], None]) -> None:
    from shim.platform.hcs_library import hcs_library, system_library
    from shim.platform.windows._system_cffi import ffi

    announce()
    # cffi's dlopen holds the GIL, and a scanner may take its time for each file; a function is called without the GIL.
    kernel32: Any = ffi.dlopen(system_library("kernel32"))
    for name in ("computecore", "vmcompute"):
        kernel32.LoadLibraryExW(hcs_library(name), ffi.NULL, 0)  # a failure is reported by the call that needs it


def limit_fault_handler() -> None:
    """faulthandler also dumps for exceptions that RPC and COM raise and handle inside HCS; the launcher prevents that
    (launcher/windows/crash_filter.c). Called before a library of HCS is loaded, and not earlier: it needs cffi, for
    which the first response must not wait."""
    global _is_limited
    faulthandler = sys.modules.get("faulthandler")
    if _is_limited or faulthandler is None or not faulthandler.is_enabled():
        return
    _is_limited = True
    from shim.platform.windows._system_cffi import ffi

    try:
        launcher: Any = ffi.dlopen(sys.executable)
        launcher.report_unhandled_exceptions_only()
    except (OSError, AttributeError, ffi.error):
        pass  # python.exe, where the shim was installed by pip


def own_pid() -> int:
    return nt.getpid()


def redirect_stdio_to_null() -> None:
    """Redirect stdin and stdout to NUL."""
    null = nt.open("NUL", nt.O_RDWR)
    nt.dup2(null, 0, False)
    nt.dup2(null, 1, False)
    if null > 2:
        nt.close(null)


def release_bundle() -> None:
    """Close the panic log: Windows cannot remove a directory while a file in it, even a deleted one, is open. Later
    failures are reported by the log channel only."""
    try:
        null = nt.open("NUL", nt.O_RDWR)
        nt.dup2(null, 2, False)
        nt.close(null)
    except OSError:
        pass  # not worth failing for


def exit_now(code: int) -> NoReturn:
    """Exit without the interpreter's finalization, which takes longer than some commands and may crash in threads."""
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):
        pass
    nt._exit(code)  # type: ignore[attr-defined]
    raise AssertionError


def restore_error_mode() -> None:
    """Set the launcher's error mode again, when modules have been loaded.

    CPython sets a mode for the whole process while it loads an extension module, and then the one before
    (Python/dynload_win.c). If two threads load at the same time, the last one restores the mode of the other: a crash
    would open a dialog, and the process would not exit.
    """
    import msvcrt

    msvcrt.SetErrorMode(_ERROR_MODE)


def is_running(pid: int) -> bool:
    """Whether the process runs."""
    try:
        process = _winapi.OpenProcess(_SYNCHRONIZE, False, pid)
    except OSError:
        return False
    try:
        return _winapi.WaitForSingleObject(process, 0) == _WAIT_TIMEOUT
    finally:
        _winapi.CloseHandle(process)

"""A process of a job: started in it, so that it never is outside; watched, signalled, ended.

Console events have no call that reaches another console. A thread is started in the process, at the routine with
which Windows itself delivers them; system libraries are at the same address in every process of a boot.
"""

from __future__ import annotations

import _winapi
from _thread import start_new_thread

from shim.platform.exit_event import ExitEvent
from shim.platform.job_types import ACCESS_DENIED, EVENTS, JobError
from shim.platform.windows import job_pipes, stdio_pipes
from shim.platform.windows.job_library import check, close, failure, ffi, handle, library, number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from shim.platform.job_types import Launch

    Document = dict[str, Any]
    SignalTree = Callable[[int, str], bool]

TERMINATED = 0xFFFFFFFF
_USE_STD_HANDLES = 0x100
_UNICODE_ENVIRONMENT = 0x400
_EXTENDED_STARTUP = 0x80000
_BREAKAWAY = 0x1000000
_NO_WINDOW = 0x8000000
_JOB_LIST, _HANDLE_LIST, _PSEUDO_CONSOLE = 0x2000D, 0x20002, 0x20016
_INFINITE = 0xFFFFFFFF
# Create threads, operate on and write memory, query.
_TO_SIGNAL = 0x0002 | 0x0008 | 0x0020 | 0x0010 | 0x0400


class JobProcess(ExitEvent):
    def __init__(self, info: Any, streams: dict[str, int], console: Any, held: int, signal_tree: SignalTree) -> None:
        super().__init__()
        self.pid = int(info.ProcessId)
        self.stdin: int | None = streams.get("stdin")
        self.stdout: int | None = streams.get("stdout")
        self.stderr: int | None = streams.get("stderr")
        #: It was ended by force, by us.
        self.killed = False
        self._handle = number(info.Process)
        self._console = console
        self._held = held
        self._signal_tree = signal_tree
        start_new_thread(self._watch, ())

    def _watch(self) -> None:
        _winapi.WaitForSingleObject(self._handle, _INFINITE)
        with self._lock:
            console, self._console = self._console, None
        if console is not None:
            library("kernel32").ClosePseudoConsole(console)  # what it still has to show goes out, then the stream ends
            close(self._held)
        try:
            self.finish(_winapi.GetExitCodeProcess(self._handle) & 0xFFFFFFFF)
        finally:
            _winapi.CloseHandle(self._handle)  # nobody looks at it any more, and its id may be another's

    def signal(self, options: Document) -> bool:
        return self._exit is None and self._signal_tree(self.pid, options["Signal"])

    def terminate(self, timeout: float | None = None) -> bool:
        with self._lock:
            if self._exit is not None:
                return False
            self.killed = True
            try:
                _winapi.TerminateProcess(self._handle, TERMINATED)
            except PermissionError:
                return False  # it is ending
        return True

    def modify(self, settings: Document, timeout: float | None = None) -> None:
        """The console's size; the end of its input it sees when our end is closed."""
        size = settings.get("ConsoleSize")
        with self._lock:
            if size and self._console is not None:
                library("kernel32").ResizePseudoConsole(self._console, _coordinates(size["Height"], size["Width"]))

    def close(self) -> None:
        handles = {self.stdin, self.stdout, self.stderr}
        self.stdin = self.stdout = self.stderr = None
        for one in handles:
            if one is not None:
                _winapi.CloseHandle(one)


def spawn(job: Any, token: int, launch: Launch, signal_tree: SignalTree) -> JobProcess:
    """Start a process in the job. Raises JobError; nothing is left then."""
    ours: dict[str, int] = {}
    theirs: dict[str, int] = {}
    console: Any = None
    try:
        for name in ("stdin", "stdout", "stderr"):
            if getattr(launch, name) or (launch.console and name != "stderr"):
                ours[name], theirs[name] = job_pipes.make(name == "stdin")
        if launch.console:
            console = _make_console(launch.size, theirs)
        info = _create(job, token, launch, theirs, console)
    except BaseException as error:
        if console is not None:
            library("kernel32").ClosePseudoConsole(console)
        for one in ours.values():
            close(one)
        if isinstance(error, OSError):
            raise JobError(error.winerror or 0, str(error)) from error
        raise
    finally:
        for one in theirs.values():
            close(one)
    close(number(info.Thread))
    held = 0
    if launch.console:
        # A console whose input ends goes, and takes its programs along: one end of it stays open.
        held = stdio_pipes.duplicate(ours["stdin"])
        for name in ("stdin", "stdout"):
            if not getattr(launch, name):
                close(ours.pop(name))
    return JobProcess(info, ours, console, held, signal_tree)


def _create(job: Any, token: int, launch: Launch, streams: dict[str, int], console: Any) -> Any:
    kernel32 = library("kernel32")
    kept: list[Any] = [ffi.new("HANDLE[]", [job])]
    attributes = [(_JOB_LIST, kept[0], ffi.sizeof("HANDLE"))]
    startup = ffi.new("STARTUP *")
    startup.cb = ffi.sizeof("STARTUP")
    startup.Flags = _USE_STD_HANDLES
    if console is not None:
        attributes.append((_PSEUDO_CONSOLE, console, ffi.sizeof("HANDLE")))
    elif streams:
        handles = ffi.new("HANDLE[]", [handle(one) for one in streams.values()])
        kept.append(handles)
        attributes.append((_HANDLE_LIST, handles, ffi.sizeof(handles)))
        startup.StdInput, startup.StdOutput, startup.StdError = (
            handle(streams.get(name, 0)) for name in ("stdin", "stdout", "stderr")
        )
    size = ffi.new("size_t *")
    kernel32.InitializeProcThreadAttributeList(ffi.NULL, len(attributes), 0, size)
    room = ffi.new("char[]", size[0])
    check(kernel32.InitializeProcThreadAttributeList(room, len(attributes), 0, size), "no attributes of a process")
    try:
        for kind, value, length in attributes:
            result = kernel32.UpdateProcThreadAttribute(room, 0, kind, value, length, ffi.NULL, ffi.NULL)
            check(result, f"attribute {kind:#x} of a process cannot be set")
        startup.Attributes = room
        flags = _UNICODE_ENVIRONMENT | _EXTENDED_STARTUP | (0 if console is not None else _NO_WINDOW)
        try:
            return _call(token, launch, startup, flags | _BREAKAWAY, bool(streams) and console is None)
        except JobError as error:
            if error.code != ACCESS_DENIED:
                raise
        # A shim that is in a job itself which nobody may leave.
        return _call(token, launch, startup, flags, bool(streams) and console is None)
    finally:
        kernel32.DeleteProcThreadAttributeList(room)


def _call(token: int, launch: Launch, startup: Any, flags: int, inherit: bool) -> Any:
    variables = sorted(launch.environment.items(), key=lambda pair: pair[0].upper())
    block = ffi.new("char16_t[]", "".join(f"{name}={value}\0" for name, value in variables) + "\0")
    line = ffi.new("char16_t[]", launch.command_line)
    info = ffi.new("PROCESS_INFO *")
    program = launch.application or ffi.NULL
    rest = (program, line, ffi.NULL, ffi.NULL, int(inherit), flags, block, launch.directory, startup, info)
    if token:
        result = library("advapi32").CreateProcessAsUserW(handle(token), *rest)
    else:
        result = library("kernel32").CreateProcessW(*rest)
    check(result, f"{launch.command_line!r} cannot be started")
    return info


def _make_console(size: tuple[int, int], streams: dict[str, int]) -> Any:
    console = ffi.new("HANDLE *")
    code = library("kernel32").CreatePseudoConsole(
        _coordinates(*size), handle(streams["stdin"]), handle(streams["stdout"]), 0, console
    )
    if code < 0:
        raise JobError(code & 0xFFFF, f"no console can be made (0x{code & 0xFFFFFFFF:08X})")
    return console[0]


def _coordinates(height: int, width: int) -> int:
    """A COORD, which goes by value: columns, then rows."""
    return (width & 0x7FFF) | (height & 0x7FFF) << 16


def send_event(pid: int, event: str) -> bool:
    """False if it has gone."""
    kernel32 = library("kernel32")
    process = kernel32.OpenProcess(_TO_SIGNAL, 0, pid)
    if not process:
        return False
    try:
        thread = kernel32.CreateRemoteThread(process, ffi.NULL, 0, _routine(), handle(EVENTS[event]), 0, ffi.NULL)
        if not thread:
            if failure("").code == ACCESS_DENIED:  # it is ending
                return False
            raise failure(f"{event} cannot be sent to process {pid}")
        close(number(thread))
        return True
    finally:
        close(number(process))


def _routine() -> Any:
    kernel32 = library("kernel32")
    for name in ("kernel32.dll", "kernelbase.dll"):
        address = kernel32.GetProcAddress(kernel32.GetModuleHandleW(name), b"CtrlRoutine")
        if address:
            return address
    raise JobError(127, "this Windows does not say where console events are delivered")

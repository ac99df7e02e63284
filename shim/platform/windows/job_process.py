"""A process of a job: started inside the job, so that it never runs outside; watched, signalled, terminated.

No call sends console events to another console. So a thread is started in the process, at the routine with which
Windows itself delivers them; system libraries have the same address in every process of a boot.
"""

from __future__ import annotations

import _winapi

from shim.platform.exit_event import ExitEvent
from shim.platform.job_types import ACCESS_DENIED, EVENTS, JobError
from shim.platform.windows import job_pipes, stdio_pipes
from shim.platform.windows.job_library import check, close, failure, ffi, handle, library, number
from shim.threads import run_soon

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
_SIGNAL_ACCESS = 0x0002 | 0x0008 | 0x0020 | 0x0010 | 0x0400


class JobProcess(ExitEvent):
    def __init__(
        self, info: Any, streams: dict[str, int], console: Any, input_writer: int, signal_tree: SignalTree
    ) -> None:
        super().__init__()
        self.pid = int(info.ProcessId)
        self.stdin: int | None = streams.get("stdin")
        self.stdout: int | None = streams.get("stdout")
        self.stderr: int | None = streams.get("stderr")
        #: Whether this shim has terminated it.
        self.killed = False
        self._handle = number(info.Process)
        self._console = console
        self._input_writer = input_writer
        self._signal_tree = signal_tree
        run_soon(self._watch)

    def _watch(self) -> None:
        _winapi.WaitForSingleObject(self._handle, _INFINITE)
        with self._lock:
            console, self._console = self._console, None
        if console is not None:
            library("kernel32").ClosePseudoConsole(console)  # flushes its output, then the stream is at EOF
            close(self._input_writer)
        try:
            self.finish(_winapi.GetExitCodeProcess(self._handle) & 0xFFFFFFFF)
        finally:
            _winapi.CloseHandle(self._handle)  # not used any more; the pid may be reused

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
                return False  # it is exiting
        return True

    def modify(self, settings: Document, timeout: float | None = None) -> None:
        """Set the console's size. Its input ends when our end is closed."""
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
    """Start a process in the job. Raises JobError, and then leaves nothing behind."""
    ours: dict[str, int] = {}
    theirs: dict[str, int] = {}
    console: Any = None
    try:
        for name in ("stdin", "stdout", "stderr"):
            if getattr(launch, name) or (launch.console and name != "stderr"):
                ours[name], theirs[name] = job_pipes.create(name == "stdin")
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
    input_writer = 0
    if launch.console:
        # A console terminates with its programs when its input ends: keep one end open.
        input_writer = stdio_pipes.duplicate(ours["stdin"])
        for name in ("stdin", "stdout"):
            if not getattr(launch, name):
                close(ours.pop(name))
    return JobProcess(info, ours, console, input_writer, signal_tree)


def _create(job: Any, token: int, launch: Launch, streams: dict[str, int], console: Any) -> Any:
    kernel32 = library("kernel32")
    keep_alive: list[Any] = [ffi.new("HANDLE[]", [job])]
    attributes = [(_JOB_LIST, keep_alive[0], ffi.sizeof("HANDLE"))]
    startup = ffi.new("STARTUP *")
    startup.cb = ffi.sizeof("STARTUP")
    startup.Flags = _USE_STD_HANDLES
    if console is not None:
        attributes.append((_PSEUDO_CONSOLE, console, ffi.sizeof("HANDLE")))
    elif streams:
        handles = ffi.new("HANDLE[]", [handle(one) for one in streams.values()])
        keep_alive.append(handles)
        attributes.append((_HANDLE_LIST, handles, ffi.sizeof(handles)))
        startup.StdInput, startup.StdOutput, startup.StdError = (
            handle(streams.get(name, 0)) for name in ("stdin", "stdout", "stderr")
        )
    size = ffi.new("size_t *")
    kernel32.InitializeProcThreadAttributeList(ffi.NULL, len(attributes), 0, size)
    attribute_list = ffi.new("char[]", size[0])
    result = kernel32.InitializeProcThreadAttributeList(attribute_list, len(attributes), 0, size)
    check(result, "the attribute list of a process cannot be created")
    try:
        for kind, value, length in attributes:
            result = kernel32.UpdateProcThreadAttribute(attribute_list, 0, kind, value, length, ffi.NULL, ffi.NULL)
            check(result, f"attribute {kind:#x} of a process cannot be set")
        startup.Attributes = attribute_list
        flags = _UNICODE_ENVIRONMENT | _EXTENDED_STARTUP | (0 if console is not None else _NO_WINDOW)
        try:
            return _call(token, launch, startup, flags | _BREAKAWAY, bool(streams) and console is None)
        except JobError as error:
            if error.code != ACCESS_DENIED:
                raise
        # The shim is itself in a job without breakaway.
        return _call(token, launch, startup, flags, bool(streams) and console is None)
    finally:
        kernel32.DeleteProcThreadAttributeList(attribute_list)


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
    check(result, f"{launch.program!r} cannot be started")
    return info


def _make_console(size: tuple[int, int], streams: dict[str, int]) -> Any:
    console = ffi.new("HANDLE *")
    code = library("kernel32").CreatePseudoConsole(
        _coordinates(*size), handle(streams["stdin"]), handle(streams["stdout"]), 0, console
    )
    if code < 0:
        raise JobError(code & 0xFFFF, f"no console can be created (0x{code & 0xFFFFFFFF:08X})")
    return console[0]


def _coordinates(height: int, width: int) -> int:
    """A COORD by value: columns, then rows."""
    return (width & 0x7FFF) | (height & 0x7FFF) << 16


def send_event(pid: int, event: str) -> bool:
    """Send a console event. False if the process has exited."""
    kernel32 = library("kernel32")
    process = kernel32.OpenProcess(_SIGNAL_ACCESS, 0, pid)
    if not process:
        return False
    try:
        thread = kernel32.CreateRemoteThread(process, ffi.NULL, 0, _routine(), handle(EVENTS[event]), 0, ffi.NULL)
        if not thread:
            if failure("").code == ACCESS_DENIED:  # it is exiting
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
    raise JobError(127, "this Windows does not export CtrlRoutine")

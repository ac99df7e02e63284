"""The standby's side of its pipe: who asks, what they hand over, and becoming what they would have started.

`launcher/windows/standby.c` is the other side and says how the two agree. A spare takes over arguments, environment,
what came on stdin, and two handles that the launcher has put into this process: the shim's pipe and the panic log.
"""

from __future__ import annotations

import _winapi
import msvcrt
import nt
import os
import sys
from time import monotonic

from shim.platform.hcs_library import system_library
from shim.platform.windows import daemon, endpoint
from shim.platform.windows._system_cffi import ffi
from shim.platform.windows.daemon import quote
from shim.platform.windows.detached_process import own_command
from shim.platform.windows.pipe import PipeStream
from shim.platform.windows.security import administrators_only

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from shim.platform.windows.endpoint import ListeningPipe

PROTOCOL = "runhcs-standby-w1"
AWAKE = b"A"
MAX_CLAIM = 192 << 10
# The caller sends at once when it has heard that we are awake.
REQUEST_TIMEOUT = 2.0
# How soon it notices that its program has been replaced, when nobody comes.
LOOK_AROUND = 10.0

_WAIT_TIMEOUT = 258
_ERROR_PIPE_CONNECTED = 535
_ERROR_NO_DATA = 232


class Line(daemon.Link):
    """The launcher, over the standby's pipe, in place of the pipes of a process that it has started."""

    __slots__ = ("_stream",)

    def __init__(self, handle: int, timeout: float) -> None:
        super().__init__(is_awaited=True)
        self._stream = PipeStream(handle, timeout)

    def say(self, word: bytes) -> None:
        self._stream.sendall(word)

    def read_exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = self._stream.recv(size - len(data))
            if not piece:
                raise OSError(109, "start ended before it had said what is wanted")
            data += piece
        return data

    def say_ready(self) -> None:
        self.say(daemon.READY)

    def handed_over(self) -> bool:
        try:
            return self._stream.recv(1) == daemon.DONE
        except OSError:
            return False
        finally:
            self._stream.release()


class Claim:
    """One start, and what the launcher handed over for its daemon."""

    __slots__ = ("_environment", "_panic_log", "arguments", "link")

    def __init__(self, link: Line, data: bytes) -> None:
        protocol, panic_log, count, *texts = data.decode().removesuffix("\0").split("\0")
        if protocol != PROTOCOL:
            raise ValueError("not a claim")
        self.link = link
        self._panic_log = int(panic_log)
        self.arguments = texts[: int(count)]
        self._environment = texts[int(count) :]

    def take(self) -> None:
        """Become what the launcher would have started."""
        descriptor = msvcrt.open_osfhandle(self._panic_log, nt.O_APPEND | nt.O_NOINHERIT)
        nt.dup2(descriptor, 2, False)
        nt.close(descriptor)
        _replace_environment(self._environment)
        _show([*own_command(), *self.arguments])


class Door:
    """The standby's pipe. It has one instance: whoever comes second finds it busy, and starts cold."""

    __slots__ = ("_pipe", "_program")

    def __init__(self, pipe: ListeningPipe) -> None:
        self._pipe = pipe
        self._program = _stamp()

    def wait(self, idle: float) -> Claim | None:
        """The next claim; None when nobody has come for so many seconds, or when this program has been replaced."""
        deadline = monotonic() + idle
        while self._somebody_comes(deadline):
            caller = Line(self._pipe.handle, REQUEST_TIMEOUT)
            try:
                caller.say(AWAKE)
                size = int.from_bytes(caller.read_exactly(4), "little")
                if size <= MAX_CLAIM:
                    return Claim(Line(self._pipe.handle, daemon.HANDOVER_TIMEOUT), caller.read_exactly(size))
            except (OSError, ValueError):
                pass  # somebody who has not waited
            _winapi.CloseHandle(self._pipe.next())
        return None

    def _somebody_comes(self, deadline: float) -> bool:
        try:
            waiting = _winapi.ConnectNamedPipe(self._pipe.handle, overlapped=True)
        except OSError as error:
            return error.winerror in (_ERROR_PIPE_CONNECTED, _ERROR_NO_DATA)
        while (left := deadline - monotonic()) > 0 and _stamp() == self._program:
            if _winapi.WaitForSingleObject(waiting.event, int(min(left, LOOK_AROUND) * 1000)) != _WAIT_TIMEOUT:
                waiting.GetOverlappedResult(True)
                return True
        waiting.cancel()
        return False


def open_door(path: str) -> Door | None:
    """Listen; None if there is a standby already."""
    administrators_only()  # loaded now, and not while somebody waits
    try:
        return Door(endpoint.listen(path))
    except endpoint.EndpointError:
        return None


def _stamp() -> tuple[int, int] | None:
    try:
        status = nt.stat(sys.executable)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


def _show(command: list[str]) -> None:
    """What lists of processes show: the command, not the standby, for people look for a shim by its container's id. It
    takes the place of the text that this process was started with, as far as that goes (`standby_start`)."""
    kernel32: Any = ffi.dlopen(system_library("kernel32"))
    text = kernel32.GetCommandLineW()
    room = len(ffi.string(text))
    shown = quote(command).ljust(room).encode("utf-16-le", "surrogatepass")
    ffi.memmove(text, shown, 2 * room)


def _replace_environment(variables: list[str]) -> None:
    """Most of it is the same: only differences are written, for Python and for native code."""
    wanted = {}
    for variable in variables:
        name, equals, value = variable.partition("=")
        if equals:
            wanted[name.upper()] = value
    for name in [name for name in os.environ if name not in wanted]:
        del os.environ[name]
    for name, value in wanted.items():
        if os.environ.get(name) != value:
            os.environ[name] = value
    nt.environ.clear()
    nt.environ.update(wanted)

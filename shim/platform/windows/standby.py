"""The standby's side of its pipe: accept a launcher, receive the handover, and turn this process into the daemon.

`launcher/windows/standby.c` is the other side and describes the protocol. A spare takes over arguments, environment,
the content of stdin, and two handles that the launcher has duplicated into this process: the shim's pipe and the panic
log.
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
from shim.platform.windows.pipe_link import PipeLink
from shim.platform.windows.security import administrators_only

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from shim.platform.windows.endpoint import ListeningPipe

PROTOCOL = "runhcs-standby-w1"
AWAKE = b"A"
MAX_HANDOVER = 192 << 10
# The launcher sends at once after it has received the greeting.
REQUEST_TIMEOUT = 2.0
# How often it checks, while idle, whether its program has been replaced.
CHECK_INTERVAL = 10.0

_WAIT_TIMEOUT = 258
_ERROR_PIPE_CONNECTED = 535
_ERROR_NO_DATA = 232


class Handover:
    """What the launcher of one `start` hands over for its daemon."""

    __slots__ = ("_environment", "_panic_log", "arguments", "link")

    def __init__(self, link: PipeLink, data: bytes) -> None:
        protocol, panic_log, count, *texts = data.decode().removesuffix("\0").split("\0")
        if protocol != PROTOCOL:
            raise ValueError("not a handover")
        self.link = link
        self._panic_log = int(panic_log)
        self.arguments = texts[: int(count)]
        self._environment = texts[int(count) :]

    def apply(self) -> None:
        """Turn this process into the daemon that the launcher would have started."""
        descriptor = msvcrt.open_osfhandle(self._panic_log, nt.O_APPEND | nt.O_NOINHERIT)
        nt.dup2(descriptor, 2, False)
        nt.close(descriptor)
        _replace_environment(self._environment)
        _set_command_line([*own_command(), *self.arguments])


class StandbyPipe:
    """The standby's pipe. It has one instance: a second launcher finds it busy and starts cold."""

    __slots__ = ("_pipe", "_program")

    def __init__(self, pipe: ListeningPipe) -> None:
        self._pipe = pipe
        self._program = _stamp()

    def wait(self, idle: float) -> Handover | None:
        """The next handover; None after so many idle seconds, or if this program has been replaced."""
        deadline = monotonic() + idle
        while self._wait_connected(deadline):
            launcher = PipeLink(PipeStream(self._pipe.handle), REQUEST_TIMEOUT)
            try:
                launcher.send(AWAKE)
                size = int.from_bytes(launcher.read_exactly(4), "little")
                if size <= MAX_HANDOVER:
                    data = launcher.read_exactly(size)
                    launcher.settimeout(daemon.HANDOVER_TIMEOUT)
                    return Handover(launcher, data)
            except (OSError, ValueError):
                pass  # a launcher that timed out
            _winapi.CloseHandle(self._pipe.next())
        return None

    def _wait_connected(self, deadline: float) -> bool:
        try:
            waiting = _winapi.ConnectNamedPipe(self._pipe.handle, overlapped=True)
        except OSError as error:
            return error.winerror in (_ERROR_PIPE_CONNECTED, _ERROR_NO_DATA)
        while (left := deadline - monotonic()) > 0 and _stamp() == self._program:
            if _winapi.WaitForSingleObject(waiting.event, int(min(left, CHECK_INTERVAL) * 1000)) != _WAIT_TIMEOUT:
                waiting.GetOverlappedResult(True)
                return True
        waiting.cancel()
        return False


def listen(path: str) -> StandbyPipe | None:
    """Listen; None if there is a standby already."""
    administrators_only()  # loaded now, not while a launcher waits
    try:
        return StandbyPipe(endpoint.listen(path))
    except endpoint.EndpointError:
        return None


def _stamp() -> tuple[int, int] | None:
    try:
        status = nt.stat(sys.executable)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


def _set_command_line(command: list[str]) -> None:
    """The command line that process lists show: the daemon's, since operators look for a shim by its container's id.
    It overwrites this process's own, which `standby_start` has padded for that."""
    kernel32: Any = ffi.dlopen(system_library("kernel32"))
    text = kernel32.GetCommandLineW()
    size = len(ffi.string(text))
    shown = quote(command).ljust(size).encode("utf-16-le", "surrogatepass")
    ffi.memmove(text, shown, 2 * size)


def _replace_environment(variables: list[str]) -> None:
    """Write only the differences, for Python and for native code: most variables are the same."""
    new = {}
    for variable in variables:
        name, equals, value = variable.partition("=")
        if equals:
            new[name.upper()] = value
    for name in [name for name in os.environ if name not in new]:
        del os.environ[name]
    for name, value in new.items():
        if os.environ.get(name) != value:
            os.environ[name] = value
    nt.environ.clear()
    nt.environ.update(new)

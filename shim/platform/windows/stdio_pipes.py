"""The stdio endpoints that containerd's clients name: named pipes, files, loggers.

The client listens before it sends Create or Exec; the shim connects. The shim never probes a pipe first: its server
accepts one connection, and a probe would use it up.
"""

from __future__ import annotations

import _winapi
import nt
from _thread import allocate_lock

from shim.platform.windows.files import native
from shim.platform.windows.pipe import dial
from shim.platform.windows.pump import Pump, reconnect_paths

__all__ = [
    "Pump", "Relay", "bytes_pending", "close", "duplicate", "has_reader", "hold_writer", "is_client_connected",
    "open_file", "open_input", "open_output", "start_logger",
]  # fmt: skip

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from shim.platform.windows.binary_logger import Logger

    Result = TypeVar("Result")

DIAL_TIMEOUT = 10.0
STOP_TIMEOUT = 5.0
PIPES = "\\\\.\\pipe\\"

_APPEND = 0x0004 | 0x00100000  # FILE_APPEND_DATA, SYNCHRONIZE
_SHARE_ALL = 7
_OPEN_ALWAYS = 4
_OPEN_EXISTING = 3
_OVERLAPPED = 0x40000000
_SAME_ACCESS = 2


class Relay:
    """Starts and stops the pumps. Each has a thread of its own on Windows."""

    def __init__(self) -> None:
        self._lock = allocate_lock()

    def add(self, pump: Pump) -> None:
        pump.start()

    def stop(self, pumps: list[Pump]) -> None:
        """Close the pumps at once and drop what they have not moved."""
        for pump in pumps:
            pump.stop()
        for pump in pumps:
            pump.join(STOP_TIMEOUT)

    def finish(self, pump: Pump) -> None:
        """Close the pump when the bytes that are pending now have moved."""
        pump.finish()

    def call(self, function: Callable[[], Result]) -> Result | None:
        with self._lock:
            return function()


def open_input(path: str, *, outlives_client: bool) -> int:
    """The client's stdin. Raises OSError. It ends with the client, as with Microsoft's shim: a pipe whose server is
    gone cannot be told from one whose client has no more input."""
    return dial(path, DIAL_TIMEOUT)


def open_output(path: str) -> int:
    """A client's pipe, which is connected again if it breaks, or an existing file to append to. Raises OSError."""
    if not path.lower().startswith(PIPES):
        return _winapi.CreateFile(native(path), _APPEND, _SHARE_ALL, 0, _OPEN_EXISTING, _OVERLAPPED, 0)
    handle = dial(path, DIAL_TIMEOUT)
    reconnect_paths[handle] = path
    return handle


def open_file(path: str) -> int:
    """A log file, created with its directories if it is missing. Raises OSError."""
    _make_directories(native(path).rpartition("\\")[0])
    return _winapi.CreateFile(native(path), _APPEND, _SHARE_ALL, 0, _OPEN_ALWAYS, _OVERLAPPED, 0)


def _make_directories(path: str) -> None:
    if not path or path.endswith(":"):
        return
    try:
        nt.mkdir(path)
    except FileExistsError:
        return
    except FileNotFoundError:
        _make_directories(path.rpartition("\\")[0])
        nt.mkdir(path)


def hold_writer(output: int) -> tuple[int, bool] | None:
    """Not needed: a named pipe keeps its bytes until they are read, even after this process has exited."""
    del output
    return None


def bytes_pending(writer: int) -> int:
    del writer
    return 0


def has_reader(writer: int) -> bool:
    del writer
    return True


def is_client_connected(relay: Relay, pump: Pump, writer: int | None) -> bool:
    """Whether the pump's client has its end open; not while the pump connects it again."""
    del relay, writer
    return pump.sink != 0


def close(handle: int) -> None:
    reconnect_paths.pop(handle, None)
    _winapi.CloseHandle(handle)


def duplicate(handle: int) -> int:
    process = _winapi.GetCurrentProcess()
    return _winapi.DuplicateHandle(process, handle, process, 0, False, _SAME_ACCESS)


def start_logger(program: str, arguments: list[str], environment: dict[str, str], requires_ready: bool) -> Logger:
    from shim.platform.windows.binary_logger import start

    return start(program, arguments, environment, requires_ready)

"""The ends of stdio that containerd's clients name: named pipes, files, loggers.

The client listens before it sends Create or Exec; the shim dials. A pipe is never looked at first: its server accepts
once, and a look would use that up.
"""

from __future__ import annotations

import _winapi
import nt
from _thread import allocate_lock

from shim.platform.windows.files import native
from shim.platform.windows.pipe import dial
from shim.platform.windows.pump import Pump, redialled

__all__ = [
    "Pump", "Relay", "close", "duplicate", "has_reader", "keep", "open_file", "open_input", "open_output",
    "start_logger", "unread",
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
    """The pumps' keeper; each has a thread of its own here."""

    def __init__(self) -> None:
        self._lock = allocate_lock()

    def add(self, pump: Pump) -> None:
        pump.start()

    def stop(self, pumps: list[Pump]) -> None:
        """Close the pumps at once, whatever is still on its way."""
        for pump in pumps:
            pump.stop()
        for pump in pumps:
            pump.join(STOP_TIMEOUT)

    def finish(self, pump: Pump) -> None:
        """End the pump when all that has come by now is moved."""
        pump.finish()

    def call(self, function: Callable[[], Result]) -> Result | None:
        with self._lock:
            return function()


def open_input(path: str) -> int:
    """The client's stdin. Raises OSError."""
    return dial(path, DIAL_TIMEOUT)


def open_output(path: str) -> int:
    """A client's pipe, which is dialled again when it breaks, or an existing file to append to. Raises OSError."""
    if not path.lower().startswith(PIPES):
        return _winapi.CreateFile(native(path), _APPEND, _SHARE_ALL, 0, _OPEN_EXISTING, _OVERLAPPED, 0)
    handle = dial(path, DIAL_TIMEOUT)
    redialled[handle] = path
    return handle


def open_file(path: str) -> int:
    """A log file, made if need be, its directories too. Raises OSError."""
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


def keep(output: int) -> tuple[int, bool] | None:
    """Nothing to keep: what was written to a pipe stays until its reader has it, also when we are gone."""
    del output
    return None


def unread(kept: int) -> int:
    del kept
    return 0


def has_reader(kept: int) -> bool:
    del kept
    return True


def close(handle: int) -> None:
    redialled.pop(handle, None)
    _winapi.CloseHandle(handle)


def duplicate(handle: int) -> int:
    process = _winapi.GetCurrentProcess()
    return _winapi.DuplicateHandle(process, handle, process, 0, False, _SAME_ACCESS)


def start_logger(program: str, arguments: list[str], environment: dict[str, str], must_say_ready: bool) -> Logger:
    from shim.platform.windows.binary_logger import start

    return start(program, arguments, environment, must_say_ready)

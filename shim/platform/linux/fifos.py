"""The ends of stdio that containerd's clients name: FIFOs, files, loggers.

A FIFO for output is opened for reading and writing at once. That never blocks, and since the shim then holds a reading
end itself, a client that goes away causes back-pressure, not an error, and one that comes back goes on reading.
stdin's FIFO is opened for reading only: it ends when its last writer closes.

What is in a FIFO is lost when nobody has it open any more. A client may be so late that a short process has come and
gone before it opens its end; `keep` is what lets the shim notice, and wait.

What a plain path may be is decided after it is open: a FIFO, or a regular file, which is appended to.
"""

from __future__ import annotations

import posix
import select
from fcntl import F_GETFL, F_SETFL, fcntl

from shim.platform import host
from shim.platform.linux.pump import Pump, unread
from shim.platform.linux.relay import Relay

__all__ = [
    "Pump", "Relay", "close", "duplicate", "has_reader", "keep", "open_file", "open_input", "open_output",
    "start_logger", "unread",
]  # fmt: skip

TYPE_CHECKING = False
if TYPE_CHECKING:
    from shim.platform.linux.binary_logger import Logger

# Kinds of files, in their modes.
_TYPE, _REGULAR, _FIFO = 0o170000, 0o100000, 0o010000
_NONBLOCK = posix.O_NONBLOCK | posix.O_CLOEXEC | posix.O_NOCTTY


def open_input(path: str) -> int:
    """The reading end of a client's stdin. Raises OSError."""
    return posix.open(path, posix.O_RDONLY | _NONBLOCK)


def open_output(path: str) -> int:
    """A client's FIFO, or an existing file to append to. Raises OSError."""
    descriptor = posix.open(path, posix.O_RDWR | _NONBLOCK)
    if posix.fstat(descriptor).st_mode & _TYPE == _REGULAR:
        fcntl(descriptor, F_SETFL, posix.O_APPEND | posix.O_NONBLOCK)
    return descriptor


def open_file(path: str) -> int:
    """A log file, made if need be, its directories too. Raises OSError."""
    host.make_directories(path.rpartition("/")[0] or "/", 0o755)
    return posix.open(path, posix.O_WRONLY | posix.O_APPEND | posix.O_CREAT | _NONBLOCK, 0o644)


def keep(output: int) -> tuple[int, bool] | None:
    """One more writing end of an output that is a client's FIFO, which no reading end of ours belongs to, and whether
    the client has it open by now (or is in the midst of opening it, which the kernel counts as well)."""
    if posix.fstat(output).st_mode & _TYPE != _FIFO or not fcntl(output, F_GETFL) & posix.O_RDWR:
        return None  # a file, or a logger's pipe, which has its reader from the beginning
    try:
        kept = posix.open(f"/proc/self/fd/{output}", posix.O_WRONLY | _NONBLOCK)
    except OSError:
        return None  # then the client has to be in time
    # The output reads, too. For a moment it does not, and the kernel says whether anybody else does.
    posix.dup2(kept, output, inheritable=False)
    seen = has_reader(kept)
    again = posix.open(f"/proc/self/fd/{kept}", posix.O_RDWR | _NONBLOCK)
    posix.dup2(again, output, inheritable=False)
    posix.close(again)
    return kept, seen


def has_reader(kept: int) -> bool:
    """Whether somebody has the FIFO of this writing end open for reading, or is about to."""
    waiting = select.poll()
    waiting.register(kept, 0)
    return not any(events & select.POLLERR for _, events in waiting.poll(0))


def close(handle: int) -> None:
    posix.close(handle)


def duplicate(handle: int) -> int:
    return posix.dup(handle)


def start_logger(program: str, arguments: list[str], environment: dict[str, str], must_say_ready: bool) -> Logger:
    from shim.platform.linux.binary_logger import start

    return start(program, arguments, environment, must_say_ready)

"""The stdio endpoints that containerd's clients name: FIFOs, files, loggers.

A FIFO for output is opened for reading and writing at once. That never blocks, and since the shim then holds a reading
end itself, a client that closes its end causes back-pressure, not an error, and one that reopens it continues to read.
stdin's FIFO is at EOF when its last writer closes. Opened in the same way (`outlives_client`) it is not: CloseIO ends
it, as with runc's shim (`openStdin` in containerd's cmd/containerd-shim-runc-v2/process/init.go). So a container keeps
its stdin while containerd restarts.

The kernel drops the content of a FIFO when no process has it open. A client may open its end after a short process has
exited; with `hold_writer` the shim detects that and waits.

Whether a plain path is a FIFO or a regular file, which is appended to, is decided after it is open.
"""

from __future__ import annotations

import posix
import select
from fcntl import F_GETFL, F_SETFL, fcntl

from shim.platform import host
from shim.platform.linux.pump import Pump, bytes_pending
from shim.platform.linux.relay import Relay

__all__ = [
    "Pump", "Relay", "bytes_pending", "close", "duplicate", "has_reader", "hold_writer", "is_client_connected",
    "open_file", "open_input", "open_output", "start_logger",
]  # fmt: skip

TYPE_CHECKING = False
if TYPE_CHECKING:
    from shim.platform.linux.binary_logger import Logger

# File types in st_mode.
_TYPE, _REGULAR, _FIFO = 0o170000, 0o100000, 0o010000
_NONBLOCK = posix.O_NONBLOCK | posix.O_CLOEXEC | posix.O_NOCTTY


def open_input(path: str, *, outlives_client: bool) -> int:
    """A client's FIFO, or a file to read. Raises OSError."""
    descriptor = posix.open(path, posix.O_RDONLY | _NONBLOCK)
    if not outlives_client or posix.fstat(descriptor).st_mode & _TYPE != _FIFO:
        return descriptor
    try:
        return posix.open(f"/proc/self/fd/{descriptor}", posix.O_RDWR | _NONBLOCK)
    finally:
        posix.close(descriptor)


def open_output(path: str) -> int:
    """A client's FIFO, or an existing file to append to. Raises OSError."""
    descriptor = posix.open(path, posix.O_RDWR | _NONBLOCK)
    if posix.fstat(descriptor).st_mode & _TYPE == _REGULAR:
        fcntl(descriptor, F_SETFL, posix.O_APPEND | posix.O_NONBLOCK)
    return descriptor


def open_file(path: str) -> int:
    """A log file, created with its directories if it is missing. Raises OSError."""
    host.make_directories(path.rpartition("/")[0] or "/", 0o755)
    return posix.open(path, posix.O_WRONLY | posix.O_APPEND | posix.O_CREAT | _NONBLOCK, 0o644)


def hold_writer(output: int) -> tuple[int, bool] | None:
    """A second descriptor of a client's FIFO, for writing only, and whether the client has the FIFO open (or blocks in
    its open, which the kernel counts too). None if the output is no client's FIFO."""
    if posix.fstat(output).st_mode & _TYPE != _FIFO or not fcntl(output, F_GETFL) & posix.O_RDWR:
        return None  # a file, or a logger's pipe, whose reader exists from the start
    try:
        writer = posix.open(f"/proc/self/fd/{output}", posix.O_WRONLY | _NONBLOCK)
    except OSError:
        return None  # then a late client loses the output
    return writer, _has_other_reader(output, writer)


def is_client_connected(relay: Relay, pump: Pump, writer: int | None) -> bool:
    """Whether a client has the pump's FIFO open. `writer` is what `hold_writer` returned; without one the sink is a
    file, or a logger's pipe, which fails when the logger ends."""

    def ask() -> bool:
        if pump.closed or pump.sink < 0:
            return False
        if writer is None:
            return True
        try:
            return _has_other_reader(pump.sink, writer)
        except OSError:
            return False  # such as no free descriptor: do not wait for what cannot be asked
        finally:
            relay.watch_again(pump)  # the descriptor of the sink is another open file now

    return bool(relay.call(ask))


def _has_other_reader(output: int, writer: int) -> bool:
    """`output` is a reader, too. Replace it by a writer for a moment, so that the kernel reports other readers only;
    `writer` keeps the content of the FIFO."""
    posix.dup2(writer, output, inheritable=False)
    is_open = has_reader(writer)
    again = posix.open(f"/proc/self/fd/{writer}", posix.O_RDWR | _NONBLOCK)
    posix.dup2(again, output, inheritable=False)
    posix.close(again)
    return is_open


def has_reader(writer: int) -> bool:
    """Whether a process has the FIFO of this writing end open for reading, or blocks in its open."""
    poller = select.poll()
    poller.register(writer, 0)
    return not any(events & select.POLLERR for _, events in poller.poll(0))


def close(handle: int) -> None:
    posix.close(handle)


def duplicate(handle: int) -> int:
    return posix.dup(handle)


def start_logger(program: str, arguments: list[str], environment: dict[str, str], requires_ready: bool) -> Logger:
    from shim.platform.linux.binary_logger import start

    return start(program, arguments, environment, requires_ready)

"""One direction of one stream: moves bytes from a source to a sink and never blocks.

Between pipes splice(2) moves the bytes: the kernel passes pages from one pipe to the other, and nothing is copied to
this process. Where splice is refused (a file opened for appending, some terminals) the pump copies.

splice fails with EAGAIN for either side. The pump then waits for its source if it has just moved something, and
otherwise for the side that did not wake it.
"""

from __future__ import annotations

import fcntl
import posix
from errno import EINVAL, EIO
from sys import byteorder
from time import monotonic

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

PIPE_SIZE = 1 << 20
COPY_SIZE = 128 << 10
MAX_MOVES = 8  # of one pump before it yields to the others
SPLICE_FLAGS = posix.SPLICE_F_MOVE | posix.SPLICE_F_NONBLOCK

_F_SETPIPE_SZ = 1031
FIONREAD = 0x541B  # on x86 and ARM; importing `termios` for it would cost 40 kB


class Pump:
    """Moves bytes from source to sink until the source is at EOF. The pump owns both descriptors."""

    __slots__ = (
        "_buffer", "_on_closed", "_splices", "bytes_moved", "closed", "finishing", "keeps_sink_open", "sink", "source",
        "stall_timeout", "stalled_since", "survives_sink_failure",
    )  # fmt: skip

    def __init__(
        self,
        source: int,
        sink: int,
        on_closed: Callable[[], None],
        *,
        survives_sink_failure: bool,
        stall_timeout: float = 0.0,
        keeps_sink_open: bool = False,
    ) -> None:
        """`on_closed` is called once, in the relay's thread, when both descriptors are closed. With
        `survives_sink_failure` a failed sink is abandoned, but the source is read to EOF so that its writer does not
        block; `stall_timeout` is how many seconds such a sink may take nothing before it is abandoned, 0 for no
        limit. With `keeps_sink_open` the sink stays open; the caller gets it by `take_sink` and closes it."""
        self.source = source
        self.sink = sink
        self.bytes_moved = 0  # written to the sink
        self.closed = False
        self.finishing = False  # close as soon as the source has no bytes pending
        self.survives_sink_failure = survives_sink_failure
        self.keeps_sink_open = keeps_sink_open
        self.stall_timeout = stall_timeout
        self.stalled_since: float | None = None  # when the sink stopped taking bytes
        self._on_closed = on_closed
        self._buffer = b""  # read but not yet written
        self._splices = True
        for descriptor in (source, sink):
            posix.set_blocking(descriptor, False)
            grow(descriptor)

    def bytes_pending(self) -> int:
        """Bytes that are ready to be moved. Only for the relay's thread."""
        return 0 if self.closed else len(self._buffer) + bytes_pending(self.source)

    def run(self, woken_by_sink: bool) -> int:
        """Move what can be moved. Returns the descriptor to wait for, or -1 when the pump is done."""
        before = self.bytes_moved
        for _ in range(MAX_MOVES):
            wait = self._splice(woken_by_sink, before) if self._splices else self._copy()
            if wait is not None:
                break
        else:
            wait = self.source
        if wait == self.source and self.finishing and not self._buffer and not self.bytes_pending():
            wait = -1
        if wait != self.sink or self.bytes_moved != before:
            self.stalled_since = None
        if wait == self.sink and wait >= 0 and self.stalled_since is None:
            self.stalled_since = monotonic()
        return wait

    def _splice(self, woken_by_sink: bool, before: int) -> int | None:
        try:
            count = posix.splice(self.source, self.sink, PIPE_SIZE, flags=SPLICE_FLAGS)
        except BlockingIOError:
            return self.source if self.bytes_moved != before or woken_by_sink else self.sink
        except OSError as error:
            if error.errno == EINVAL:
                self._splices = False
                return None
            return self._failed(error)
        self.bytes_moved += count
        return None if count else -1

    def _copy(self) -> int | None:
        if not self._buffer:
            try:
                self._buffer = posix.read(self.source, COPY_SIZE)
            except BlockingIOError:
                return self.source
            except OSError:
                return -1  # EIO: no process has the terminal open any more
            if not self._buffer:
                return -1
        if self.sink < 0:
            self._buffer = b""
            return None
        try:
            count = posix.write(self.sink, self._buffer)
        except BlockingIOError:
            return self.sink
        except OSError as error:
            return self._failed(error)
        self.bytes_moved += count
        self._buffer = self._buffer[count:]
        return None

    def _failed(self, error: OSError) -> int | None:
        if error.errno == EIO and self._splices:
            return -1
        if not self.survives_sink_failure:
            return -1
        self.abandon_sink()
        return None

    def abandon_sink(self) -> None:
        """Discard what is read from now on."""
        if self.sink >= 0:
            posix.close(self.sink)
        self.sink = -1
        self._splices = False
        self._buffer = b""
        self.stalled_since = None

    def close(self) -> None:
        self.closed = True
        for descriptor in (self.source, -1 if self.keeps_sink_open else self.sink):
            if descriptor >= 0:
                posix.close(descriptor)
        self._buffer = b""
        self._on_closed()

    def take_sink(self) -> int | None:
        """The sink that was kept open, if it has not failed; once."""
        sink, self.sink = self.sink, -1
        return sink if self.keeps_sink_open and sink >= 0 else None


def bytes_pending(descriptor: int) -> int:
    """Unread bytes of a pipe or a terminal."""
    size = bytearray(4)
    try:
        fcntl.ioctl(descriptor, FIONREAD, size)
    except OSError:
        return 0
    return int.from_bytes(size, byteorder)


def grow(descriptor: int) -> None:
    """A larger pipe needs fewer calls. A descriptor that is no pipe stays as it is."""
    try:
        fcntl.fcntl(descriptor, _F_SETPIPE_SZ, PIPE_SIZE)
    except OSError:
        pass

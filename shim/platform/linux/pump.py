"""One direction of one stream: a source, a sink, and moving bytes between them without ever waiting.

Between pipes the bytes are moved by splice(2): the kernel hands pages from one pipe to the other and nothing passes
through this process. Where splice is refused (a file that is appended to, some terminals) the pump copies.

When splice says "would block", it does not say which side it means. The pump then waits for its source if it has just
moved something, and otherwise for the side that did not wake it.
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
TURNS = 8  # moves of one pump before the others have their turn
SPLICE_FLAGS = posix.SPLICE_F_MOVE | posix.SPLICE_F_NONBLOCK

_F_SETPIPE_SZ = 1031
FIONREAD = 0x541B  # on x86 and ARM; `termios`, which has it, is a library of 40 kB


class Pump:
    """Moves bytes from source to sink until the source ends. The descriptors are the pump's own."""

    __slots__ = (
        "_ended", "_held", "_splices", "finishing", "keeps_reading", "moved", "over", "patience", "sink", "source",
        "stalled",
    )  # fmt: skip

    def __init__(
        self,
        source: int,
        sink: int,
        ended: Callable[[], None],
        *,
        keeps_reading: bool,
        patience: float = 0.0,
    ) -> None:
        """`ended` is called once, by the relay's thread, when both descriptors are closed. With `keeps_reading` a
        sink that fails is given up but the source is read to its end, so that its writer is not stopped; `patience`
        is how many seconds such a sink may take nothing before it is given up, 0 for ever."""
        self.source = source
        self.sink = sink
        self.moved = 0  # bytes the sink has taken
        self.over = False
        self.finishing = False  # end as soon as the source has nothing at the moment
        self.keeps_reading = keeps_reading
        self.patience = patience
        self.stalled: float | None = None  # since when the sink takes nothing
        self._ended = ended
        self._held = b""  # read but not yet written
        self._splices = True
        for descriptor in (source, sink):
            posix.set_blocking(descriptor, False)
            grow(descriptor)

    def unread(self) -> int:
        """Bytes that wait to be moved at this moment. Only for the relay's thread."""
        return 0 if self.over else len(self._held) + unread(self.source)

    def run(self, woken_by_sink: bool) -> int:
        """Move what can be moved. Returns the descriptor to wait for, or -1 when the pump is over."""
        before = self.moved
        for _ in range(TURNS):
            wait = self._splice(woken_by_sink, before) if self._splices else self._copy()
            if wait is not None:
                break
        else:
            wait = self.source
        if wait == self.source and self.finishing and not self._held and not self.unread():
            wait = -1
        if wait != self.sink or self.moved != before:
            self.stalled = None
        if wait == self.sink and wait >= 0 and self.stalled is None:
            self.stalled = monotonic()
        return wait

    def _splice(self, woken_by_sink: bool, before: int) -> int | None:
        try:
            count = posix.splice(self.source, self.sink, PIPE_SIZE, flags=SPLICE_FLAGS)
        except BlockingIOError:
            return self.source if self.moved != before or woken_by_sink else self.sink
        except OSError as error:
            if error.errno == EINVAL:
                self._splices = False
                return None
            return self._failed(error)
        self.moved += count
        return None if count else -1

    def _copy(self) -> int | None:
        if not self._held:
            try:
                self._held = posix.read(self.source, COPY_SIZE)
            except BlockingIOError:
                return self.source
            except OSError:
                return -1  # EIO: the last user of a terminal is gone
            if not self._held:
                return -1
        if self.sink < 0:
            self._held = b""
            return None
        try:
            count = posix.write(self.sink, self._held)
        except BlockingIOError:
            return self.sink
        except OSError as error:
            return self._failed(error)
        self.moved += count
        self._held = self._held[count:]
        return None

    def _failed(self, error: OSError) -> int | None:
        if error.errno == EIO and self._splices:
            return -1
        if not self.keeps_reading:
            return -1
        self.give_up_sink()
        return None

    def give_up_sink(self) -> None:
        """What comes from now on is read and forgotten."""
        if self.sink >= 0:
            posix.close(self.sink)
        self.sink = -1
        self._splices = False
        self._held = b""
        self.stalled = None

    def close(self) -> None:
        self.over = True
        for descriptor in (self.source, self.sink):
            if descriptor >= 0:
                posix.close(descriptor)
        self._held = b""
        self._ended()


def unread(descriptor: int) -> int:
    """Bytes that are in a pipe, or wait at a terminal."""
    size = bytearray(4)
    try:
        fcntl.ioctl(descriptor, FIONREAD, size)
    except OSError:
        return 0
    return int.from_bytes(size, byteorder)


def grow(descriptor: int) -> None:
    """A pipe that holds more is moved with fewer calls. Others refuse, and nothing is lost."""
    try:
        fcntl.fcntl(descriptor, _F_SETPIPE_SZ, PIPE_SIZE)
    except OSError:
        pass

"""One direction of one stream: a thread that reads from one handle and writes to another.

Both are overlapped pipes, or the sink is a file. Everything that waits can be cut short from outside: a read and a
write by cancelling them, a pause by a lock. The thread owns the handles and closes them when it ends.

A client's output that breaks is dialled again, with growing pauses, since containerd makes its pipes anew under the
same names when it restarts; what was not written yet goes to the new connection. stdin is never dialled again.
"""

from __future__ import annotations

import _winapi
from _thread import allocate_lock, start_new_thread
from time import monotonic

from shim.platform.windows.pipe import ERROR_OPERATION_ABORTED, dial

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _winapi import Overlapped
    from collections.abc import Callable

COPY_SIZE = 64 << 10
FIRST_PAUSE = 0.2
LONGEST_PAUSE = 60.0
DIAL_TIMEOUT = 1.0

#: The path behind a client's output, by handle, for those that can be dialled again.
redialled: dict[int, str] = {}


class Pump:
    """Moves bytes from source to sink until the source ends. The handles are the pump's own."""

    __slots__ = (
        "_ended", "_gone", "_held", "_lock", "_path", "_pending", "_wake", "finishing", "keeps_reading", "moved",
        "over", "patience", "sink", "source", "stopping",
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
        """`ended` is called once, by the pump's thread, when both handles are closed. With `keeps_reading` a sink that
        fails is dialled again, for `patience` seconds or for ever if that is 0, then given up; the source is read to
        its end, so that its writer is not stopped."""
        self.source = source
        self.sink = sink
        self.moved = 0  # bytes the sink has taken
        self.over = False
        self.finishing = False  # end as soon as the source has nothing at the moment
        self.stopping = False
        self.keeps_reading = keeps_reading
        self.patience = patience
        self._ended = ended
        self._path = redialled.pop(sink, "")
        self._lock = allocate_lock()
        self._pending: Overlapped | None = None
        self._held = 0
        self._wake = allocate_lock()  # released to end a pause
        self._wake.acquire()
        self._gone = allocate_lock()  # held while the thread lives
        self._gone.acquire()

    def start(self) -> None:
        start_new_thread(self._run, ())

    def unread(self) -> int:
        """Bytes that wait to be moved at this moment."""
        return 0 if self.over else self._held + self._available()

    def finish(self) -> None:
        """End when all that has come by now is moved."""
        with self._lock:
            self.finishing = True
            if self._held == 0:
                self._cancel()

    def stop(self) -> None:
        """End at once, whatever is still on its way."""
        with self._lock:
            self.stopping = True
            self._cancel()
            if self._wake.locked():
                self._wake.release()

    def join(self, timeout: float) -> bool:
        if not self._gone.acquire(True, timeout):
            return False
        self._gone.release()
        return True

    def _cancel(self) -> None:
        if self._pending is not None:
            try:
                self._pending.cancel()
            except OSError:
                pass  # it has just ended

    def _available(self) -> int:
        try:
            return int(_winapi.PeekNamedPipe(self.source)[0])
        except OSError:
            return 0

    # -- the thread

    def _run(self) -> None:
        try:
            while (data := self._read()) is not None:
                if data:
                    self._deliver(data)
        finally:
            self._close()

    def _read(self) -> bytes | None:
        """What has come; None at the end."""
        with self._lock:
            if self.stopping or (self.finishing and not self._available()):
                return None
            try:
                self._pending, _ = _winapi.ReadFile(self.source, COPY_SIZE, overlapped=True)
            except OSError:
                return None  # the writer is gone
        reading = self._pending
        try:
            _, code = reading.GetOverlappedResult(True)
            data = bytes(reading.getbuffer() or b"")
        except OSError:
            return None
        finally:
            self._pending = None
        if code == ERROR_OPERATION_ABORTED:
            return data  # told to finish, or to stop: the next round sees it
        return data or None

    def _deliver(self, data: bytes) -> None:
        self._held = len(data)
        stalled = monotonic()
        while data and not self.stopping:
            if self.sink == 0:
                break  # given up: what comes is read and forgotten
            written = self._write(data)
            if written > 0:
                data = data[written:]
                self.moved += written
                self._held = len(data)
                stalled = monotonic()
            elif written < 0 and not self._again(stalled):
                break
        self._held = 0

    def _write(self, data: bytes) -> int:
        """How much was taken; -1 if the sink has failed."""
        with self._lock:
            if self.stopping:
                return 0
            try:
                self._pending, _ = _winapi.WriteFile(self.sink, data, overlapped=True)
            except OSError:
                return -1
        writing = self._pending
        try:
            count, code = writing.GetOverlappedResult(True)
        except OSError:
            return -1
        finally:
            self._pending = None
        return count if not code or code == ERROR_OPERATION_ABORTED else -1

    def _again(self, stalled: float) -> bool:
        """Dial a broken output again. False when there is nothing to dial, or no more patience."""
        _winapi.CloseHandle(self.sink)
        self.sink = 0
        if not self.keeps_reading:
            self.stopping = True
            return False
        pause = FIRST_PAUSE
        while self._path and not self.stopping:
            if self.patience and monotonic() - stalled >= self.patience:
                return False
            self._wake.acquire(True, pause)
            pause = min(pause * 1.5, LONGEST_PAUSE)
            try:
                self.sink = dial(self._path, DIAL_TIMEOUT)
                return True
            except OSError:
                continue
        return False

    def _close(self) -> None:
        self.over = True
        with self._lock:
            for handle in (self.source, self.sink):
                if handle:
                    _winapi.CloseHandle(handle)
            self.source = self.sink = 0
        self._gone.release()
        self._ended()

"""One direction of one stream: a thread that reads from one handle and writes to another.

Both are overlapped pipes, or the sink is a file. Every wait can be cancelled from another thread: a read or write by
cancelling its I/O, a pause by a lock. The thread owns the handles and closes them when it ends.

A broken output is connected again, with growing pauses, since containerd creates its pipes again under the same names
when it restarts; bytes that were not written yet go to the new connection. stdin is never connected again.
"""

from __future__ import annotations

import _winapi
from _thread import allocate_lock
from time import monotonic

from shim.platform.windows.pipe import ERROR_OPERATION_ABORTED, dial
from shim.threads import run_soon

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _winapi import Overlapped
    from collections.abc import Callable

COPY_SIZE = 64 << 10
FIRST_PAUSE = 0.2
LONGEST_PAUSE = 60.0
DIAL_TIMEOUT = 1.0

#: Handle of a client's output -> the pipe's path, for outputs that can be connected again.
reconnect_paths: dict[int, str] = {}


class Pump:
    """Moves bytes from source to sink until the source is at EOF. The pump owns both handles."""

    __slots__ = (
        "_buffered", "_exited", "_lock", "_on_closed", "_overlapped", "_path", "_wake", "bytes_moved", "closed",
        "finishing", "keeps_sink_open", "sink", "source", "stall_timeout", "stopping", "survives_sink_failure",
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
        """`on_closed` is called once, in the pump's thread, when both handles are closed. With `survives_sink_failure`
        a failed sink is connected again for `stall_timeout` seconds, 0 for no limit, and then abandoned; the source is
        read to EOF so that its writer does not block. With `keeps_sink_open` the sink stays open; the caller gets it by
        `take_sink` and closes it."""
        self.source = source
        self.sink = sink
        self.bytes_moved = 0  # written to the sink
        self.closed = False
        self.finishing = False  # close as soon as the source has no bytes pending
        self.stopping = False
        self.survives_sink_failure = survives_sink_failure
        self.keeps_sink_open = keeps_sink_open
        self.stall_timeout = stall_timeout
        self._on_closed = on_closed
        self._path = reconnect_paths.pop(sink, "")
        self._lock = allocate_lock()
        self._overlapped: Overlapped | None = None
        self._buffered = 0  # bytes read but not yet written
        self._wake = allocate_lock()  # released to end a pause
        self._wake.acquire()
        self._exited = allocate_lock()  # held while the thread runs
        self._exited.acquire()

    def start(self) -> None:
        run_soon(self._run)

    def bytes_pending(self) -> int:
        """Bytes that are ready to be moved."""
        return 0 if self.closed else self._buffered + self._available()

    def finish(self) -> None:
        """Close when the bytes that are pending now have moved."""
        with self._lock:
            self.finishing = True
            if self._buffered == 0:
                self._cancel()

    def stop(self) -> None:
        """Close at once and drop what has not moved."""
        with self._lock:
            self.stopping = True
            self._cancel()
            if self._wake.locked():
                self._wake.release()

    def join(self, timeout: float) -> bool:
        if not self._exited.acquire(True, timeout):
            return False
        self._exited.release()
        return True

    def _cancel(self) -> None:
        if self._overlapped is not None:
            try:
                self._overlapped.cancel()
            except OSError:
                pass  # it has just completed

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
        """The next bytes; None at EOF."""
        with self._lock:
            if self.stopping or (self.finishing and not self._available()):
                return None
            try:
                self._overlapped, _ = _winapi.ReadFile(self.source, COPY_SIZE, overlapped=True)
            except OSError:
                return None  # the writer has closed its end
        reading = self._overlapped
        try:
            _, code = reading.GetOverlappedResult(True)
            data = bytes(reading.getbuffer() or b"")
        except OSError:
            return None
        finally:
            self._overlapped = None
        if code == ERROR_OPERATION_ABORTED:
            return data  # cancelled by finish() or stop(): the next call returns None
        return data or None

    def _deliver(self, data: bytes) -> None:
        self._buffered = len(data)
        stalled_since = monotonic()
        while data and not self.stopping:
            if self.sink == 0:
                break  # abandoned: discard
            written = self._write(data)
            if written > 0:
                data = data[written:]
                self.bytes_moved += written
                self._buffered = len(data)
                stalled_since = monotonic()
            elif written < 0 and not self._reconnect(stalled_since):
                break
        self._buffered = 0

    def _write(self, data: bytes) -> int:
        """The number of bytes written; -1 if the sink has failed."""
        with self._lock:
            if self.stopping:
                return 0
            try:
                self._overlapped, _ = _winapi.WriteFile(self.sink, data, overlapped=True)
            except OSError:
                return -1
        writing = self._overlapped
        try:
            count, code = writing.GetOverlappedResult(True)
        except OSError:
            return -1
        finally:
            self._overlapped = None
        return count if not code or code == ERROR_OPERATION_ABORTED else -1

    def _reconnect(self, stalled_since: float) -> bool:
        """Connect a broken output again. False if it cannot be connected, or the stall timeout has passed."""
        _winapi.CloseHandle(self.sink)
        self.sink = 0
        if not self.survives_sink_failure:
            self.stopping = True
            return False
        pause = FIRST_PAUSE
        while self._path and not self.stopping:
            if self.stall_timeout and monotonic() - stalled_since >= self.stall_timeout:
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
        self.closed = True
        with self._lock:
            for handle in (self.source, 0 if self.keeps_sink_open else self.sink):
                if handle:
                    _winapi.CloseHandle(handle)
            self.source = 0
            if not self.keeps_sink_open:
                self.sink = 0
        self._exited.release()
        self._on_closed()

    def take_sink(self) -> int | None:
        """The sink that was kept open, if it has not failed; once."""
        with self._lock:
            sink, self.sink = self.sink, 0
        return (sink or None) if self.keeps_sink_open else None

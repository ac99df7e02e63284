"""One connected named pipe, as a stream for ttrpc.

Reads and writes are overlapped, also blocking ones, so that `close` can cancel them from another thread. They are
issued under the lock that `close` takes, so none can start after `close` has cancelled.
"""

from __future__ import annotations

import _winapi
from _thread import allocate_lock
from time import monotonic, sleep

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _winapi import Overlapped

BUFFER = 64 << 10
# The buffer of a read. It stays allocated while the read waits, and most messages have a few hundred bytes.
READ_SIZE = 8 << 10
BUSY_PAUSE = 0.01

_GENERIC_READ_WRITE = 0xC0000000
_OPEN_EXISTING = 3
_OVERLAPPED = 0x40000000
# The server must not impersonate us: SECURITY_SQOS_PRESENT, SECURITY_ANONYMOUS.
_ANONYMOUS = 0x00100000

ERROR_BROKEN_PIPE = 109
ERROR_PIPE_BUSY = 231
ERROR_NO_DATA = 232
ERROR_PIPE_NOT_CONNECTED = 233
ERROR_OPERATION_ABORTED = 995
ERROR_IO_INCOMPLETE = 996
ENDED = frozenset((ERROR_BROKEN_PIPE, ERROR_NO_DATA, ERROR_PIPE_NOT_CONNECTED, ERROR_OPERATION_ABORTED))


def dial(path: str, timeout: float | None) -> int:
    """Connect to a pipe; returns the handle. A busy pipe is retried, a missing one raises FileNotFoundError at once."""
    deadline = None if timeout is None else monotonic() + timeout
    while True:
        try:
            return _winapi.CreateFile(path, _GENERIC_READ_WRITE, 0, 0, _OPEN_EXISTING, _OVERLAPPED | _ANONYMOUS, 0)
        except OSError as error:
            if error.winerror != ERROR_PIPE_BUSY:
                raise
        if deadline is not None and monotonic() >= deadline:
            raise TimeoutError(121, f"every instance of {path} is taken")
        sleep(BUSY_PAUSE)


class PipeStream:
    """`close` only wakes all threads that wait; `release`, called by the last user, closes the handle."""

    #: Windows cancels a thread's pending operations when it exits (ERROR_OPERATION_ABORTED), unless the handle belongs
    #: to a completion port. So a thread that calls `send_now` must live as long as the connection.
    WRITES_BELONG_TO_THREAD = True

    __slots__ = ("_closed", "_handle", "_lock", "_reading", "_timeout", "_writing")

    def __init__(self, handle: int, timeout: float | None = None) -> None:
        self._handle = handle
        self._timeout = timeout
        self._lock = allocate_lock()
        self._closed = False
        self._reading: Overlapped | None = None
        self._writing: Overlapped | None = None

    @property
    def handle(self) -> int:
        return self._handle

    def settimeout(self, timeout: float | None, /) -> None:
        """Set the timeout of later operations."""
        self._timeout = timeout

    def recv(self, size: int, /) -> bytes:
        """Returns b"" at EOF."""
        with self._lock:
            if self._closed:
                return b""
            try:
                reading, code = _winapi.ReadFile(self._handle, min(size, READ_SIZE), overlapped=True)
            except OSError as error:
                return self._end(error)
            self._reading = reading
        try:
            if self._timeout is not None:
                self._limit(reading)
            _, code = reading.GetOverlappedResult(True)
            data = bytes(reading.getbuffer() or b"")
        except OSError as error:
            return self._end(error)
        finally:
            self._reading = None
        return b"" if code == ERROR_OPERATION_ABORTED else data

    def _end(self, error: OSError) -> bytes:
        if error.winerror in ENDED:
            return b""
        raise error

    def _limit(self, waiting: Overlapped) -> None:
        assert self._timeout is not None
        if _winapi.WaitForSingleObject(waiting.event, int(self._timeout * 1000)):
            waiting.cancel()
            raise TimeoutError(121, "the other side did not answer in time")

    def sendall(self, data: bytes, /) -> None:
        while data:
            self._finish_sending()
            data = data[self._send(data) :]
        self._finish_sending()

    def send_now(self, data: bytes, /) -> int:
        """Start to write without waiting: all, or nothing while an earlier write is in flight. The system buffers what
        it has not delivered yet."""
        writing = self._writing
        if writing is not None:
            _, code = writing.GetOverlappedResult(False)
            if code == ERROR_IO_INCOMPLETE:
                return 0
            self._writing = None
            if code:  # cancelled: some of it may have been delivered
                raise OSError(ERROR_BROKEN_PIPE, "a write was cancelled")
        return self._send(data)

    def _send(self, data: bytes) -> int:
        with self._lock:
            if self._closed:
                raise OSError(ERROR_BROKEN_PIPE, "the connection is closed")
            self._writing, _ = _winapi.WriteFile(self._handle, data, overlapped=True)
        return len(data)

    def _finish_sending(self) -> None:
        writing = self._writing
        if writing is None:
            return
        if self._timeout is not None:
            self._limit(writing)
        _, code = writing.GetOverlappedResult(True)
        self._writing = None
        if code:
            raise OSError(ERROR_BROKEN_PIPE, "the connection was closed while it was written to")

    def close(self) -> None:
        with self._lock:
            self._closed = True
            for pending in (self._reading, self._writing):
                if pending is not None:
                    try:
                        pending.cancel()
                    except OSError:
                        pass  # it has just completed

    def release(self) -> None:
        self.close()
        handle, self._handle = self._handle, 0
        if handle:
            _winapi.CloseHandle(handle)

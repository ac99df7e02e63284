"""One connected named pipe, as a stream that ttrpc can use.

Reads and writes are overlapped, also where they are waited for: `close`, from another thread, cancels them. A read or
write is issued under the lock that `close` takes, so none can slip in between its look and its wait.
"""

from __future__ import annotations

import _winapi
from _thread import allocate_lock
from time import monotonic, sleep

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _winapi import Overlapped

BUFFER = 64 << 10
# What a read asks for. All of it is in memory while nothing comes, and what comes is mostly a few hundred bytes.
READ_SIZE = 8 << 10
BUSY_PAUSE = 0.01

_GENERIC_READ_WRITE = 0xC0000000
_OPEN_EXISTING = 3
_OVERLAPPED = 0x40000000
# A server must not act in our name: SECURITY_SQOS_PRESENT, SECURITY_ANONYMOUS.
_ANONYMOUS = 0x00100000

ERROR_BROKEN_PIPE = 109
ERROR_PIPE_BUSY = 231
ERROR_NO_DATA = 232
ERROR_PIPE_NOT_CONNECTED = 233
ERROR_OPERATION_ABORTED = 995
ENDED = frozenset((ERROR_BROKEN_PIPE, ERROR_NO_DATA, ERROR_PIPE_NOT_CONNECTED, ERROR_OPERATION_ABORTED))


def dial(path: str, timeout: float | None) -> int:
    """The handle of a connection to a pipe that somebody listens on. A busy pipe is tried again, a missing one is an
    error at once: FileNotFoundError."""
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
    """`close` only wakes all who wait; `release`, called by the last user, gives the handle back."""

    __slots__ = ("_closed", "_handle", "_lock", "_reading", "_timeout", "_writing")

    def __init__(self, handle: int, timeout: float | None = None) -> None:
        self._handle = handle
        self._timeout = timeout
        self._lock = allocate_lock()
        self._closed = False
        self._reading: Overlapped | None = None
        self._writing: Overlapped | None = None

    def settimeout(self, timeout: float | None, /) -> None:
        """Of every later operation."""
        self._timeout = timeout

    def recv(self, size: int, /) -> bytes:
        """b"" at the end."""
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
        """What is begun without waiting: all, or nothing while an earlier write is under way. The system keeps what
        it has not delivered yet."""
        writing = self._writing
        if writing is not None:
            _, code = writing.GetOverlappedResult(False)
            if code:
                return 0
            self._writing = None
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
                        pass  # it has just ended

    def release(self) -> None:
        self.close()
        handle, self._handle = self._handle, 0
        if handle:
            _winapi.CloseHandle(handle)

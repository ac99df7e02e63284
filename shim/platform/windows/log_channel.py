"""The pipe `\\\\.\\pipe\\containerd-shim-<namespace>-<id>-log`, which the shim creates and containerd reads.

After a restart containerd connects again: the new reader replaces the old one. `write` never blocks: a thread of the
channel writes, since Windows cancels the pending writes of a thread that exits. Lines that the reader has not taken,
or that come before the first reader, are buffered up to a limit; further lines are lost and counted.
"""

from __future__ import annotations

from _thread import allocate_lock
from time import sleep

from shim.platform.windows.endpoint import PIPES, Listener, ListeningPipe, create, inherited
from shim.threads import run_soon

TYPE_CHECKING = False
if TYPE_CHECKING:
    from shim.platform.windows.pipe import PipeStream

BUFFER_LIMIT = 64 << 10
# How long `close` waits for the last lines, and the pause after an error of the pipe, in seconds.
CLOSE_TIMEOUT = 0.5
PAUSE = 0.2


class LogChannel:
    """Writes whole lines in order, or drops them."""

    __slots__ = (
        "_buffer", "_closed", "_has_writer", "_listener", "_lock", "_lost", "_reader", "_replaced", "_sending", "_wake",
        "_written",
    )  # fmt: skip

    def __init__(self, bundle: str, namespace: str, id: str, handle: int = 0) -> None:
        """`handle`: the first instance of the pipe, if the parent has created it."""
        del bundle
        self._lock = allocate_lock()
        self._reader: PipeStream | None = None
        self._replaced: list[PipeStream] = []  # closed, and not released yet
        self._buffer = b""
        self._sending = b""
        self._lost = 0
        self._closed = False
        self._has_writer = False
        self._wake = allocate_lock()  # released to wake the writer thread
        self._wake.acquire()
        self._written = allocate_lock()  # released when the writer thread has written everything after `close`
        self._written.acquire()
        self._listener: Listener | None = None
        path = f"{PIPES}containerd-shim-{namespace}-{id}-log"
        try:
            pipe = inherited(path, handle) if handle else ListeningPipe(path, create(path, first=True))
            self._listener = Listener(pipe)
        except OSError:
            return  # the name is taken: the shim runs without a log
        run_soon(self._accept, self._listener)

    def write(self, line: bytes) -> None:
        with self._lock:
            if self._listener is None:
                return
            if len(self._buffer) + len(self._sending) + len(line) > BUFFER_LIMIT:
                self._lost += 1
            else:
                if self._lost:
                    self._buffer += b'level=warning msg="log lines lost, no reader" count=%d\n' % self._lost
                    self._lost = 0
                self._buffer += line
            self._wake_writer()

    def close(self) -> None:
        """Write what is buffered, for a limited time. The threads of the channel close the pipe."""
        with self._lock:
            listener, self._listener = self._listener, None
            self._closed = True
            is_pending = self._reader is not None and bool(self._buffer or self._sending)
            self._wake_writer()
        if listener is not None:
            listener.close()
        if is_pending and not self._written.acquire(True, CLOSE_TIMEOUT):
            with self._lock:
                if self._reader is not None:
                    self._reader.close()  # it reads nothing: wake the writer

    def _accept(self, listener: Listener) -> None:
        while True:
            try:
                reader = listener.accept()
            except OSError:
                if listener.closed:
                    listener.release()
                    return
                sleep(PAUSE)
                continue
            with self._lock:
                if self._closed:
                    reader.release()
                    continue
                if self._reader is not None:
                    self._reader.close()  # the writer thread may be using it
                    self._replaced.append(self._reader)
                self._reader = reader
                if not self._has_writer:
                    run_soon(self._write_buffered)
                    self._has_writer = True
                self._wake_writer()

    # -- the writer thread

    def _wake_writer(self) -> None:
        """With the lock held."""
        if self._has_writer and self._wake.locked():
            self._wake.release()

    def _write_buffered(self) -> None:
        while True:
            self._wake.acquire()
            while self._write_once():
                pass
            if self._closed:
                with self._lock:
                    if self._reader is not None:
                        self._reader.release()
                        self._reader = None
                self._written.release()
                return

    def _write_once(self) -> bool:
        """Write the buffer and wait until the reader has taken it. False if there is nothing to do."""
        with self._lock:
            for replaced in self._replaced:
                replaced.release()
            self._replaced.clear()
            reader = self._reader
            if reader is None or not self._buffer:
                return False
            data = self._sending = self._buffer
            self._buffer = b""
        try:
            reader.sendall(data)
        except OSError:
            with self._lock:
                self._sending = b""
                self._buffer = data + self._buffer  # for the next reader, in whole lines
                if self._reader is reader:
                    self._reader = None
                    reader.release()
            return True
        with self._lock:
            self._sending = b""
        return True

"""The pipe `\\\\.\\pipe\\containerd-shim-<namespace>-<id>-log`, which the shim creates and containerd reads.

After a restart containerd connects again: the new reader replaces the old one. Writing never blocks. One write is in
flight at a time; lines that come meanwhile, or before the first reader, are buffered up to a limit, then lost and
counted.
"""

from __future__ import annotations

from _thread import allocate_lock, start_new_thread

from shim.platform.windows.endpoint import PIPES, Listener, ListeningPipe, create

TYPE_CHECKING = False
if TYPE_CHECKING:
    from shim.platform.windows.pipe import PipeStream

BUFFER_LIMIT = 64 << 10


class LogChannel:
    """Writes whole lines in order, or drops them."""

    __slots__ = ("_buffer", "_listener", "_lock", "_lost", "_reader")

    def __init__(self, bundle: str, namespace: str, id: str) -> None:
        del bundle
        self._lock = allocate_lock()
        self._reader: PipeStream | None = None
        self._buffer = b""
        self._lost = 0
        self._listener: Listener | None = None
        path = f"{PIPES}containerd-shim-{namespace}-{id}-log"
        try:
            self._listener = Listener(ListeningPipe(path, create(path, first=True)))
        except OSError:
            return  # the name is taken: the shim runs without a log
        start_new_thread(self._accept, (self._listener,))

    def _accept(self, listener: Listener) -> None:
        try:
            while True:
                reader = listener.accept()
                with self._lock:
                    before, self._reader = self._reader, reader
                    self._send()
                if before is not None:
                    before.release()
        except OSError:
            listener.release()

    def write(self, line: bytes) -> None:
        with self._lock:
            if self._listener is None:
                return
            if len(self._buffer) + len(line) > BUFFER_LIMIT:
                self._lost += 1
            else:
                if self._lost:
                    self._buffer += b'level=warning msg="log lines lost, no reader" count=%d\n' % self._lost
                    self._lost = 0
                self._buffer += line
            self._send()

    def _send(self) -> None:
        """With the lock held: start to write the buffer, if no write is in flight."""
        if self._reader is None or not self._buffer:
            return
        try:
            if self._reader.send_now(self._buffer):
                self._buffer = b""
        except OSError:
            reader, self._reader = self._reader, None
            reader.release()  # it has disconnected; another may connect

    def close(self) -> None:
        with self._lock:
            listener, self._listener = self._listener, None
            reader, self._reader = self._reader, None
        if listener is not None:
            listener.close()
        if reader is not None:
            try:
                if self._buffer:
                    reader.send_now(self._buffer)
            except OSError:
                pass
            # The last write may still be in flight; the process's exit closes the handle after it.

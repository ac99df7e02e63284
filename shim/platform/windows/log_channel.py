"""The pipe `\\\\.\\pipe\\containerd-shim-<namespace>-<id>-log`, which the shim makes and containerd reads.

A containerd that restarts dials again: the new reader takes the old one's place. Writing never blocks. One write is
under way at a time; what comes meanwhile, or before the first reader, is kept up to a limit and then lost and counted.
"""

from __future__ import annotations

from _thread import allocate_lock, start_new_thread

from shim.platform.windows.endpoint import PIPES, Listener, ListeningPipe, create

TYPE_CHECKING = False
if TYPE_CHECKING:
    from shim.platform.windows.pipe import PipeStream

KEPT = 64 << 10


class LogChannel:
    """Lines in, whole and in order, or not at all."""

    __slots__ = ("_kept", "_listener", "_lock", "_lost", "_reader")

    def __init__(self, bundle: str, namespace: str, id: str) -> None:
        del bundle
        self._lock = allocate_lock()
        self._reader: PipeStream | None = None
        self._kept = b""
        self._lost = 0
        self._listener: Listener | None = None
        path = f"{PIPES}containerd-shim-{namespace}-{id}-log"
        try:
            self._listener = Listener(ListeningPipe(path, create(path, first=True)))
        except OSError:
            return  # the name is taken: a log is not worth failing for
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
            if len(self._kept) + len(line) > KEPT:
                self._lost += 1
            else:
                if self._lost:
                    self._kept += b'level=warning msg="log lines were lost, nobody read them" count=%d\n' % self._lost
                    self._lost = 0
                self._kept += line
            self._send()

    def _send(self) -> None:
        """With the lock held: begin to write what is kept, if nothing is being written."""
        if self._reader is None or not self._kept:
            return
        try:
            if self._reader.send_now(self._kept):
                self._kept = b""
        except OSError:
            reader, self._reader = self._reader, None
            reader.release()  # it is gone; another may come

    def close(self) -> None:
        with self._lock:
            listener, self._listener = self._listener, None
            reader, self._reader = self._reader, None
        if listener is not None:
            listener.close()
        if reader is not None:
            try:
                if self._kept:
                    reader.send_now(self._kept)
            except OSError:
                pass
            # The system still holds what was written last; the process's end closes the handle after it.

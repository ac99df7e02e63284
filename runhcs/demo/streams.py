"""A process's output, read as containerd reads it: through a FIFO that is there before the process is."""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable
from pathlib import Path


class Output:
    """`line` is told each line as it comes. `first` is set when the first byte has come."""

    def __init__(self, path: Path, line: Callable[[str], None], first: Callable[[], None] | None = None) -> None:
        self.path = path
        self._line = line
        self._first = first
        self._rest = b""
        self.text = ""
        os.mkfifo(path, 0o600)
        # Without O_NONBLOCK this would wait for the shim, which in turn comes only when Create has been called.
        self._fifo = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        self._stop, self._stopped = os.pipe()
        self._open = [self._fifo, self._stop, self._stopped]
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        waiting = select.poll()
        waiting.register(self._fifo, select.POLLIN)
        waiting.register(self._stop, select.POLLIN)
        while True:
            ready = dict(waiting.poll())
            if ready.get(self._fifo, 0) & select.POLLIN:
                self._take(os.read(self._fifo, 65536))
            elif self._fifo in ready or self._stop in ready:  # all writers gone, or enough waited
                break
        if self._rest:
            self._take(b"\n")

    def _take(self, data: bytes) -> None:
        if data and self._first is not None:
            self._first()
            self._first = None
        *lines, self._rest = (self._rest + data).split(b"\n")
        for one in lines:
            text = one.decode(errors="replace").rstrip("\r")
            self.text += text + "\n"
            if text:
                self._line(text)

    def close(self, timeout: float) -> None:
        """To the end of the output, which comes when the shim closes its end, but no longer than this. May be
        repeated."""
        self._thread.join(timeout)
        while self._open:
            # The first, which goes first, wakes the thread if it still waits.
            os.close(self._open.pop())
            self._thread.join()
        self.path.unlink(missing_ok=True)

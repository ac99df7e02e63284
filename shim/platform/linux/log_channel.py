"""The FIFO `<bundle>/log`, which containerd creates and reads.

Opened for reading and writing: so it opens without a reader, a write never fails with EPIPE, and lines that are written
while containerd restarts stay in the FIFO. Non-blocking: lines are lost while the FIFO is full, and their number is
logged once there is space again.
"""

from __future__ import annotations

import posix
from _thread import allocate_lock


class LogChannel:
    """Writes whole lines in order, or drops them."""

    __slots__ = ("_descriptor", "_lock", "_lost", "_rest")

    def __init__(self, bundle: str, namespace: str = "", id: str = "") -> None:
        del namespace, id  # not part of the FIFO's name
        self._lock = allocate_lock()
        self._lost = 0
        # The rest of a line that was written partly.
        self._rest = b""
        try:
            flags = posix.O_RDWR | posix.O_NONBLOCK | posix.O_APPEND | posix.O_NOFOLLOW | posix.O_CLOEXEC
            self._descriptor = posix.open(f"{bundle}/log", flags)
        except OSError:
            self._descriptor = -1  # containerd has created none: there is no log

    def write(self, line: bytes) -> None:
        with self._lock:
            if self._descriptor < 0:
                return
            if self._lost:
                line = b'level=warning msg="log lines lost, no reader" count=%d\n' % self._lost + line
            if self._put(line):
                self._lost = 0
            else:
                self._lost += 1

    def _put(self, line: bytes) -> bool:
        """False if nothing of the line was written."""
        if self._rest:
            taken = self._send(self._rest)
            self._rest = self._rest[taken:]
            if self._rest:
                return False
        taken = self._send(line)
        if not taken:
            return False
        self._rest = line[taken:]
        return True

    def _send(self, data: bytes) -> int:
        try:
            return posix.write(self._descriptor, data)
        except OSError:
            return 0

    def close(self) -> None:
        with self._lock:
            if self._descriptor >= 0:
                posix.close(self._descriptor)
                self._descriptor = -1

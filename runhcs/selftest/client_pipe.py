"""The client's end of one stream of a process: a named pipe to which a shim connects once.

A shim may have left before its connection is accepted, because the process has exited. That is no reason to wait for
another one: what the shim has written can be read, and a write fails.
"""

from __future__ import annotations

import _winapi
from threading import Lock
from typing import TYPE_CHECKING

from shim.platform.windows import endpoint
from shim.platform.windows.pipe import ENDED, ERROR_NO_DATA, ERROR_OPERATION_ABORTED, PipeStream

if TYPE_CHECKING:
    from _winapi import Overlapped

_ERROR_PIPE_CONNECTED = 535


class ClientPipe:
    """The name exists from the beginning, so before Create. `stop` ends an accept or a read in another thread."""

    def __init__(self, name: str) -> None:
        self.path = rf"\\.\pipe\{name}"
        self._handle = endpoint.create(self.path, first=True)
        self._stream = PipeStream(self._handle)
        self._lock = Lock()
        self._stopped = False
        self._is_connected = False
        self._waiting: Overlapped | None = None

    def accept(self) -> PipeStream:
        """Raises OSError after `stop`."""
        if not self._is_connected:
            self._wait_connected()
            self._is_connected = True
        return self._stream

    def _wait_connected(self) -> None:
        with self._lock:
            if self._stopped:
                raise OSError(ERROR_OPERATION_ABORTED, f"{self.path} is closed")
            try:
                self._waiting = _winapi.ConnectNamedPipe(self._handle, overlapped=True)
            except OSError as error:
                if error.winerror in (_ERROR_PIPE_CONNECTED, ERROR_NO_DATA):
                    return
                raise
        try:
            _, code = self._waiting.GetOverlappedResult(True)
        except OSError as error:
            if error.winerror not in ENDED:
                raise
            code = 0  # it connected and left at once
        finally:
            self._waiting = None
        if code:
            raise OSError(code, f"{self.path} was closed before a shim connected to it")

    def stop(self) -> None:
        with self._lock:
            self._stopped = True
            if self._waiting is not None:
                try:
                    self._waiting.cancel()
                except OSError:
                    pass  # a shim has just connected
        self._stream.close()

    def close(self) -> None:
        self.stop()
        self._stream.release()

"""The guest's log, forwarded to the shim's: one thread per VM, one connection at a time, until the VM exits."""

from __future__ import annotations

import json
from threading import Lock, Thread

TYPE_CHECKING = False
if TYPE_CHECKING:
    from shim.logs import Log
    from shim.platform.hvsocket import Listener, Stream

MAX_LINE = 64 << 10
DRAIN_SECONDS = 1.0
_LEVELS = {"trace": "trace", "debug": "debug", "info": "info", "information": "info", "verbose": "debug"}
_LEVELS |= {"warn": "warning", "warning": "warning"}


class GuestLog:
    def __init__(self, listener: Listener, log: Log, vm_id: str) -> None:
        self._listener = listener
        self._log = log.bind(**{"uvm-id": vm_id})
        self._lock = Lock()
        self._stream: Stream | None = None
        self._closed = False
        self._thread = Thread(target=self._run, name=f"guest-log:{vm_id}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """The VM has exited: what it has sent is still read, for a moment."""
        self._listener.close()
        self._thread.join(DRAIN_SECONDS)
        with self._lock:
            self._closed = True
            stream = self._stream
        if stream is not None:
            stream.close()
            self._thread.join(DRAIN_SECONDS)

    def _run(self) -> None:
        while True:
            try:
                stream = self._listener.accept(None)
            except OSError:
                return
            with self._lock:
                self._stream = stream
                if self._closed:
                    stream.close()
                    return
            try:
                self._read(stream)
            except OSError:
                pass  # the connection is lost; the guest may connect again
            finally:
                with self._lock:
                    self._stream = None
                stream.close()

    def _read(self, stream: Stream) -> None:
        buffer = b""
        while data := stream.recv(65536):
            buffer += data
            *lines, buffer = buffer.split(b"\n")
            for line in lines:
                self._emit(line)
            if len(buffer) > MAX_LINE:
                self._emit(buffer)
                buffer = b""
        self._emit(buffer)

    def _emit(self, line: bytes) -> None:
        text = line.decode("utf-8", "replace").strip()
        if not text:
            return
        level, fields = "info", {}
        try:
            entry = json.loads(text)
        except (ValueError, RecursionError):
            entry = None
        if isinstance(entry, dict):
            entry = {str(name).lower(): value for name, value in entry.items()}
            # Every level above warning is an error here: a guest's panic is not the shim's.
            level = _LEVELS.get(str(entry.pop("level", "info")).lower(), "error")
            text = str(entry.pop("message", entry.pop("msg", "guest log")))
            fields = {f"guest_{name}": str(value) for name, value in entry.items()}
        getattr(self._log, level)(text, **fields)

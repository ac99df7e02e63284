"""The guest's log, forwarded to the shim's: one thread per VM, one connection at a time, until the VM exits."""

from __future__ import annotations

import json
import time
from threading import Event, Lock

from shim.threads import run_soon
from shim.uvm.gcs.guest_entries import FLOOD_BYTES, PAUSE_SECONDS, RateLimit, pause_after, safe_fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from shim.logs import Log
    from shim.platform.hvsocket import Listener, Stream

MAX_LINE = 64 << 10
DRAIN_SECONDS = 1.0
READ_SIZE = 8 << 10
_LEVELS = {"trace": "debug", "debug": "debug", "info": "info", "information": "info", "verbose": "debug"}
_LEVELS |= {"warn": "warning", "warning": "warning"}


class GuestLog:
    def __init__(self, listener: Listener, log: Log, vm_id: str) -> None:
        self._listener = listener
        self._log = log.bind(**{"uvm-id": vm_id})
        self._rate = RateLimit(self._log)
        self._lock = Lock()
        self._stream: Stream | None = None
        self._closed = False
        self._closing = Event()
        self._ended = Event()
        run_soon(self._run)

    def close(self) -> None:
        """The VM has exited: what it has sent is still read, for a moment."""
        self._closing.set()
        self._listener.close()
        self._ended.wait(DRAIN_SECONDS)
        with self._lock:
            self._closed = True
            stream = self._stream
        if stream is not None:
            stream.close()
            self._ended.wait(DRAIN_SECONDS)

    def _run(self) -> None:
        try:
            self._accept_and_read()
        finally:
            self._ended.set()

    def _accept_and_read(self) -> None:
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
            except Exception as error:
                self._log.warning("guest log could not be read", error=f"{type(error).__name__}: {error}")
            finally:
                with self._lock:
                    self._stream = None
                stream.close()
            self._closing.wait(PAUSE_SECONDS)  # a guest may connect as often as it can

    def _read(self, stream: Stream) -> None:
        buffer = b""
        while data := stream.recv(READ_SIZE):
            begun = time.monotonic()
            buffer += data
            *lines, buffer = buffer.split(b"\n")
            for line in lines:
                self._emit(line)
            if len(buffer) > MAX_LINE:
                self._emit(buffer)
                buffer = b""
            if self._rate.is_exceeded or len(data) >= FLOOD_BYTES:
                pause_after(begun)
        self._emit(buffer)
        self._rate.report()

    def _emit(self, line: bytes) -> None:
        if not line.strip() or not self._rate.take(len(line)):
            return
        text = line.decode("utf-8", "replace").strip()
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
            fields = {name: str(value) for name, value in safe_fields(entry, prefix="guest_").items()}
        getattr(self._log, level)(text, **fields)

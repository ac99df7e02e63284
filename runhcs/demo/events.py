"""containerd's events endpoint, as the demo serves it: what shims forward is shown in the order it arrives."""

from __future__ import annotations

import socket
import threading
from pathlib import Path
from typing import Any

from runhcs.demo import DemoError
from runhcs.demo.record import EVENT, Record
from runhcs.task_events import SERVICE, exec_of, read
from shim.api import events as api
from shim.ttrpc.server import Call, Method, Server

TIMEOUT = 5.0


class Events:
    def __init__(self, path: Path) -> None:
        self.path = path
        self._record: Record | None = None
        self._come = threading.Condition()
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(str(path))
        listening.listen(16)
        self._server = Server({SERVICE: {"Forward": Method.inline(self._forward)}})
        self._thread = threading.Thread(target=self._server.serve, args=(listening,), daemon=True)
        self._thread.start()

    def show_in(self, record: Record) -> None:
        """From here on, what comes is shown in this record."""
        with self._come:
            self._record = record

    def _forward(self, call: Call) -> bytes:
        if found := read(call.payload):
            name, event = found
            with self._come:
                if self._record is not None:
                    status = getattr(event, "exit_status", None)
                    self._record.note(EVENT, name, describe(event), about=event.container_id, exit_status=status)
                self._come.notify_all()
        return b""

    def expect(self, wanted: list[str], about: str = "") -> None:
        """These and no others, in this order, are what containerd must have seen (of one container, if named)."""
        with self._come:
            record = self._record
            if record is None:
                return
            self._come.wait_for(lambda: len(record.names(EVENT, about)) >= len(wanted), TIMEOUT)
            got = record.names(EVENT, about)
        if got != wanted:
            raise DemoError(f"containerd would have seen the events {', '.join(got)}, not {', '.join(wanted)}")

    def close(self) -> None:
        self._server.shutdown(2)
        self._thread.join(2)
        self.path.unlink(missing_ok=True)


def describe(event: Any) -> str:
    """What the event says beyond its topic and its container."""
    words = []
    if exec_id := exec_of(event):
        words.append(f"exec {exec_id}")
    if pid := getattr(event, "pid", 0):
        words.append(f"pid {pid}")
    if isinstance(event, api.TaskExit | api.TaskDelete):
        words.append(f"exit status {status_text(event.exit_status)}")
    return ", ".join(words)


def status_text(status: int) -> str:
    """Windows' own codes are written in hexadecimal."""
    return str(status) if status < 0x8000 else f"0x{status:08X}"

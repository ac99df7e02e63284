"""What containerd provides to a shim, for the parts of the demo without containerd: specs and options, the FIFOs of
stdio, and the ttrpc endpoint for events."""

from __future__ import annotations

import json
import os
import select
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from runhcs.demo import DemoError
from runhcs.demo.output import EVENT, Record
from runhcs.demo.workspace import Workspace
from runhcs.task_events import SERVICE, exec_of, read
from shim.api import events as api
from shim.api.runhcs_options import Options
from shim.api.types import Mount
from shim.api.wellknown import Any as PackedAny
from shim.ttrpc.server import Call, Method, Server

EVENTS_TIMEOUT = 5.0


# Specs, root file systems, options.


def windows_spec(*args: str, hostname: str) -> dict[str, Any]:
    """Without a root file system, which is in the Create request."""
    return {
        "ociVersion": "1.1.0",
        "hostname": hostname,
        "process": {"args": list(args), "cwd": "C:\\", "user": {"username": "ContainerUser"}},
        "root": {"path": ""},
        "windows": {"layerFolders": None, "ignoreFlushesDuringBoot": True},
    }


def isolated_spec(*args: str, hostname: str, pod: str = "", role: str = "") -> dict[str, Any]:
    """Hypervisor-isolated, in a utility VM of its own or of its pod."""
    spec = windows_spec(*args, hostname=hostname)
    spec["windows"]["hyperv"] = {}
    if pod:
        spec["annotations"] = {"io.kubernetes.cri.container-type": role, "io.kubernetes.cri.sandbox-id": pod}
    return spec


def layer_mount(workspace: Workspace, id: str) -> Mount:
    """As the windows snapshotter of containerd creates it."""
    parents = json.dumps([str(workspace.base)])
    return Mount(type="windows-layer", source=str(workspace.scratch(id)), options=["rw", f"parentLayerPaths={parents}"])


def vm_options(processors: int, megabytes: int) -> PackedAny:
    """The options of a runtime such as runhcs-wcow-hypervisor."""
    options = Options(
        sandbox_isolation=Options.SandboxIsolation.HYPERVISOR,
        sandbox_platform="windows/amd64",
        vm_processor_count=processors,
        vm_memory_size_in_mb=megabytes,
    )
    return PackedAny(type_url=Options.FULL_NAME, value=options.encode())


# Stdio.


class OutputFifo:
    """Reads a FIFO in a thread. `on_line` gets each line, `on_first` is called at the first byte."""

    def __init__(self, path: Path, on_line: Callable[[str], None], on_first: Callable[[], None] | None = None) -> None:
        self.path = path
        self._on_line = on_line
        self._on_first = on_first
        self._rest = b""
        self.text = ""
        os.mkfifo(path, 0o600)
        # Without O_NONBLOCK open() would wait for the shim, which opens its end only in Create.
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
                self._receive(os.read(self._fifo, 65536))
            elif self._fifo in ready or self._stop in ready:  # all writers have closed, or close() was called
                break
        if self._rest:
            self._receive(b"\n")

    def _receive(self, data: bytes) -> None:
        if data and self._on_first is not None:
            self._on_first()
            self._on_first = None
        *lines, self._rest = (self._rest + data).split(b"\n")
        for one in lines:
            text = one.decode(errors="replace").rstrip("\r")
            self.text += text + "\n"
            if text:
                self._on_line(text)

    def close(self, timeout: float) -> None:
        """Wait until the shim closes its end, for at most this time. May be repeated."""
        self._thread.join(timeout)
        while self._open:
            # Closing the first one, the write end of the pipe, wakes the thread if it still waits.
            os.close(self._open.pop())
            self._thread.join()
        self.path.unlink(missing_ok=True)


# Events.


class EventsEndpoint:
    """The ttrpc endpoint of containerd for events; they are recorded in the order of their arrival."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._record: Record | None = None
        self._arrived = threading.Condition()
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(path))
        listener.listen(16)
        self._server = Server({SERVICE: {"Forward": Method.inline(self._forward)}})
        self._thread = threading.Thread(target=self._server.serve, args=(listener,), daemon=True)
        self._thread.start()

    def record_in(self, record: Record) -> None:
        with self._arrived:
            self._record = record

    def _forward(self, call: Call) -> bytes:
        if found := read(call.payload):
            name, event = found
            with self._arrived:
                if self._record is not None:
                    status = getattr(event, "exit_status", None)
                    self._record.add(EVENT, name, describe_event(event), about=event.container_id, exit_status=status)
                self._arrived.notify_all()
        return b""

    def expect(self, expected: list[str], about: str = "") -> None:
        """Wait for exactly these events, in this order (of one container, if named). Raises DemoError."""
        with self._arrived:
            record = self._record
            if record is None:
                return
            self._arrived.wait_for(lambda: len(record.names(EVENT, about)) >= len(expected), EVENTS_TIMEOUT)
            got = record.names(EVENT, about)
        if got != expected:
            raise DemoError(f"the shim published the events {', '.join(got)}, not {', '.join(expected)}")

    def close(self) -> None:
        self._server.shutdown(2)
        self._thread.join(2)
        self.path.unlink(missing_ok=True)


def describe_event(event: Any) -> str:
    """The fields of the event beyond its topic and its container."""
    words = []
    if exec_id := exec_of(event):
        words.append(f"exec {exec_id}")
    if pid := getattr(event, "pid", 0):
        words.append(f"pid {pid}")
    if isinstance(event, api.TaskExit | api.TaskDelete):
        words.append(f"exit status {status_text(event.exit_status)}")
    return ", ".join(words)


def status_text(status: int) -> str:
    """NTSTATUS codes are written in hexadecimal."""
    return str(status) if status < 0x8000 else f"0x{status:08X}"

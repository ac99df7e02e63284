"""Receives the entries of shims (`shim.recording`) and writes them to one file, of limited size.

The file has JSON lines: a header, the entries of all shims with the number of their shim, and an end, which says that
the file is whole.
"""

from __future__ import annotations

import json
import os
import threading
import time
from typing import Any

from attrs import define, field

from shim.api.record import AddRequest, AddResponse, HelloRequest, HelloResponse
from shim.platform import endpoint, host
from shim.recording.recorder import SERVICE
from shim.ttrpc.server import Call, Method, Server
from shim.version import VERSION

FORMAT = "runhcs-recording"
FORMAT_VERSION = 1
SHUTDOWN_SECONDS = 2.0
# The end must fit, whatever the limit.
END_BYTES = 1000


@define
class Source:
    """One shim that is recorded."""

    number: int
    namespace: str
    id: str
    entries: int = 0
    ended: bool = False


@define
class Selection:
    """Which shims are recorded, and what of them."""

    namespace: str = ""
    command_lines: bool = False


@define
class _State:
    sources: dict[Any, Source] = field(factory=dict)
    size: int = 0
    left_out: int = 0
    stopping: bool = False


class Receiver:
    """Listens until `close`. `full` is set when the file has its greatest size."""

    def __init__(self, address: str, path: str, limit: int, selection: Selection) -> None:
        """Raises OSError for the file, EndpointError for the address."""
        self.address = address
        self._limit = limit
        self._selection = selection
        self._lock = threading.Lock()
        self._state = _State()
        self.full = threading.Event()
        self._changed = threading.Condition(self._lock)
        # For this user only, and never over another file.
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        self._file = os.fdopen(descriptor, "w", encoding="utf-8", newline="\n")
        try:
            listener = endpoint.Listener(endpoint.listen(address))
        except BaseException:
            self._file.close()
            os.unlink(path)
            raise
        self._write({
            "format": FORMAT, "version": FORMAT_VERSION, "time": time.time_ns(), "runhcs": VERSION,
            "system": "emulator" if host.IS_EMULATED else "windows", "command_lines": selection.command_lines,
        })  # fmt: skip
        self._file.flush()
        methods = {"Hello": Method.worker(self._hello), "Add": Method.worker(self._add)}
        self._server = Server({SERVICE: methods})
        threading.Thread(target=self._server.serve, args=(listener,), daemon=True).start()

    @property
    def sources(self) -> list[Source]:
        with self._lock:
            return list(self._state.sources.values())

    @property
    def size(self) -> int:
        return self._state.size

    @property
    def left_out(self) -> int:
        """Entries that did not fit."""
        return self._state.left_out

    def _hello(self, call: Call) -> bytes:
        identity = json.loads(HelloRequest.decode(call.payload).json)
        with self._lock:
            state = self._state
            accepted = not state.stopping and self._selection.namespace in ("", identity["namespace"])
            if accepted:
                number = len(state.sources) + 1
                state.sources[call.connection] = Source(number, identity["namespace"], identity["id"])
                self._write({"kind": "shim", "shim": number, **identity})
        return HelloResponse(accepted=accepted, command_lines=self._selection.command_lines).encode()

    def _add(self, call: Call) -> bytes:
        request = AddRequest.decode(call.payload)
        with self._lock:
            source = self._state.sources.get(call.connection)
            if source is not None:
                for line in request.json.splitlines():
                    entry = json.loads(line)
                    if self._write({"kind": entry.pop("kind"), "shim": source.number, **entry}):
                        source.entries += 1
                self._file.flush()  # whatever happens to this process
                if request.last:
                    source.ended = True
                    self._changed.notify_all()
            return AddResponse(stop=self._state.stopping or source is None or self.full.is_set()).encode()

    def _write(self, entry: dict[str, Any]) -> bool:
        line = json.dumps(entry, separators=(",", ":"), ensure_ascii=False) + "\n"
        size = len(line.encode("utf-8", "surrogatepass"))
        if self.full.is_set() or self._state.size + size > self._limit - END_BYTES:
            self._state.left_out += 1
            self.full.set()
            return False
        self._file.write(line.encode("utf-8", "replace").decode())
        self._state.size += size
        return True

    def close(self, timeout: float) -> None:
        """Ask the shims for the rest, wait for it at most this long, and complete the file."""
        deadline = time.monotonic() + timeout
        with self._lock:
            self._state.stopping = True
            self._changed.wait_for(
                lambda: all(one.ended for one in self._state.sources.values()), max(0.0, deadline - time.monotonic())
            )
        endpoint.remove(self.address)
        self._server.shutdown(SHUTDOWN_SECONDS)
        with self._lock:
            lost = [one.number for one in self._state.sources.values() if not one.ended]
            end = {"kind": "end", "time": time.time_ns(), "left_out": self._state.left_out, "lost": lost}
            self._file.write(json.dumps(end, separators=(",", ":")) + "\n")
            self._file.close()

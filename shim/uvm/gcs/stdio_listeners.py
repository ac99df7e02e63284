"""Stdio of processes in a guest: a Hyper-V socket listener per stream, to which the guest connects.

Service ids count up from 40000001 for the lifetime of the VM. A listener exists from right before the process is
created until its connection is accepted; if the VM exits in between, closing the listener ends the wait.
"""

from __future__ import annotations

import time
from threading import Lock

from shim.hcs_bindings.errors import SYSTEM_ALREADY_STOPPED, HcsError
from shim.platform import hvsocket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

FIRST = 0x40000001
SERVICE = "{:08x}-facb-11e6-bd58-64006a7986d3"
# How long a guest that has started the process may take to connect its streams.
CONNECT_SECONDS = 30.0


class StdioListeners:
    """All listeners of one VM that wait for a connection."""

    def __init__(self, vm_id: str) -> None:
        self._vm_id = vm_id
        self._lock = Lock()
        self._next = FIRST
        self._listeners: set[hvsocket.Listener] = set()
        self._closed = False

    def listen(self, names: Sequence[str]) -> ProcessListeners:
        """Listen for the streams of one process (`StdIn`, `StdOut`, `StdErr`)."""
        process = ProcessListeners(self)
        try:
            for name in names:
                process.listeners[name] = self._listen()
        except BaseException:
            process.close()
            raise
        return process

    def _listen(self) -> hvsocket.Listener:
        with self._lock:
            if self._closed:
                raise HcsError(SYSTEM_ALREADY_STOPPED, f"guest stdio {self._vm_id}", detail="the VM has exited")
            number = self._next
            self._next += 1
            listener = hvsocket.listen(self._vm_id, SERVICE.format(number))
            self._listeners.add(listener)
        return listener

    def done(self, listener: hvsocket.Listener) -> None:
        with self._lock:
            self._listeners.discard(listener)
        listener.close()

    def close(self) -> None:
        """The VM has exited: the guest will not connect any more."""
        with self._lock:
            self._closed = True
            listeners, self._listeners = list(self._listeners), set()
        for listener in listeners:
            listener.close()


class ProcessListeners:
    """The listeners for the streams of one process."""

    def __init__(self, owner: StdioListeners) -> None:
        self._owner = owner
        self.listeners: dict[str, hvsocket.Listener] = {}

    @property
    def services(self) -> dict[str, str]:
        return {name: listener.service_id for name, listener in self.listeners.items()}

    def accept(self) -> dict[str, hvsocket.Stream]:
        """The connections, which the caller owns. Raises HcsError, and leaves none open."""
        deadline = time.monotonic() + CONNECT_SECONDS
        streams: dict[str, hvsocket.Stream] = {}
        try:
            for name, listener in self.listeners.items():
                streams[name] = listener.accept(max(0.1, deadline - time.monotonic()))
        except OSError as error:
            for stream in streams.values():
                stream.close()
            detail = f"the guest did not connect {name} of a process it started: {error}"
            raise HcsError(SYSTEM_ALREADY_STOPPED, "guest stdio", detail=detail) from error
        return streams

    def close(self) -> None:
        for listener in self.listeners.values():
            self._owner.done(listener)
        self.listeners = {}

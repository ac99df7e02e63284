"""Emulated Hyper-V sockets: Unix sockets at `hvsock/<vm id>/<service id>` in the emulator's directory.

The listener creates and removes the socket; the emulator creates and removes the VM's directory.
"""

from __future__ import annotations

import os
from _socket import AF_UNIX, SOCK_CLOEXEC, SOCK_STREAM, socket

from shim.platform.hvsocket_stream import Stream, shut

DEFAULT_DIRECTORY = "/run/hcs-emulator"
BACKLOG = 16


class Listener:
    """Listens for one service of one VM. `close` wakes a thread that blocks in `accept`."""

    __slots__ = ("_path", "_socket", "service_id")

    def __init__(self, listening: socket, path: str, service_id: str) -> None:
        self._socket = listening
        self._path = path
        self.service_id = service_id

    def accept(self, timeout: float | None) -> Stream:
        """The next connection. TimeoutError when none comes in time, OSError when the listener was closed."""
        self._socket.settimeout(timeout)
        descriptor, _ = self._socket._accept()  # type: ignore[attr-defined]
        connection = socket(fileno=descriptor)
        connection.settimeout(None)
        return Stream(connection)

    def close(self) -> None:
        try:
            os.unlink(self._path)
        except OSError:
            pass
        shut(self._socket)


def directory() -> str:
    """The emulator's directory."""
    return os.environ.get("HCS_EMULATOR_DIR") or DEFAULT_DIRECTORY


def listen(vm_id: str, service_id: str) -> Listener:
    """Raises OSError, for example if there is no such VM."""
    of_vm = os.path.join(directory(), "hvsock", vm_id)
    path = os.path.join(of_vm, service_id)
    listening = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC)
    try:
        # Bind by way of a descriptor: a socket's path is limited to 107 bytes, and the directory's may be longer.
        descriptor = os.open(of_vm, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            listening.bind(f"/proc/self/fd/{descriptor}/{service_id}")
        finally:
            os.close(descriptor)
        listening.listen(BACKLOG)
    except OSError:
        listening.close()
        raise
    return Listener(listening, path, service_id)


class AddressInfo:
    """As on Windows: here a file with the VM's id, named by the container's GUID."""

    __slots__ = ("_path",)

    def __init__(self, system_id: str, vm_id: str) -> None:
        addresses = os.path.join(directory(), "hvsock-addresses")
        os.makedirs(addresses, mode=0o700, exist_ok=True)
        self._path = os.path.join(addresses, system_id)
        with open(self._path, "xb", buffering=0) as file:
            file.write(vm_id.encode())

    def close(self) -> None:
        try:
            os.unlink(self._path)
        except FileNotFoundError:
            pass

"""Hyper-V sockets with Winsock: the address is the VM's runtime id and the service's GUID
(https://learn.microsoft.com/en-us/virtualization/hyper-v-on-windows/user-guide/make-integration-service).

Winsock is loaded with the first socket: a shim without a VM needs none.
"""

from __future__ import annotations

from shim.platform.hvsocket_stream import Stream, shut

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket

AF_HYPERV = 34
HV_PROTOCOL_RAW = 1
BACKLOG = 16


class Listener:
    """Listens for one service of one VM. `close` wakes a thread that blocks in `accept`."""

    __slots__ = ("_socket", "service_id")

    def __init__(self, listening: socket, service_id: str) -> None:
        self._socket = listening
        self.service_id = service_id

    def accept(self, timeout: float | None) -> Stream:
        """The next connection. TimeoutError when none comes in time, OSError when the listener was closed."""
        from _socket import SOCK_STREAM, socket

        self._socket.settimeout(timeout)
        descriptor, _ = self._socket._accept()  # type: ignore[attr-defined]
        connection = socket(AF_HYPERV, SOCK_STREAM, HV_PROTOCOL_RAW, descriptor)
        connection.settimeout(None)
        return Stream(connection)

    def close(self) -> None:
        shut(self._socket)


def listen(vm_id: str, service_id: str) -> Listener:
    """Raises OSError, for example if there is no such VM."""
    from _socket import SOCK_STREAM, socket

    listening = socket(AF_HYPERV, SOCK_STREAM, HV_PROTOCOL_RAW)
    try:
        listening.bind((vm_id, service_id))
        listening.listen(BACKLOG)
    except OSError:
        listening.close()
        raise
    return Listener(listening, service_id)

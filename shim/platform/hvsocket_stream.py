"""One connection of a Hyper-V socket, which is a socket like any other on either system.

Nothing here loads the library of sockets: whoever has a connection has loaded it.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket


class Stream:
    """One connection. Closing it wakes whoever reads from it."""

    __slots__ = ("_socket",)

    def __init__(self, connection: socket) -> None:
        self._socket = connection

    def limit_sends(self, seconds: float) -> None:
        """Let a send fail with TimeoutError when the other end has not read for so long."""
        self._socket.settimeout(seconds)

    def recv(self, size: int, /) -> bytes:
        while True:
            try:
                return self._socket.recv(size)
            except TimeoutError:
                pass  # nothing has come, which may take for ever

    def sendall(self, data: bytes, /) -> None:
        self._socket.sendall(data)

    def detach(self) -> int:
        """The descriptor or handle, which is the caller's from now on."""
        return self._socket.detach()

    def close(self) -> None:
        shut(self._socket)


def shut(connection: socket) -> None:
    from _socket import SHUT_RDWR

    try:
        connection.shutdown(SHUT_RDWR)
    except OSError:
        pass  # the other end was first
    connection.close()

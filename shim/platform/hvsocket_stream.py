"""One connection of a Hyper-V socket: an ordinary stream socket on either system.

This module does not import `_socket`: the caller, who has a connection, has imported it.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket


class Stream:
    """One connection. One thread reads, and `close` wakes it."""

    __slots__ = ("_buffer", "_socket")

    def __init__(self, connection: socket) -> None:
        self._buffer = bytearray()
        self._socket = connection

    def set_send_timeout(self, seconds: float) -> None:
        """Let a send fail with TimeoutError if the peer does not read for so many seconds."""
        self._socket.settimeout(seconds)

    def recv(self, size: int, /) -> bytes:
        """Into the same buffer each time: see `shim.ttrpc.sockets.SocketStream.recv`."""
        if len(self._buffer) < size:
            self._buffer = bytearray(size)
        while True:
            try:
                return bytes(self._buffer[: self._socket.recv_into(self._buffer, size)])
            except TimeoutError:
                pass  # the timeout is for sends only

    def sendall(self, data: bytes, /) -> None:
        self._socket.sendall(data)

    def fileno(self) -> int:
        """The descriptor or handle, which stays ours."""
        return self._socket.fileno()

    def shutdown_write(self) -> None:
        """Send EOF. What was sent before is delivered, which a close does not promise."""
        from _socket import SHUT_WR

        self._socket.shutdown(SHUT_WR)

    def detach(self) -> int:
        """The descriptor or handle, which the caller owns from now on."""
        return self._socket.detach()

    def close(self) -> None:
        shut(self._socket)


def shut(connection: socket) -> None:
    from _socket import SHUT_RDWR

    try:
        connection.shutdown(SHUT_RDWR)
    except OSError:
        pass  # the peer closed it first
    connection.close()

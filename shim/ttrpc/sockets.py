"""Sockets as streams and listeners of ttrpc."""

from __future__ import annotations

import _socket

_NOW = getattr(_socket, "MSG_DONTWAIT", 0) | getattr(_socket, "MSG_NOSIGNAL", 0)


class SocketStream:
    """A connected socket. `close` only shuts it down, which wakes all threads that block on it; `release`, called by
    the reading thread when it is done, closes the descriptor. If it were closed earlier, its number could be reused
    while a thread enters a system call with it."""

    __slots__ = ("_buffer", "_recv_into", "_socket", "sendall")

    def __init__(self, connected: _socket.socket) -> None:
        connected.setblocking(True)
        self._socket = connected
        self._buffer = bytearray()
        self._recv_into = connected.recv_into
        self.sendall = connected.sendall

    def recv(self, size: int, /) -> bytes:
        """For one thread. Reads into the same buffer each time: `socket.recv` allocates `size` bytes and shrinks them
        to what it read. The shrunk block stays in use below the next one, so that the heap of a shim grew for days."""
        if len(self._buffer) < size:
            self._buffer = bytearray(size)
        return bytes(self._buffer[: self._recv_into(self._buffer, size)])

    if _NOW:

        def send_now(self, data: bytes) -> int:
            try:
                return self._socket.send(data, _NOW)
            except BlockingIOError:
                return 0

    def close(self) -> None:
        try:
            self._socket.shutdown(_socket.SHUT_RDWR)
        except OSError:
            pass  # the peer closed it first, or it is released already

    def release(self) -> None:
        self._socket.close()


class SocketListener:
    """A listening socket; `close` and `release` as for a stream."""

    __slots__ = ("_closed", "_socket")

    def __init__(self, listening: _socket.socket) -> None:
        listening.setblocking(True)
        self._socket = listening
        self._closed = False

    @property
    def closed(self) -> bool:
        return self._closed or self._socket.fileno() < 0

    def accept(self) -> SocketStream:
        descriptor, _ = self._socket._accept()  # type: ignore[attr-defined]
        return SocketStream(_socket.socket(self._socket.family, self._socket.type, self._socket.proto, descriptor))

    def close(self) -> None:
        self._closed = True
        try:
            self._socket.shutdown(_socket.SHUT_RDWR)
        except OSError:
            pass

    def release(self) -> None:
        self._socket.close()

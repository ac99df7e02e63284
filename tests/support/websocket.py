"""A client of WebSockets (RFC 6455) with the channels of Kubernetes' streams: one byte of channel, then data.

CRI's Exec, Attach and PortForward answer with the URL of such a stream.
"""

from __future__ import annotations

import base64
import os
import socket
import struct
from typing import Self
from urllib.parse import urlsplit

PROTOCOL = "v4.channel.k8s.io"
STDIN, STDOUT, STDERR, ERROR, RESIZE = range(5)
BINARY, CLOSE, PING, PONG = 2, 8, 9, 10


class WebSocket:
    """An open connection. `channels` holds what was received so far, by channel."""

    def __init__(self, connection: socket.socket, url: str, query: str = "") -> None:
        self._socket = connection
        self._buffer = b""
        self.channels: dict[int, bytes] = {}
        self.closed = False
        parts = urlsplit(url)
        path = parts.path + (f"?{query}" if query else "")
        key = base64.b64encode(os.urandom(16)).decode()
        headers = [
            f"GET {path} HTTP/1.1",
            f"Host: {parts.netloc}",
            "Connection: Upgrade",
            "Upgrade: websocket",
            "Sec-WebSocket-Version: 13",
            f"Sec-WebSocket-Key: {key}",
            f"Sec-WebSocket-Protocol: {PROTOCOL}",
            "Origin: http://localhost",
        ]
        connection.sendall("\r\n".join([*headers, "", ""]).encode())
        head = self._until(b"\r\n\r\n").decode()
        assert head.startswith("HTTP/1.1 101 "), head

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def send(self, channel: int, data: bytes) -> None:
        self._frame(BINARY, bytes([channel]) + data)

    def resize(self, width: int, height: int) -> None:
        self.send(RESIZE, f'{{"Width": {width}, "Height": {height}}}'.encode())

    def receive(self) -> bool:
        """One frame. False once the server has closed the connection."""
        try:
            first, second = self._take(2)
        except EOFError:
            self.closed = True
            return False
        length = second & 0x7F
        if length == 126:
            (length,) = struct.unpack("!H", self._take(2))
        elif length == 127:
            (length,) = struct.unpack("!Q", self._take(8))
        data = self._take(length)
        kind = first & 0x0F
        if kind == CLOSE:
            self.closed = True
            return False
        if kind == PING:
            self._frame(PONG, data)
        elif data:
            self.channels[data[0]] = self.channels.get(data[0], b"") + data[1:]
        return True

    def expect(self, channel: int, text: bytes) -> None:
        """Receive until the channel has this text."""
        while text not in self.channels.get(channel, b""):
            assert self.receive(), f"closed without {text!r}: {self.channels}"

    def read_all(self) -> dict[int, bytes]:
        while self.receive():
            pass
        return self.channels

    def _frame(self, kind: int, data: bytes) -> None:
        mask = os.urandom(4)
        masked = bytes(byte ^ mask[index % 4] for index, byte in enumerate(data))
        size = bytes([0x80 | len(data)]) if len(data) < 126 else b"\xfe" + struct.pack("!H", len(data))
        self._socket.sendall(bytes([0x80 | kind]) + size + mask + masked)

    def _until(self, mark: bytes) -> bytes:
        while mark not in self._buffer:
            self._more()
        found, _, self._buffer = self._buffer.partition(mark)
        return found

    def _take(self, size: int) -> bytes:
        while len(self._buffer) < size:
            self._more()
        data, self._buffer = self._buffer[:size], self._buffer[size:]
        return data

    def _more(self) -> None:
        chunk = self._socket.recv(1 << 16)
        if not chunk:
            raise EOFError
        self._buffer += chunk

"""The serial console of a Linux VM: a terminal in the guest, and a Unix socket of the host that stands for its pipe.

One client at a time is connected to it. Output without a client is lost, as on a serial line.
"""

from __future__ import annotations

import os
import select
import socket

_PIECE = 1 << 12


class Console:
    """`guest_end` is the terminal of the guest's shell. Without a path nothing can connect to it."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._terminal, self.guest_end = os.openpty()
        self._listener = socket.socket(socket.AF_UNIX)
        if path:
            self._listen(path)

    def _listen(self, path: str) -> None:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        if os.path.lexists(path):
            os.unlink(path)
        # Through an open descriptor: the length of a socket's path is limited, that of the directory's is not.
        directory = os.open(os.path.dirname(path), os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        self._listener.bind(f"/proc/self/fd/{directory}/{os.path.basename(path)}")
        os.close(directory)
        self._listener.listen(1)

    def close_guest_end(self) -> None:
        os.close(self.guest_end)

    def run(self) -> None:
        """Connect clients to the terminal until the shell has exited."""
        client: socket.socket | None = None
        try:
            while True:
                sources: list[socket.socket | int] = [self._terminal]
                if self._path:
                    sources.append(client or self._listener)
                ready = select.select(sources, [], [])[0]
                if self._terminal in ready:
                    data = os.read(self._terminal, _PIECE)
                    client = _send(client, data)
                if self._listener in ready:
                    client, _ = self._listener.accept()
                elif client is not None and client in ready:
                    client = self._receive(client)
        except OSError:
            self._listener.close()  # the last process that had the terminal open has exited; the VM follows

    def _receive(self, client: socket.socket) -> socket.socket | None:
        try:
            data = client.recv(_PIECE)
        except OSError:
            data = b""
        if not data:
            client.close()
            return None
        os.write(self._terminal, data)
        return client


def _send(client: socket.socket | None, data: bytes) -> socket.socket | None:
    if client is None:
        return None
    try:
        client.sendall(data)
    except OSError:
        client.close()
        return None
    return client

"""The guest's way to the host: a Unix socket in the guest that stands for AF_VSOCK and for the host's Plan9 server.

The agent writes one line and gets `OK` with a descriptor, or `ERROR` with a text:

    CONNECT <port>        a connection to that port of the host
    PLAN9 <share>         a detached mount of the share, for move_mount(2)

Since the agent gets the connected socket itself, half-closes are the kernel's. Only the bridge is relayed.
"""

from __future__ import annotations

import errno
import os
import socket
import threading
from collections.abc import Callable

from hcs_emulator.vm import hvsocket

BRIDGE_PORT = 0x40000000
_LONGEST_LINE = 4096
_REQUEST_TIMEOUT = 10.0


def service_id(port: int) -> str:
    """The Hyper-V socket service of a vsock port."""
    return f"{port:08x}-facb-11e6-bd58-64006a7986d3"


class VsockServer:
    """`open_share` gives the descriptor of a share by its name; `relay_bridge` gets the connection of the bridge to the
    host and returns the guest's end.
    """

    def __init__(
        self,
        listener: socket.socket,
        host_sockets: str,
        open_share: Callable[[str], int],
        relay_bridge: Callable[[socket.socket], socket.socket],
    ) -> None:
        self._listener = listener
        self._host_sockets = host_sockets
        self._open_share = open_share
        self._relay_bridge = relay_bridge

    def run(self) -> None:
        while True:
            try:
                link, _ = self._listener.accept()
            except OSError:
                return
            # One request after the other would let a slow one block all others.
            threading.Thread(target=self._serve, args=(link,), daemon=True).start()

    def _serve(self, link: socket.socket) -> None:
        with link:
            link.settimeout(_REQUEST_TIMEOUT)
            try:
                descriptor = self._answer(_read_line(link))
            except OSError as error:
                name = errno.errorcode.get(error.errno or 0, "EIO")
                name = "ECONNREFUSED" if name == "ENOENT" and error.filename is not None else name
                _send_error(link, f"{name} {error}")
            except (ValueError, KeyError) as error:
                _send_error(link, str(error))
            else:
                try:
                    socket.send_fds(link, [b"OK\n"], [descriptor])
                except OSError:
                    pass  # the agent has gone
                os.close(descriptor)

    def _answer(self, line: str) -> int:
        verb, _, argument = line.partition(" ")
        if verb == "CONNECT" and argument.isdecimal():
            port = int(argument)
            connection = self.connect(port)
            return (self._relay_bridge(connection) if port == BRIDGE_PORT else connection).detach()
        if verb == "PLAN9":
            return self._open_share(argument)
        raise ValueError(f"unknown request {line!r}")

    def connect(self, port: int) -> socket.socket:
        return hvsocket.connect_blocking(self._host_sockets, service_id(port))


def _read_line(link: socket.socket) -> str:
    data = b""
    while not data.endswith(b"\n"):
        piece = link.recv(_LONGEST_LINE)
        if not piece or len(data) > _LONGEST_LINE:
            raise ValueError("a request is one line")
        data += piece
    return data.decode("utf-8", "replace").rstrip("\n")


def _send_error(link: socket.socket, text: str) -> None:
    try:
        link.sendall(b"ERROR " + text.replace("\n", " ").encode() + b"\n")
    except OSError:
        pass

"""Connections to the host: a Hyper-V socket is emulated by `<directory>/<service id>`, created by its listener.

For a shim on Linux that is a Unix socket. A shim under Wine cannot create one; it listens on the loopback interface and
writes the port to a file of that name.
"""

from __future__ import annotations

import asyncio
import os
import socket
import stat


async def connect(directory: str, service: str) -> socket.socket:
    """A non-blocking connection to a service of the host. Raises OSError when the service does not listen."""
    path = os.path.join(directory, service.lower())
    if stat.S_ISREG(os.stat(path).st_mode):
        with open(path) as file:
            address: tuple[str, int] | str = ("127.0.0.1", _port(file.read()))
        connection = socket.socket(socket.AF_INET)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    else:
        address = path
        connection = socket.socket(socket.AF_UNIX)
    connection.setblocking(False)
    try:
        await asyncio.get_running_loop().sock_connect(connection, address)
    except BaseException:
        connection.close()
        raise
    return connection


def _port(text: str) -> int:
    if not text.isdecimal():
        raise ConnectionRefusedError(f"{text!r} is no port")
    return int(text)

"""Dialling the host: a Hyper-V socket is `<directory>/<service id>`, where whoever listens has made it.

For a shim of Linux that is a Unix socket. A shim under Wine can make none there; it listens on the loopback interface
and writes the port to a file of that name.
"""

from __future__ import annotations

import asyncio
import os
import socket
import stat


async def connect(directory: str, service: str) -> socket.socket:
    """A connection to a service of the host, non-blocking. Raises OSError when nobody listens."""
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

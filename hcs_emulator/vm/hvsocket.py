"""Connections to the host: a Hyper-V socket is emulated by `<directory>/<service id>`, created by its listener.

For a shim on Linux that is a Unix socket. A shim under Wine cannot create one; it listens on the loopback interface and
writes the port to a file of that name.
"""

from __future__ import annotations

import os
import socket
import stat

CONNECT_TIMEOUT = 10.0


async def connect(directory: str, service: str) -> socket.socket:
    """A non-blocking connection to a service of the host. Raises OSError when the service does not listen."""
    import asyncio  # the worker of a Linux VM does without it

    connection, address = _prepare(directory, service)
    connection.setblocking(False)
    try:
        await asyncio.get_running_loop().sock_connect(connection, address)
    except BaseException:
        connection.close()
        raise
    return connection


def connect_blocking(directory: str, service: str) -> socket.socket:
    """The same as a blocking connection, with a timeout for connecting."""
    connection, address = _prepare(directory, service)
    try:
        connection.settimeout(CONNECT_TIMEOUT)
        connection.connect(address)
        connection.settimeout(None)
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare(directory: str, service: str) -> tuple[socket.socket, tuple[str, int] | str]:
    path = os.path.join(directory, service.lower())
    if stat.S_ISREG(os.stat(path).st_mode):
        with open(path) as file:
            address: tuple[str, int] | str = ("127.0.0.1", _port(file.read()))
        connection = socket.socket(socket.AF_INET)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    else:
        address = path
        connection = socket.socket(socket.AF_UNIX)
    return connection, address


def _port(text: str) -> int:
    if not text.isdecimal():
        raise ConnectionRefusedError(f"{text!r} is no port")
    return int(text)

"""Connections to the host. The machine serves a Unix socket that stands for the VM's vsock device.

`CONNECT <port>` is answered with the connected socket of the host's service as a descriptor, so that a half close of
either side is the kernel's own. `PLAN9 <share>` is answered with a detached mount of a share.
"""

from __future__ import annotations

import os
import socket

from hcs_emulator.vm.linux.agent.errors import GuestError

DEFAULT_PATH = "/run/vsock.sock"
BRIDGE_PORT = 0x40000000
TIMEOUT = 30.0


def _request(line: str) -> int:
    """Send a request to the machine; returns the descriptor that it answers with."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(TIMEOUT)
        connection.connect(os.environ.get("HCS_EMULATOR_VSOCK", DEFAULT_PATH))
        connection.sendall(line.encode() + b"\n")
        data, descriptors, _, _ = socket.recv_fds(connection, 4096, 1)
        if data.startswith(b"OK") and descriptors:
            os.set_inheritable(descriptors[0], False)
            return descriptors[0]
        for descriptor in descriptors:
            os.close(descriptor)
        while data and not data.endswith(b"\n"):
            more = connection.recv(4096)
            if not more:
                break
            data += more
    raise ConnectionRefusedError(0, data.decode(errors="replace").removeprefix("ERROR ").strip() or "no answer")


def connect(port: int) -> socket.socket:
    """A blocking connection to a port of the host. Raises OSError when nothing listens there."""
    connection = socket.socket(fileno=_request(f"CONNECT {port}"))
    connection.setblocking(True)
    return connection


def dial(port: int, name: str) -> socket.socket:
    try:
        return connect(port)
    except OSError as error:
        text = f"failed creating {name} Connection: vsock Dial port ({port}) failed: {error.strerror or error}"
        raise GuestError(text) from error


def open_share(name: str) -> int:
    """The descriptor of a detached mount of a Plan9 share."""
    return _request(f"PLAN9 {name}")

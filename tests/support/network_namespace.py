"""Sockets in another network namespace: of a process, or of a file such as CNI makes."""

from __future__ import annotations

import ctypes
import os
import socket
import threading
from collections.abc import Callable

CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)


def connect(namespace: str, address: tuple[str, int], timeout: float = 60.0) -> socket.socket:
    """A TCP connection made inside the namespace of a path, such as `/proc/7/ns/net`."""
    return _inside(namespace, lambda: socket.create_connection(address, timeout), timeout)


def listen(namespace: str, address: tuple[str, int]) -> socket.socket:
    """A listening TCP socket inside the namespace of a path."""
    return _inside(namespace, lambda: socket.create_server(address), 60.0)


def _inside(namespace: str, make: Callable[[], socket.socket], timeout: float) -> socket.socket:
    results: list[socket.socket] = []
    errors: list[OSError] = []

    def enter_and_make() -> None:
        descriptor = os.open(namespace, os.O_RDONLY)
        try:
            # Only this thread enters it; a socket stays in the namespace it was made in.
            if _libc.setns(descriptor, CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), f"setns {namespace}")
            results.append(make())
        except OSError as error:
            errors.append(error)
        finally:
            os.close(descriptor)

    thread = threading.Thread(target=enter_and_make, daemon=True)
    thread.start()
    thread.join(timeout + 5)
    if errors:
        raise errors[0]
    return results[0]

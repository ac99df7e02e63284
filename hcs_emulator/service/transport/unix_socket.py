"""Unix sockets that appear at their path only when they listen, so that a client that finds the path can connect."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def listening_socket(path: str) -> Iterator[socket.socket]:
    """A socket bound under a temporary name. The block must make it listen; then it appears at `path`, for this user
    only, and replaces a stale file there. If the block fails, the socket is closed.
    """
    sock = socket.socket(socket.AF_UNIX)
    temporary = path + ".new"
    try:
        if os.path.lexists(temporary):
            os.unlink(temporary)
        mask = os.umask(0o177)
        try:
            sock.bind(temporary)
        finally:
            os.umask(mask)
        yield sock
        os.rename(temporary, path)
    except BaseException:
        sock.close()
        raise

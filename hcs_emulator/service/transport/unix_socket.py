"""A Unix socket that gets its name when it listens, so that whoever finds the name can connect."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def listening_socket(path: str) -> Iterator[socket.socket]:
    """A socket that is to listen when the block ends, and is at `path` from then on, for this user alone. A leftover
    there is replaced. If the block fails, the socket is closed."""
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

"""The forms in which clients name streams on this system: paths and URIs."""

from __future__ import annotations

import sys

if sys.platform == "win32":
    #: URI schemes, the one for pipes first.
    SCHEMES = ("npipe", "file", "binary", "binary-v2")
    PIPE = "a named pipe"
    EXAMPLE = "file:///C:/logs/out"
else:
    SCHEMES = ("fifo", "file", "binary", "binary-v2")
    PIPE = "a FIFO"
    EXAMPLE = "file:///var/log/out"


def absolute(scheme: str, path: str) -> str:
    """The path of a stream's name, "" if it is not absolute."""
    if sys.platform == "win32":
        if scheme == "npipe":  # npipe:////./pipe/x, npipe://./pipe/x
            path = "//" + path.lstrip("/")
        elif scheme and path[:1] == "/" and path[2:3] == ":":
            path = path[1:]  # file:///C:/x
        path = path.replace("/", "\\")
        is_drive = path[1:3] == ":\\" and path[:1].isalpha()
        return path if is_drive or path.startswith(("\\\\.\\", "\\\\?\\")) else ""
    return path if path.startswith("/") else ""

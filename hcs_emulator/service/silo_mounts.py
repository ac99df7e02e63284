"""Directories and files of the host for a silo: opened here, attached there (`native/silo_bind.c`)."""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass

_AT_FDCWD, _OPEN_TREE_CLONE, _AT_RECURSIVE = -100, 1, 0x8000
_SYS_OPEN_TREE = 428  # the same on every architecture
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class Bind:
    """A directory or a single file of the host, shown at `target` (Windows or POSIX spelling) in the silo."""

    source: str
    target: str
    read_only: bool = False


def open_tree(path: str) -> int:
    """A copy of the mount at `path`, not attached anywhere: it can be handed to another mount namespace."""
    flags = _OPEN_TREE_CLONE | _AT_RECURSIVE | os.O_CLOEXEC
    descriptor: int = _libc.syscall(
        ctypes.c_long(_SYS_OPEN_TREE), ctypes.c_int(_AT_FDCWD), ctypes.c_char_p(os.fsencode(path)), ctypes.c_uint(flags)
    )
    if descriptor < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), path)
    return descriptor

"""Bind mounts of host directories and files in a silo: opened here, attached by the silo program
(`native/silo/bind.c`).
"""

from __future__ import annotations

import ctypes
import os

import attrs

_AT_FDCWD, _OPEN_TREE_CLONE, _AT_EMPTY_PATH, _AT_RECURSIVE = -100, 1, 0x1000, 0x8000
_MS_PRIVATE = 1 << 18
_SYS_OPEN_TREE, _SYS_MOUNT_SETATTR = 428, 442  # the same on every architecture
_libc = ctypes.CDLL(None, use_errno=True)


@attrs.frozen
class Bind:
    """A directory or a single file of the host that appears at `target` (Windows or POSIX path) in the silo."""

    source: str
    target: str
    read_only: bool = False


class _MountAttr(ctypes.Structure):
    """struct mount_attr, see mount_setattr(2)."""

    _fields_ = [(name, ctypes.c_uint64) for name in ("attr_set", "attr_clr", "propagation", "userns_fd")]


def open_tree(path: str) -> int:
    """A private, detached copy of the mount at `path`, which can be passed to another mount namespace.

    A clone of a shared mount stays in the peer group of the original (mount_namespaces(7)). Mounts that the silo
    creates below the clone would then appear on the host as well, and a kubelet that removes the outer volume would
    delete the files of the inner one.
    """
    flags = _OPEN_TREE_CLONE | _AT_RECURSIVE | os.O_CLOEXEC
    descriptor: int = _libc.syscall(
        ctypes.c_long(_SYS_OPEN_TREE), ctypes.c_int(_AT_FDCWD), ctypes.c_char_p(os.fsencode(path)), ctypes.c_uint(flags)
    )
    if descriptor < 0:
        raise _error(path)
    attributes = _MountAttr(propagation=_MS_PRIVATE)
    result: int = _libc.syscall(
        ctypes.c_long(_SYS_MOUNT_SETATTR), ctypes.c_int(descriptor), ctypes.c_char_p(b""),
        ctypes.c_uint(_AT_EMPTY_PATH | _AT_RECURSIVE), ctypes.byref(attributes),
        ctypes.c_size_t(ctypes.sizeof(attributes)),
    )  # fmt: skip
    if result < 0:
        failed = _error(path)
        os.close(descriptor)
        raise failed
    return descriptor


def _error(path: str) -> OSError:
    code = ctypes.get_errno()
    return OSError(code, os.strerror(code), path)

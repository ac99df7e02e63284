"""System calls that Python has no function for."""

from __future__ import annotations

import ctypes
import os

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_BIND, MS_REC, MS_SHARED = 1 << 12, 1 << 14, 1 << 20
MS_UNBINDABLE, MS_PRIVATE, MS_SLAVE = 1 << 17, 1 << 18, 1 << 19
CLONE_NEWNET = 0x40000000
PR_SET_CHILD_SUBREAPER = 36
_POWER_OFF = 0x4321FEDC
_INITIAL_PID_NAMESPACE = 0xEFFFFFFC

_MOVE_MOUNT = 429
_MOUNT_SETATTR = 442
_MOVE_MOUNT_F_EMPTY_PATH = 4
_AT_FDCWD = -100
_AT_EMPTY_PATH = 0x1000
_AT_RECURSIVE = 0x8000
_MOUNT_ATTR_RDONLY = 1

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mount.argtypes = (ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_char_p)
_libc.umount2.argtypes = (ctypes.c_char_p, ctypes.c_int)


def _check(result: int, path: str = "") -> None:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), path)


def mount(source: str, target: str, kind: str, flags: int = 0, data: str = "") -> None:
    _check(_libc.mount(os.fsencode(source), os.fsencode(target), kind.encode(), flags, os.fsencode(data)), target)


def unmount(target: str, flags: int = 0) -> None:
    _check(_libc.umount2(os.fsencode(target), flags), target)


def attach_mount(descriptor: int, target: str) -> None:
    """Attach a detached mount at a path."""
    path, empty = os.fsencode(target), ctypes.c_char_p(b"")
    arguments = (ctypes.c_long(_AT_FDCWD), ctypes.c_char_p(path), ctypes.c_long(_MOVE_MOUNT_F_EMPTY_PATH))
    _check(_libc.syscall(ctypes.c_long(_MOVE_MOUNT), ctypes.c_long(descriptor), empty, *arguments), target)


def set_read_only(descriptor: int) -> None:
    """Make a detached mount read-only."""
    attributes = (ctypes.c_uint64 * 4)(_MOUNT_ATTR_RDONLY, 0, 0, 0)
    flags = ctypes.c_long(_AT_EMPTY_PATH | _AT_RECURSIVE)
    size = ctypes.c_long(ctypes.sizeof(attributes))
    empty = ctypes.c_char_p(b"")
    number, file = ctypes.c_long(_MOUNT_SETATTR), ctypes.c_long(descriptor)
    _check(_libc.syscall(number, file, empty, flags, ctypes.byref(attributes), size))


def enter_network_namespace(descriptor: int) -> None:
    """For the calling thread only."""
    _check(_libc.setns(descriptor, CLONE_NEWNET))


def power_off() -> None:
    """End the VM, which is a pid namespace: the kernel ends its init. Never the machine on which the emulator runs."""
    if os.stat("/proc/self/ns/pid").st_ino != _INITIAL_PID_NAMESPACE:
        _check(_libc.reboot(_POWER_OFF))


def become_subreaper() -> None:
    """Orphans of our descendants become our children: the init processes that runc leaves behind."""
    _check(_libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))

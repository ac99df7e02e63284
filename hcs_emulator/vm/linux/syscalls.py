"""System calls that Python has no functions for: namespaces, mounts by descriptor, loop devices."""

from __future__ import annotations

import ctypes
import fcntl
import os
import struct

CLONE_NEWNS, CLONE_NEWCGROUP, CLONE_NEWUTS = 0x00020000, 0x02000000, 0x04000000
CLONE_NEWIPC, CLONE_NEWPID, CLONE_NEWNET = 0x08000000, 0x20000000, 0x40000000

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 0x1, 0x2, 0x4, 0x8
MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE, MS_SLAVE = 0x20, 0x1000, 0x4000, 1 << 18, 1 << 19
MNT_DETACH = 2
MOUNT_ATTR_RDONLY = 0x1
AT_FDCWD, AT_EMPTY_PATH, AT_RECURSIVE = -100, 0x1000, 0x8000
OPEN_TREE_CLONE, OPEN_TREE_CLOEXEC = 1, os.O_CLOEXEC

PR_SET_PDEATHSIG = 1

_SYS_PIVOT_ROOT = 155 if os.uname().machine == "x86_64" else 41
_SYS_OPEN_TREE, _SYS_MOUNT_SETATTR = 428, 442

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mount.argtypes = (ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_char_p)
_libc.syscall.restype = ctypes.c_long


def _check(result: int, what: str) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), what)
    return result


def prctl(option: int, argument: int) -> None:
    _check(_libc.prctl(option, argument, 0, 0, 0), "prctl")


def unshare(flags: int) -> None:
    _check(_libc.unshare(flags), "unshare")


def setns(descriptor: int, kind: int) -> None:
    _check(_libc.setns(descriptor, kind), "setns")


def set_hostname(name: str) -> None:
    data = name.encode()
    _check(_libc.sethostname(data, len(data)), "sethostname")


def mount(source: str, target: str, kind: str = "none", flags: int = 0, data: str = "") -> None:
    result = _libc.mount(os.fsencode(source), os.fsencode(target), kind.encode(), flags, os.fsencode(data) or None)
    _check(result, target)


def bind_read_only(source: str, target: str) -> None:
    """Mounts below the source stay invisible."""
    mount(source, target, flags=MS_BIND)
    mount("none", target, flags=MS_BIND | MS_REMOUNT | MS_RDONLY)


def unmount(target: str) -> None:
    _check(_libc.umount2(os.fsencode(target), MNT_DETACH), target)


def pivot_root(new: str, old: str) -> None:
    _check(_libc.syscall(_SYS_PIVOT_ROOT, os.fsencode(new), os.fsencode(old)), new)


def clone_tree(path: str) -> int:
    """A descriptor of a detached copy of the mounts at a path. It gets the host's later mounts, and gives none back."""
    flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE
    tree = _check(_libc.syscall(_SYS_OPEN_TREE, AT_FDCWD, os.fsencode(path), flags), path)
    try:
        _set_attributes(tree, propagation=MS_SLAVE)
    except BaseException:
        os.close(tree)
        raise
    return tree


def make_read_only(tree: int) -> None:
    _set_attributes(tree, attributes=MOUNT_ATTR_RDONLY)


def _set_attributes(tree: int, attributes: int = 0, propagation: int = 0) -> None:
    values = struct.pack("QQQQ", attributes, 0, propagation, 0)
    flags = AT_EMPTY_PATH | AT_RECURSIVE
    result = _libc.syscall(_SYS_MOUNT_SETATTR, tree, b"", flags, values, ctypes.c_size_t(len(values)))
    _check(result, "mount_setattr")


# Loop devices

_LOOP_CONFIGURE, _LOOP_CTL_GET_FREE = 0x4C0A, 0x4C82
_LO_FLAGS_READ_ONLY, _LO_FLAGS_AUTOCLEAR, _LO_FLAGS_DIRECT_IO = 1, 4, 16
_ENXIO, _EBUSY = 6, 16
_TRIES = 100


def attach_loop(path: str, *, read_only: bool, offset: int = 0, size: int = 0) -> tuple[int, int]:
    """An open loop device on a file, and its number. The kernel frees it when it is closed and mounted nowhere."""
    backing = os.open(path, (os.O_RDONLY if read_only else os.O_RDWR) | os.O_CLOEXEC)
    control = os.open("/dev/loop-control", os.O_RDWR | os.O_CLOEXEC)
    try:
        for _ in range(_TRIES):
            number = fcntl.ioctl(control, _LOOP_CTL_GET_FREE)
            device = -1
            try:
                device = _open_loop(number, read_only)
                fcntl.ioctl(device, _LOOP_CONFIGURE, _loop_config(path, backing, read_only, offset, size))
            except OSError as error:
                if device >= 0:
                    os.close(device)
                if error.errno not in (_EBUSY, _ENXIO):  # another process took or removed the device
                    raise
            else:
                return device, os.stat(device).st_rdev
        raise OSError(_EBUSY, "no free loop device", path)
    finally:
        os.close(control)
        os.close(backing)


def _open_loop(number: int, read_only: bool) -> int:
    path = f"/dev/loop{number}"
    if not os.path.exists(path):  # a /dev without udev
        os.mknod(path, 0o060660, os.makedev(7, number))
    return os.open(path, (os.O_RDONLY if read_only else os.O_RDWR) | os.O_CLOEXEC)


def _loop_config(path: str, backing: int, read_only: bool, offset: int, size: int) -> bytes:
    """struct loop_config with its struct loop_info64."""
    flags = _LO_FLAGS_AUTOCLEAR | (_LO_FLAGS_READ_ONLY if read_only else 0)
    name = os.fsencode(os.path.basename(path))[:63]
    info = struct.pack("<QQQQQIIII64s64s32sQQ", 0, 0, 0, offset, size, 0, 0, 0, flags, name, b"", b"", 0, 0)
    return struct.pack("<II", backing, 512) + info + bytes(64)

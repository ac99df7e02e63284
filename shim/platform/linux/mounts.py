"""mount(2) and umount(2) through libc: Python has neither."""

from __future__ import annotations

import os

from shim.platform._libc_cffi import ffi

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

MS_RDONLY = 0x1
MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_NOEXEC = 0x8
MS_SYNCHRONOUS = 0x10
MS_REMOUNT = 0x20
MS_DIRSYNC = 0x80
MS_NOATIME = 0x400
MS_NODIRATIME = 0x800
MS_BIND = 0x1000
MS_REC = 0x4000
MS_UNBINDABLE = 0x20000
MS_PRIVATE = 0x40000
MS_SLAVE = 0x80000
MS_SHARED = 0x100000
MS_RELATIME = 0x200000
MS_STRICTATIME = 0x1000000

MNT_DETACH = 0x2
UMOUNT_NOFOLLOW = 0x8

_SYS_OPEN_TREE = 428  # the same on every architecture
_SYS_MOUNT_SETATTR = 442
_AT_FDCWD = -100
_AT_EMPTY_PATH = 0x1000
_OPEN_TREE_CLONE = 1
_AT_RECURSIVE = 0x8000

# Mount options that are flags: the flag, and whether the option sets or clears it.
_FLAGS = {
    "async": (MS_SYNCHRONOUS, False),
    "atime": (MS_NOATIME, False),
    "bind": (MS_BIND, True),
    "defaults": (0, True),
    "dev": (MS_NODEV, False),
    "diratime": (MS_NODIRATIME, False),
    "dirsync": (MS_DIRSYNC, True),
    "exec": (MS_NOEXEC, False),
    "noatime": (MS_NOATIME, True),
    "nodev": (MS_NODEV, True),
    "nodiratime": (MS_NODIRATIME, True),
    "noexec": (MS_NOEXEC, True),
    "norelatime": (MS_RELATIME, False),
    "nosuid": (MS_NOSUID, True),
    "private": (MS_PRIVATE, True),
    "rbind": (MS_BIND | MS_REC, True),
    "relatime": (MS_RELATIME, True),
    "remount": (MS_REMOUNT, True),
    "ro": (MS_RDONLY, True),
    "rprivate": (MS_PRIVATE | MS_REC, True),
    "rshared": (MS_SHARED | MS_REC, True),
    "rslave": (MS_SLAVE | MS_REC, True),
    "runbindable": (MS_UNBINDABLE | MS_REC, True),
    "rw": (MS_RDONLY, False),
    "shared": (MS_SHARED, True),
    "slave": (MS_SLAVE, True),
    "strictatime": (MS_STRICTATIME, True),
    "suid": (MS_NOSUID, False),
    "sync": (MS_SYNCHRONOUS, True),
    "unbindable": (MS_UNBINDABLE, True),
}
_PROPAGATION = MS_PRIVATE | MS_SLAVE | MS_SHARED | MS_UNBINDABLE

_libc: Any = ffi.dlopen(None)


def parse_options(options: Sequence[str]) -> tuple[int, int, str]:
    """Mount options of containerd -> (flags, propagation flags, the rest as mount data)."""
    flags = propagation = 0
    data = []
    for option in options:
        flag, set_it = _FLAGS.get(option, (None, True))
        if flag is None:
            data.append(option)
        elif flag & _PROPAGATION:
            propagation |= flag
        elif set_it:
            flags |= flag
        else:
            flags &= ~flag
    return flags, propagation, ",".join(data)


def mount(source: str, target: str, fstype: str = "", options: Sequence[str] = ()) -> None:
    """Mount `source` at `target` with the options. If a later step fails, nothing stays mounted.

    The kernel ignores other flags of a bind mount, and changes the propagation only in a call of its own: each is a
    separate step.
    """
    flags, propagation, data = parse_options(options)
    _mount(source, target, fstype, flags, data)
    try:
        if flags & MS_BIND and flags & ~(MS_BIND | MS_REC | MS_REMOUNT):
            _mount("", target, "", flags & ~MS_REC | MS_BIND | MS_REMOUNT, data)
        if propagation:
            _mount("", target, "", propagation, "")
    except OSError:
        if not flags & MS_REMOUNT:
            unmount(target, detach=True)
        raise


def unmount(target: str, detach: bool = False) -> bool:
    """Unmount the topmost mount at `target`; with `detach` even if it is in use. False: nothing is mounted there."""
    if _libc.umount2(os.fsencode(target), UMOUNT_NOFOLLOW | (MNT_DETACH if detach else 0)) == 0:
        return True
    number = ffi.errno
    import errno

    if number in (errno.EINVAL, errno.ENOENT):
        return False
    hint = "something still uses it: end that, or unmount it with detach" if number == errno.EBUSY else _hint(number)
    raise OSError(number, f"cannot unmount: {os.strerror(number)}; {hint}", target)


def open_tree(path: str) -> int:
    """A private, detached copy of the mount at `path` and of those below it, as a descriptor that another mount
    namespace can attach.

    A clone of a shared mount stays in the peer group of the original (mount_namespaces(7)): what a container mounts
    below it would appear on the host as well.
    """
    flags = _OPEN_TREE_CLONE | _AT_RECURSIVE | os.O_CLOEXEC
    descriptor = int(_libc.syscall(_SYS_OPEN_TREE, _AT_FDCWD, os.fsencode(path), flags, ffi.NULL, 0))
    if descriptor < 0:
        raise OSError(ffi.errno, os.strerror(ffi.errno), path)
    # struct mount_attr: attr_set, attr_clr, propagation, userns_fd.
    attributes = ffi.new("uint64_t[4]", [0, 0, MS_PRIVATE, 0])
    whole = _AT_EMPTY_PATH | _AT_RECURSIVE
    if _libc.syscall(_SYS_MOUNT_SETATTR, descriptor, b"", whole, attributes, ffi.sizeof(attributes)) < 0:
        number = ffi.errno
        os.close(descriptor)
        raise OSError(number, os.strerror(number), path)
    return descriptor


def _mount(source: str, target: str, fstype: str, flags: int, data: str) -> None:
    if _libc.mount(os.fsencode(source), os.fsencode(target), os.fsencode(fstype), flags, os.fsencode(data)) == 0:
        return
    number = ffi.errno
    what = f"cannot mount {source or target!r} at {target!r}" + (f" as {fstype}" if fstype else "")
    raise OSError(number, f"{what}: {os.strerror(number)}; {_hint(number)}", target)


def _hint(number: int) -> str:
    import errno

    return {
        errno.EPERM: "this needs root (CAP_SYS_ADMIN)",
        errno.ENOENT: "check that source and target exist",
        errno.ENODEV: "this kernel does not know the file system: load its module or choose another snapshotter",
        errno.ENOTDIR: "source and target must both be directories or both be files",
        errno.EINVAL: "the kernel log (dmesg) says which option it did not take",
        errno.EBUSY: "the source is mounted elsewhere or in use",
    }.get(number, "the kernel log (dmesg) may say more")

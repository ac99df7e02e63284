"""Mounting and unmounting as gcs does it, with the texts of its errors."""

from __future__ import annotations

import errno
import os

from hcs_emulator.vm.linux.agent import log, syscalls
from hcs_emulator.vm.linux.agent.errors import GuestError, failed, reason

UNMOUNT_ATTEMPTS = 5

PROPAGATION = {
    "private": syscalls.MS_PRIVATE,
    "shared": syscalls.MS_SHARED,
    "slave": syscalls.MS_SLAVE,
    "unbindable": syscalls.MS_UNBINDABLE,
    "rprivate": syscalls.MS_PRIVATE | syscalls.MS_REC,
    "rshared": syscalls.MS_SHARED | syscalls.MS_REC,
    "rslave": syscalls.MS_SLAVE | syscalls.MS_REC,
    "runbindable": syscalls.MS_UNBINDABLE | syscalls.MS_REC,
}


def points() -> list[str]:
    """The mount points of the VM, in the order of mounting."""
    with open("/proc/self/mountinfo", "rb") as table:
        return [os.fsdecode(_unescape(line.split()[4])) for line in table]


def points_below(prefix: str) -> list[str]:
    return [point for point in points() if point == prefix or point.startswith(prefix.rstrip("/") + "/")]


def _unescape(text: bytes) -> bytes:
    for octal, character in ((rb"\040", b" "), (rb"\011", b"\t"), (rb"\012", b"\n"), (rb"\134", b"\\")):
        text = text.replace(octal, character)
    return text


def share(path: str) -> None:
    """Make a directory a mount point whose mounts propagate into containers."""
    try:
        syscalls.mount(path, path, "", syscalls.MS_BIND)
    except OSError as error:
        raise failed(f"failed to create bind mount for {path}", error) from error
    try:
        syscalls.mount(path, path, "", syscalls.MS_SHARED | syscalls.MS_REC)
    except OSError as error:
        raise failed(f"failed to make {path} rshared", error) from error


def set_propagation(target: str, options: list[str]) -> None:
    for option in options:
        if option in PROPAGATION:
            try:
                syscalls.mount(target, target, "", PROPAGATION[option])
            except OSError as error:
                raise GuestError(reason(error)) from error


def unmount(target: str, *, remove: bool = True) -> None:
    """Unmount everything at a path and remove it. A path that does not exist is no error."""
    if not os.path.lexists(target):
        log.warning("UnmountPath called for non-existent path", target=target)
        return
    for _ in range(UNMOUNT_ATTEMPTS):
        try:
            syscalls.unmount(target)
        except OSError as error:
            if error.errno == errno.EINVAL:
                break
            raise failed(f"failed to unmount path '{target}'", error) from error
    if remove:
        remove_tree(target)


def unmount_below(path: str) -> None:
    for point in reversed(points_below(path)):
        unmount(point)


def remove_tree(path: str) -> None:
    """Remove a file or directory with its content, and with that of mounts below it, as os.RemoveAll of Go does. The
    mount points stay, and make this fail as busy."""
    failure = _remove(path)
    if failure is not None:
        raise failure


def try_remove_tree(path: str) -> None:
    try:
        remove_tree(path)
    except GuestError as error:
        log.warning("failed to remove", path=path, error=str(error))


def _remove(path: str) -> GuestError | None:
    failure: GuestError | None = None
    try:
        if os.path.isdir(path) and not os.path.islink(path):
            with os.scandir(path) as entries:
                names = [entry.path for entry in entries]
            for name in names:
                failure = _remove(name) or failure
            if failure is None:
                os.rmdir(path)
        else:
            os.unlink(path)
    except FileNotFoundError:
        return failure
    except OSError as error:
        return failure or GuestError(f"unlinkat {path}: {reason(error)}")
    return failure


def make_directory(path: str, mode: int) -> None:
    """Create a directory and its parents with the mode, without the umask's influence on the result."""
    missing = []
    current = path
    while not os.path.isdir(current):
        missing.append(current)
        parent = os.path.dirname(current)
        if parent == current:
            break
        current = parent
    for name in reversed(missing):
        try:
            os.mkdir(name, mode)
            os.chmod(name, mode)
        except FileExistsError:
            if not os.path.isdir(name):
                raise GuestError(f"mkdir {name}: not a directory") from None
        except OSError as error:
            raise failed(f"mkdir {name}", error) from error

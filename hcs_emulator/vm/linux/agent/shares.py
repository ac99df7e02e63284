"""Shares of the host. A share is a descriptor of a detached mount, which is attached at its target.

A share of single files consists of several mounts, which cannot be unmounted at once. It is attached elsewhere, and its
target gets links to its files.
"""

from __future__ import annotations

import contextlib
import os
import stat
import threading

from hcs_emulator.vm.linux.agent import syscalls

HIDDEN = "/run/plan9"
_MNT_DETACH = 2
_lock = threading.Lock()
#: Attached share of single files to its target.
_hidden: dict[str, str] = {}


def attach(tree: int, target: str, share: str) -> None:
    files = _single_files(tree)
    if files is None:
        syscalls.attach_mount(tree, target)
        return
    with _lock:
        _detach_unused()
        place = os.path.join(HIDDEN, share)
        os.makedirs(place, 0o700, exist_ok=True)
        syscalls.attach_mount(tree, place)
        _hidden[place] = target
        syscalls.mount("share", target, "tmpfs", 0, "mode=755")
        for name in files:
            os.symlink(os.path.join(place, name), os.path.join(target, name))


def _single_files(tree: int) -> list[str] | None:
    """The names in a share of single files, each of which is a mount; None for any other share."""
    root = f"/proc/self/fd/{tree}"
    device = os.stat(root).st_dev
    try:
        names = os.listdir(f"{root}/.")
    except OSError:
        return None
    found = [os.lstat(os.path.join(root, name)) for name in names]
    if not names or any(entry.st_dev == device or stat.S_ISDIR(entry.st_mode) for entry in found):
        return None
    return names


def _detach_unused() -> None:
    """Detach shares whose targets have been unmounted."""
    for place, target in list(_hidden.items()):
        if not os.path.isdir(target) or not os.listdir(target):
            with contextlib.suppress(OSError):
                syscalls.unmount(place, _MNT_DETACH)
                os.rmdir(place)
            del _hidden[place]

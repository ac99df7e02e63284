"""Shares of the host for the guest, as descriptors of detached mounts: a kernel without 9p can attach them."""

from __future__ import annotations

import os
import tempfile
import threading
from typing import Any

from hcs_emulator.vm.linux import syscalls

_PLACE = "/sys"  # exists everywhere and holds nothing that is shared


def open_share(share: dict[str, Any], links: str) -> int:
    """`files` names the only files that are visible, unless it is None. `links` is a directory of the VM for such
    shares."""
    path = share["path"]
    tree = syscalls.clone_tree(path) if share["files"] is None else _restricted(path, share["files"], links)
    if share["read_only"]:
        syscalls.make_read_only(tree)
    return tree


def _restricted(path: str, names: list[str], links: str) -> int:
    """A directory of hard links, which is one mount, as a share is, so that the guest can unmount it. Files of another
    file system than that of `links` are mounts in the share."""
    try:
        return syscalls.clone_tree(_linked(path, names, links))
    except OSError:
        return _mounted(path, names)


def _linked(path: str, names: list[str], links: str) -> str:
    os.makedirs(links, exist_ok=True)
    directory = tempfile.mkdtemp(dir=links)
    os.chmod(directory, 0o755)
    for name in names:
        target = os.path.join(directory, name)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.link(os.path.join(path, name), target)
    return directory


def _mounted(path: str, names: list[str]) -> int:
    """Built in the mount namespace of a thread that ends with it: nothing remains on the host."""
    result: list[int] = []
    failure: list[BaseException] = []

    def build() -> None:
        try:
            result.append(_build_restricted(path, names))
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=build)
    thread.start()
    thread.join()
    if failure:
        raise failure[0]
    return result[0]


def _build_restricted(path: str, names: list[str]) -> int:
    syscalls.unshare(syscalls.CLONE_NEWNS)
    syscalls.mount("none", "/", flags=syscalls.MS_REC | syscalls.MS_PRIVATE)
    syscalls.mount("share", _PLACE, "tmpfs", 0, "mode=755")
    for name in names:
        target = os.path.join(_PLACE, name)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target, "x"):
            pass
        syscalls.mount(os.path.join(path, name), target, flags=syscalls.MS_BIND)
    return syscalls.clone_tree(_PLACE)

"""Directories and files of the host that a VM sees: VSMB shares, counted, so that containers can have them in common.

A directory is shared as it is. A file is shared by its directory, restricted to the files that somebody asked for.
Shares are named s1, s2 … in the order they come. One that Windows maps directly into the VM cannot be taken away again
while the VM lives: it stays, unused, and is found again by whoever wants the same.
"""

from __future__ import annotations

import os
from threading import Lock

from shim.oci.annotations import vm as names
from shim.oci.errors import InvalidSpec
from shim.uvm.lease import Lease
from shim.uvm.windows.document import share_options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Document = dict[str, Any]

PATH = "VirtualMachine/Devices/VirtualSmb/Shares"
GUEST_ROOT = "\\\\?\\VMSMB\\VSMB-{dcc079ae-60ba-4d07-847c-3493609c0870}\\"


class _Share:
    __slots__ = ("files", "name", "options", "path", "users")

    def __init__(self, name: str, path: str, options: Document) -> None:
        self.name = name
        self.path = path
        self.options = options
        self.users = 0
        #: Of a restricted share: each file with its number of users.
        self.files: dict[str, int] = {}

    def settings(self) -> Document:
        settings: Document = {"Name": self.name, "Path": self.path}
        if self.files:
            settings["AllowedFiles"] = list(self.files)
        settings["Options"] = self.options  # there even when none is set
        return settings


class Shares:
    """`modify` changes the VM. Calls may come from any thread; one share is changed at a time."""

    def __init__(self, modify: Callable[[Document], None], *, no_direct_map: bool, read_only: bool) -> None:
        self._modify = modify
        self._no_direct_map = no_direct_map
        self._only_read_only = read_only
        self._lock = Lock()
        self._count = 0
        self._shares: dict[tuple[str, bool, bool], _Share] = {}

    def add(self, path: str, *, read_only: bool, backup: bool = False) -> Lease:
        """Share a directory, or a single file."""
        if self._only_read_only and not read_only:
            raise InvalidSpec(
                f"failed to add VSMB share to utility VM for mount {path}: adding writable shares is denied: operation "
                f"denied: annotation {names.SHARES_READ_ONLY} forbids it; mount it with option ro"
            )
        if os.path.isdir(path):
            return self._add_directory(path, read_only, backup)
        return self._add_file(path, read_only)

    def _add_directory(self, path: str, read_only: bool, backup: bool) -> Lease:
        key = (path, read_only, False)
        with self._lock:
            share = self._shares.get(key)
            if share is None:
                options = share_options(read_only=read_only, backup=backup, no_direct_map=self._no_direct_map)
                share = self._new(path, options)
                self._change("Add", share.settings())
                self._shares[key] = share
            share.users += 1
        return Lease(GUEST_ROOT + share.name, lambda: self._release(key))

    def _add_file(self, path: str, read_only: bool) -> Lease:
        directory, name = os.path.split(path)
        key = (directory, read_only, True)
        with self._lock:
            share = self._shares.get(key)
            if share is None:
                options = share_options(read_only=read_only, no_direct_map=self._no_direct_map, file=True)
                share = self._new(directory, options)
                share.files[path] = 0
                self._change("Add", share.settings())
                self._shares[key] = share
            elif path not in share.files:
                share.files[path] = 0
                try:
                    self._change("Update", share.settings())
                except BaseException:
                    del share.files[path]
                    raise
            share.users += 1
            share.files[path] += 1
        return Lease(f"{GUEST_ROOT}{share.name}\\{name}", lambda: self._release(key, path))

    def _new(self, path: str, options: Document) -> _Share:
        self._count += 1
        return _Share(f"s{self._count:x}", path, options)

    def _release(self, key: tuple[str, bool, bool], file: str = "") -> None:
        with self._lock:
            share = self._shares[key]
            share.users -= 1
            if file:
                share.files[file] -= 1
            if not self._no_direct_map:
                return  # what is mapped directly stays until the VM ends, files as well as directories
            if not share.users:
                del self._shares[key]
                self._change("Remove", {"Name": share.name})
            elif file and not share.files[file]:
                del share.files[file]
                self._change("Update", share.settings())

    def _change(self, request: str, settings: Document) -> None:
        self._modify({"ResourcePath": PATH, "RequestType": request, "Settings": settings})

"""VSMB shares: directories and files of the host that a Windows guest sees. Refcounted, so that containers share them.

A directory is shared as it is. A file is shared by its directory, restricted to the files that were requested. Shares
are named s1, s2 … in order of creation. A share that Windows maps directly into the VM cannot be removed while the VM
runs: it stays, unused, and is used again by the next request for the same path. Named pipes of the host are mapped into
the VM by HCS, and the guest opens them through the share `IPC$`. The options of a share are those of Microsoft's shim,
https://github.com/microsoft/hcsshim/blob/main/internal/uvm/vsmb.go.
"""

from __future__ import annotations

import os
from threading import Lock

from shim.container.mounts import PIPE
from shim.oci.annotations import vm as names
from shim.oci.errors import InvalidSpec
from shim.platform import host
from shim.uvm.guest import Lease

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from shim.uvm.vm import Vm

    Document = dict[str, Any]

PATH = "VirtualMachine/Devices/VirtualSmb/Shares"
PIPES_PATH = "VirtualMachine/Devices/MappedPipes/"
GUEST_ROOT = "\\\\?\\VMSMB\\VSMB-{dcc079ae-60ba-4d07-847c-3493609c0870}\\"


_READ_ONLY = {"ReadOnly": True, "ShareRead": True, "CacheIo": True}


def is_share(guest_path: str) -> bool:
    """Whether a path of a guest is that of a shared directory, and of nothing in it."""
    return guest_path.startswith(GUEST_ROOT) and guest_path[len(GUEST_ROOT) :].isalnum()


def share_options(
    *, read_only: bool, backup: bool = False, no_direct_map: bool = False, file: bool = False
) -> Document:
    """`backup`: files are read regardless of their owner, as layers need it."""
    options: Document = {}
    if read_only:
        options.update(_READ_ONLY)
    if no_direct_map:
        options["NoDirectmap"] = True
    if backup:
        options["TakeBackupPrivilege"] = True
    if read_only:
        options["PseudoOplocks"] = True
    if file:
        options.update({"RestrictFileAccess": True, "SingleFileMapping": True})
    return options


class _Share:
    __slots__ = ("files", "name", "options", "path", "refcount")

    def __init__(self, name: str, path: str, options: Document) -> None:
        self.name = name
        self.path = path
        self.options = options
        self.refcount = 0
        #: Of a restricted share: the refcount of each file.
        self.files: dict[str, int] = {}

    def settings(self) -> Document:
        settings: Document = {"Name": self.name, "Path": self.path}
        if self.files:
            settings["AllowedFiles"] = list(self.files)
        settings["Options"] = self.options  # present even when none is set
        return settings


class VsmbShares:
    """`modify` is HCS's modify of the VM. Calls may come from any thread; one share is changed at a time."""

    def __init__(self, modify: Callable[[Document], None], *, no_direct_map: bool, read_only: bool) -> None:
        self._modify = modify
        self._no_direct_map = no_direct_map
        self._only_read_only = read_only
        self._lock = Lock()
        self._count = 0
        self._shares: dict[tuple[str, bool, bool], _Share] = {}
        self._pipes: dict[str, int] = {}

    def add(self, path: str, *, read_only: bool, backup: bool = False) -> Lease:
        """Share a directory, or a single file."""
        if self._only_read_only and not read_only:
            raise InvalidSpec(
                f"failed to add VSMB share to utility VM for mount {path}: adding writable shares is denied: operation "
                f"denied: annotation {names.SHARES_READ_ONLY} forbids it; mount it with option ro"
            )
        if host.is_directory(path):
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
            share.refcount += 1
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
            share.refcount += 1
            share.files[path] += 1
        return Lease(f"{GUEST_ROOT}{share.name}\\{name}", lambda: self._release(key, path))

    def _new(self, path: str, options: Document) -> _Share:
        self._count += 1
        return _Share(f"s{self._count:x}", path, options)

    def _release(self, key: tuple[str, bool, bool], file: str = "") -> None:
        with self._lock:
            share = self._shares[key]
            share.refcount -= 1
            if file:
                share.files[file] -= 1
            if not self._no_direct_map:
                return  # what is mapped directly stays until the VM exits, files as well as directories
            if not share.refcount:
                del self._shares[key]
                self._change("Remove", {"Name": share.name})
            elif file and not share.files[file]:
                del share.files[file]
                self._change("Update", share.settings())

    def add_pipe(self, path: str) -> Lease:
        """Map a named pipe of the host (`\\\\.\\pipe\\…`)."""
        with self._lock:
            if path not in self._pipes:
                self._modify({"ResourcePath": PIPES_PATH + path, "RequestType": "Add"})
            self._pipes[path] = self._pipes.get(path, 0) + 1
        return Lease(f"{GUEST_ROOT}IPC$\\{path[len(PIPE) :]}", lambda: self._release_pipe(path))

    def _release_pipe(self, path: str) -> None:
        with self._lock:
            self._pipes[path] -= 1
            if not self._pipes[path]:
                del self._pipes[path]
                self._modify({"ResourcePath": PIPES_PATH + path, "RequestType": "Remove"})

    def _change(self, request: str, settings: Document) -> None:
        self._modify({"ResourcePath": PATH, "RequestType": request, "Settings": settings})


def shares_of(vm: Vm) -> VsmbShares:
    """The shares of a VM with a Windows guest."""
    shares = vm.shares
    assert isinstance(shares, VsmbShares)
    return shares

"""Plan 9 shares: directories and files of the host that a Linux guest mounts.

A file is shared by its directory, restricted to that file, and then mounted as the directory. Shares are named by a
counter and not shared among containers. HCS gets a share first, then the guest; the guest removes it first. The
counterpart is https://github.com/microsoft/hcsshim/blob/main/internal/uvm/plan9.go.
"""

from __future__ import annotations

from threading import Lock

from shim.hcs_bindings.errors import ErrorContext
from shim.hcs_bindings.windows_version import windows_build
from shim.oci.annotations import vm as names
from shim.oci.errors import InvalidSpec
from shim.platform import host
from shim.uvm.guest import Lease

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Document = dict[str, Any]
    ModifyGuest = Callable[[str, str, Document], None]

PATH = "VirtualMachine/Devices/Plan9/Shares"
PORT = 564
READ_ONLY = 0x1
LINUX_METADATA = 0x4
RESTRICT_FILE_ACCESS = 0x80
FIRST_BUILD_WITH_FILES = 18362


class Plan9Shares:
    """`modify` is HCS's modify of the VM, `modify_guest` GCS's (`GcsConnection.modify_vm`)."""

    def __init__(self, modify: Callable[[Document], None], modify_guest: ModifyGuest, *, only_read_only: bool) -> None:
        self._modify = modify
        self._modify_guest = modify_guest
        #: Writable shares are refused.
        self.only_read_only = only_read_only
        self._lock = Lock()
        self._count = 0

    def add(self, path: str, *, read_only: bool) -> Lease:
        """Share a directory, or a single file, with the VM. The lease's path is the name of the share."""
        if self.only_read_only and not read_only:
            raise InvalidSpec(
                f"adding writable shares is denied: operation denied: {path}: annotation {names.SHARES_READ_ONLY} "
                "forbids it; mount it with option ro"
            )
        flags = LINUX_METADATA | (READ_ONLY if read_only else 0)
        directory, file = split(path)
        if file:
            if (build := windows_build()) < FIRST_BUILD_WITH_FILES:
                raise InvalidSpec(
                    f"single-file mappings are not supported on this build of Windows: {path} is a file, and this is "
                    f"build {build}; share its directory, or use build {FIRST_BUILD_WITH_FILES}"
                )
            flags |= RESTRICT_FILE_ACCESS
        with self._lock:
            name = str(self._count)
            self._count += 1
        key = {"Name": name, "AccessName": name}
        settings: Document = {**key, "Path": directory, "Port": PORT, "Flags": flags}
        if file:
            settings["AllowedFiles"] = [file]
        with ErrorContext("adding VM resources"):
            self._modify({"ResourcePath": PATH, "RequestType": "Add", "Settings": settings})
        remove = {"ResourcePath": PATH, "RequestType": "Remove", "Settings": {**key, "Port": PORT}}
        return Lease(name, lambda: self._modify(remove))

    def mount(self, path: str, target: str, *, read_only: bool) -> Lease:
        """Share a directory or file and mount it in the guest. The lease's path is that of the directory or file."""
        share = self.add(path, read_only=read_only)
        try:
            self.map(share, target, read_only)
        except BaseException:
            share.release()
            raise
        file = split(path)[1]
        return Lease(f"{target}/{file}" if file else target, lambda: self._unmount(share, target))

    def map(self, share: Lease, target: str, read_only: bool) -> None:
        settings = {"MountPath": target, "ShareName": share.guest_path, "Port": PORT}
        if read_only:
            settings["ReadOnly"] = True
        with ErrorContext("guest modify"):
            self._modify_guest("MappedDirectory", "Add", settings)

    def _unmount(self, share: Lease, target: str) -> None:
        settings = {"MountPath": target, "ShareName": share.guest_path, "Port": PORT}
        self._modify_guest("MappedDirectory", "Remove", settings)
        share.release()


def split(path: str) -> tuple[str, str]:
    """The directory to share, and the file in it; "" if the path is a directory."""
    if host.is_directory(path):
        return path, ""
    separators = "/" if host.IS_EMULATED else "/\\"
    end = max(path.rfind(separator) for separator in separators) + 1
    return path[:end], path[end:]

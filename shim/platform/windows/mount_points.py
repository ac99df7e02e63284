"""Volume mount points and links, visible to the whole host: used where there is no bind filter."""

from __future__ import annotations

import errno
import os

from shim.platform.job_types import NOT_SUPPORTED, JobError
from shim.platform.windows.files import native
from shim.platform.windows.job_library import failure, library

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_LIST_DIRECTORY = 0x0001
_NOT_DELETED = 0x1 | 0x2  # FILE_SHARE_READ, FILE_SHARE_WRITE: while it is open it can be neither removed nor renamed
_OPEN_EXISTING = 3
_THE_LINK_ITSELF = 0x02000000 | 0x00200000  # FILE_FLAG_BACKUP_SEMANTICS, FILE_FLAG_OPEN_REPARSE_POINT
_REPARSE_POINT = 0x0400
_DIRECTORY = 0x0010
_NOT_FOUND = (2, 3)
_NO_MOUNT_POINT = 4390  # not a reparse point
_NOT_IMPLEMENTED = (0, 50, 120)


def mount(volume: str, directory: str) -> None:
    """Mount a volume at a directory, which is created."""
    os.makedirs(native(directory), exist_ok=True)
    if library("kernel32").SetVolumeMountPointW(_with_backslash(directory), _with_backslash(volume)):
        return
    error = failure(f"{volume} cannot be mounted at {directory}")
    if error.code in _NOT_IMPLEMENTED:  # Wine has no mount points
        error = JobError(NOT_SUPPORTED, f"this system has no mount points for volumes: {directory} stays empty")
    raise error


def unmount(directory: str) -> None:
    if not library("kernel32").DeleteVolumeMountPointW(_with_backslash(directory)):
        error = failure(f"{directory} cannot be unmounted")
        if error.code not in (*_NOT_FOUND, _NO_MOUNT_POINT, *_NOT_IMPLEMENTED):
            raise error
    try:
        os.rmdir(native(directory))
    except OSError:
        pass  # it is removed already, or not empty


def make_directory_below(root: str, parts: Sequence[str]) -> None:
    with _HeldDirectories(root, parts):
        pass


def link_below(target: str, root: str, parts: Sequence[str]) -> None:
    with _HeldDirectories(root, parts[:-1]) as directory:
        path = f"{directory}\\{parts[-1]}"
        os.symlink(target, path, target_is_directory=os.path.isdir(native(target)))


class _HeldDirectories:
    """Directories below another, each created and held open, so that none can be replaced by a link meanwhile.

    NotADirectoryError for a link on the way: the container's image has put it there, and it may lead anywhere.
    """

    def __init__(self, root: str, parts: Sequence[str]) -> None:
        self._path = native(root).rstrip("\\")
        self._parts = parts
        self._handles: list[int] = []

    def __enter__(self) -> str:
        try:
            for part in self._parts:
                self._enter(part)
        except BaseException:
            self._close()
            raise
        return self._path

    def _enter(self, part: str) -> None:
        import _winapi

        self._path = f"{self._path}\\{part}"
        try:
            os.mkdir(self._path)
        except FileExistsError:
            pass
        handle = _winapi.CreateFile(self._path, _LIST_DIRECTORY, _NOT_DELETED, 0, _OPEN_EXISTING, _THE_LINK_ITSELF, 0)
        self._handles.append(handle)
        status = os.lstat(self._path)
        if status.st_file_attributes & _REPARSE_POINT or not status.st_file_attributes & _DIRECTORY:
            raise NotADirectoryError(errno.ENOTDIR, "it is a link, or not a directory", self._path)

    def __exit__(self, *_: object) -> None:
        self._close()

    def _close(self) -> None:
        import _winapi

        for handle in self._handles:
            _winapi.CloseHandle(handle)
        self._handles = []


def _with_backslash(path: str) -> str:
    return path if path.endswith("\\") else path + "\\"

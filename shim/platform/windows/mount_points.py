"""Volume mount points and links, visible to the whole host: used where there is no bind filter."""

from __future__ import annotations

import os

from shim.platform.job_types import NOT_SUPPORTED, JobError
from shim.platform.windows.files import native
from shim.platform.windows.job_library import failure, library

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


def link(target: str, path: str) -> None:
    os.makedirs(native(os.path.dirname(path)), exist_ok=True)
    os.symlink(target, native(path), target_is_directory=os.path.isdir(native(target)))


def _with_backslash(path: str) -> str:
    return path if path.endswith("\\") else path + "\\"

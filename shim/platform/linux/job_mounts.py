r"""Maps Windows paths to paths of the emulator's host, and mounts volumes and files."""

from __future__ import annotations

import os

from shim.platform.job_types import FILE_NOT_FOUND, GENERAL_FAILURE, JobError

VOLUME = "\\\\?\\Volume{"
_VERBATIM = "\\\\?\\"
# The default directory of the emulator's service.
_INSTANCE = "/run/hcs-emulator"


def posix(path: str) -> str:
    r"""`C:\a\b` is `/a/b`; a volume is where the emulator has mounted it."""
    if path.startswith(VOLUME):
        guid, _, rest = path[len(VOLUME) :].partition("}")
        directory = os.environ.get("HCS_EMULATOR_DIR") or _INSTANCE
        return os.path.normpath(f"{directory}/volumes/{guid.lower()}/" + rest.replace("\\", "/"))
    path = path.removeprefix(_VERBATIM)
    if len(path) > 1 and path[0].isalpha() and path[1] == ":":
        path = "/" + path[2:].lstrip("\\/")
    elif path.startswith("/"):
        return os.path.normpath(path)
    return os.path.normpath(path.replace("\\", "/"))


def tree_of(path: str) -> int:
    """A detached copy of the mount at a path, which another mount namespace can attach."""
    from shim.platform.linux.mounts import open_tree

    try:
        return open_tree(posix(path))
    except OSError as error:
        raise JobError(FILE_NOT_FOUND, f"{path!r} cannot be bound: {error.strerror}") from error


def mount(volume: str, directory: str) -> None:
    from shim.platform.linux.mounts import mount as bind

    target = posix(directory)
    try:
        os.makedirs(target, exist_ok=True)
        bind(posix(volume), target, "", ["rbind"])
    except OSError as error:
        raise JobError(GENERAL_FAILURE, f"the container's files cannot be mounted at {directory}: {error}") from error


def unmount(directory: str) -> None:
    from shim.platform.host import unmount as unbind

    target = posix(directory)
    unbind(target)
    try:
        os.rmdir(target)
    except FileNotFoundError:
        pass


def link(target: str, path: str) -> None:
    place = posix(path)
    os.makedirs(os.path.dirname(place), exist_ok=True)
    os.symlink(posix(target), place)

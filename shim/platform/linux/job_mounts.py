r"""Maps Windows paths to paths of the emulator's host, and mounts volumes and files."""

from __future__ import annotations

import os

from shim.platform.job_types import FILE_NOT_FOUND, GENERAL_FAILURE, JobError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

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


def make_directory_below(root: str, parts: Sequence[str]) -> None:
    os.close(_open_below(posix(root), parts))


def link_below(target: str, root: str, parts: Sequence[str]) -> None:
    directory = _open_below(posix(root), parts[:-1])
    try:
        os.symlink(posix(target), parts[-1], dir_fd=directory)
    finally:
        os.close(directory)


def _open_below(root: str, parts: Sequence[str]) -> int:
    """Open a directory below another, which is created. NotADirectoryError for a link on the way: the container's image
    has put it there, and it may lead anywhere."""
    flags = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
    directory = os.open(root, flags)
    try:
        for part in parts:
            try:
                os.mkdir(part, dir_fd=directory)
            except FileExistsError:
                pass
            inner = os.open(part, flags | os.O_NOFOLLOW, dir_fd=directory)
            os.close(directory)
            directory = inner
    except BaseException:
        os.close(directory)
        raise
    return directory

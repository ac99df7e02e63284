"""Small files, without `os`.

`shim.platform.windows.files` has the same functions. The lines that both have in common are not shared: one more module
would cost `start` more time than they are worth.
"""

from __future__ import annotations

import posix

_REGULAR = 0o100000
_TYPE = 0o170000
_NO_LINK = posix.O_NOFOLLOW


def native(path: str) -> str:
    """The path for a system call. Windows needs a prefix for long ones."""
    return path


def read(path: str, limit: int, *, follow: bool = True) -> bytes:
    """A regular file's content, at most `limit` bytes."""
    descriptor = open_regular(path, follow=follow)
    try:
        return read_all(descriptor, limit)
    finally:
        posix.close(descriptor)


def open_regular(path: str, *, follow: bool = True) -> int:
    """Open a regular file to read it; the caller owns the descriptor. A FIFO in its place must not block us. Without
    `follow` a link is refused: for files of images, and for files that the shim or containerd has written itself."""
    descriptor = posix.open(path, posix.O_RDONLY | posix.O_NONBLOCK | posix.O_CLOEXEC | (0 if follow else _NO_LINK))
    if posix.fstat(descriptor).st_mode & _TYPE != _REGULAR:
        posix.close(descriptor)
        raise OSError(22, "not a regular file")
    return descriptor


def size(path: str) -> int:
    """The size in bytes; 0 if there is no such file."""
    try:
        return posix.stat(path).st_size
    except OSError:
        return 0


def exists(path: str) -> bool:
    try:
        posix.lstat(path)
    except OSError:
        return False
    return True


def read_all(descriptor: int, limit: int) -> bytes:
    """Read to EOF, at most `limit` bytes. In pieces: Wine touches all of a buffer, however little is read."""
    chunks = []
    while limit > 0:
        chunk = posix.read(descriptor, min(limit, 1 << 16))
        if not chunk:
            break
        chunks.append(chunk)
        limit -= len(chunk)
    return b"".join(chunks)


def read_stdin(limit: int) -> bytes:
    """stdin up to EOF; empty if it is closed or a terminal."""
    try:
        return b"" if posix.isatty(0) else read_all(0, limit)
    except OSError:
        return b""


def write_stdout(data: bytes) -> None:
    write_all(1, data)


def write_stderr(data: bytes) -> None:
    write_all(2, data)


def write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[posix.write(descriptor, data) :]


def write_atomic(path: str, data: bytes) -> None:
    """Write a file atomically: readers see all of it or none, even after a crash. A link is replaced, not followed, and
    a FIFO not waited for."""
    directory, _, name = path.rpartition("/")
    temporary = f"{directory}/.{name}"
    flags = posix.O_WRONLY | posix.O_CREAT | posix.O_TRUNC | posix.O_NONBLOCK | posix.O_CLOEXEC | _NO_LINK
    descriptor = posix.open(temporary, flags, 0o600)
    try:
        try:
            write_all(descriptor, data)
        finally:
            posix.close(descriptor)
        posix.rename(temporary, path)
    except OSError:
        remove(temporary)
        raise


def create(path: str) -> int:
    """Create an empty file for appending; the caller owns the descriptor. A link or a FIFO in its place is refused."""
    flags = posix.O_WRONLY | posix.O_CREAT | posix.O_TRUNC | posix.O_APPEND | posix.O_NONBLOCK | posix.O_CLOEXEC
    return posix.open(path, flags | _NO_LINK, 0o600)


def write_created(descriptor: int, data: bytes) -> None:
    """Write to a file of `create`."""
    write_all(descriptor, data)


def append(path: str, data: bytes) -> None:
    """Append in one write; the file is created if it is missing. A link in its place is refused."""
    flags = posix.O_WRONLY | posix.O_CREAT | posix.O_APPEND | posix.O_NONBLOCK | posix.O_CLOEXEC | _NO_LINK
    descriptor = posix.open(path, flags, 0o600)
    try:
        write_all(descriptor, data)
    finally:
        posix.close(descriptor)


def make_directory(path: str) -> None:
    """Create a directory for the owner only, unless it exists."""
    try:
        posix.mkdir(path, 0o700)
    except FileExistsError:
        pass


def listing(path: str) -> list[str]:
    """The names in a directory without hidden ones; empty if it is missing."""
    try:
        return [name for name in posix.listdir(path) if not name.startswith(".")]
    except OSError:
        return []


def remove(path: str) -> None:
    """Remove a file. Errors are ignored."""
    try:
        posix.unlink(path)
    except OSError:
        pass


def close(descriptor: int) -> None:
    posix.close(descriptor)


def current_directory() -> str:
    return posix.getcwd()


def environment(name: str) -> str:
    """A variable of the environment, "" if it is not set."""
    return posix.environ.get(name.encode(), b"").decode("utf-8", "surrogateescape")

"""Small files, without `os`. The functions of `shim.platform.linux.files`, which says why the two share no code."""

from __future__ import annotations

import _winapi
import nt

_REGULAR = 0o100000
_TYPE = 0o170000
_LINK = 0o120000
_BINARY = nt.O_BINARY | nt.O_NOINHERIT
_VERBATIM = "\\\\?\\"
# What CreateFile accepts without a prefix, less what is appended to a directory's path.
_MAX_LENGTH = 240

_GENERIC_APPEND = 0x0004 | 0x00100000  # FILE_APPEND_DATA, SYNCHRONIZE
_SHARE_ALL = 7  # read, write, delete
_CREATE_ALWAYS = 2
_NORMAL = 0x80


def native(path: str) -> str:
    """The path for a system call, with a verbatim prefix if it is long: such a path has no forward slashes."""
    if path.startswith(_VERBATIM):
        return path.replace("/", "\\")
    if len(path) < _MAX_LENGTH:
        return path
    full: str = nt._getfullpathname(path)  # type: ignore[attr-defined]
    if full.startswith("\\\\"):
        return f"{_VERBATIM}UNC\\{full[2:]}" if not full.startswith("\\\\.\\") else full
    return _VERBATIM + full


def read(path: str, limit: int, *, follow: bool = True) -> bytes:
    """A regular file's content, at most `limit` bytes."""
    descriptor = open_regular(path, follow=follow)
    try:
        return read_all(descriptor, limit)
    finally:
        nt.close(descriptor)


def open_regular(path: str, *, follow: bool = True) -> int:
    """Open a regular file to read it; the caller owns the descriptor. Without `follow` a link is refused."""
    if not follow:
        _refuse_link(native(path))
    descriptor = nt.open(native(path), nt.O_RDONLY | _BINARY)
    if nt.fstat(descriptor).st_mode & _TYPE != _REGULAR:
        nt.close(descriptor)
        raise OSError(22, "not a regular file")
    return descriptor


def _refuse_link(path: str) -> None:
    """The system opens the target of a link, unless the caller asks for the link itself, which `nt.open` cannot."""
    try:
        is_link = nt.lstat(path).st_mode & _TYPE == _LINK
    except OSError:
        return  # the caller's open fails in the same way, or creates the file
    if is_link:
        raise OSError(22, "is a link, which is not followed", path)


def size(path: str) -> int:
    """The size in bytes; 0 if there is no such file."""
    try:
        return nt.stat(native(path)).st_size
    except OSError:
        return 0


def exists(path: str) -> bool:
    try:
        nt.lstat(native(path))
    except OSError:
        return False
    return True


def read_all(descriptor: int, limit: int) -> bytes:
    """Read to EOF, at most `limit` bytes. In pieces: Wine touches all of a buffer, however little is read."""
    chunks = []
    while limit > 0:
        chunk = nt.read(descriptor, min(limit, 1 << 16))
        if not chunk:
            break
        chunks.append(chunk)
        limit -= len(chunk)
    return b"".join(chunks)


def read_stdin(limit: int) -> bytes:
    """stdin up to EOF; empty if it is closed or a console."""
    try:
        if nt.isatty(0):
            return b""
        _set_binary(0)
        return read_all(0, limit)
    except OSError:
        return b""


def write_stdout(data: bytes) -> None:
    _set_binary(1)
    write_all(1, data)


def write_stderr(data: bytes) -> None:
    write_all(2, data)


def _set_binary(descriptor: int) -> None:
    """In text mode the C library translates line ends and stops at Ctrl-Z."""
    import msvcrt

    msvcrt.setmode(descriptor, nt.O_BINARY)


def write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[nt.write(descriptor, data) :]


def write_atomic(path: str, data: bytes) -> None:
    """Write a file atomically: readers see all of it or none, even after a crash. A link is replaced, not followed."""
    path = native(path)
    directory, slash, name = path.rpartition("\\") if "\\" in path.rpartition("/")[2] else path.rpartition("/")
    temporary = f"{directory}{slash}.{name}"
    _refuse_link(temporary)
    descriptor = nt.open(temporary, nt.O_WRONLY | nt.O_CREAT | nt.O_TRUNC | _BINARY, 0o600)
    try:
        try:
            write_all(descriptor, data)
        finally:
            nt.close(descriptor)
        nt.replace(temporary, path)
    except OSError:
        remove(temporary)
        raise


def create(path: str) -> int:
    """Create an empty file for appending; returns a handle with which other processes may still delete the file. A link
    in its place is refused."""
    _refuse_link(native(path))
    try:
        return _winapi.CreateFile(native(path), _GENERIC_APPEND, _SHARE_ALL, 0, _CREATE_ALWAYS, _NORMAL, 0)
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from None  # with the file name, which CreateFile omits


def write_created(handle: int, data: bytes) -> None:
    """Write to a file of `create`."""
    while data:
        data = data[_winapi.WriteFile(handle, data)[0] :]


def append(path: str, data: bytes) -> None:
    """Append in one write; the file is created if it is missing. A link in its place is refused."""
    _refuse_link(native(path))
    descriptor = nt.open(native(path), nt.O_WRONLY | nt.O_CREAT | nt.O_APPEND | _BINARY, 0o600)
    try:
        write_all(descriptor, data)
    finally:
        nt.close(descriptor)


def make_directory(path: str) -> None:
    """Create a directory, unless it exists, with its parent's access rights."""
    try:
        nt.mkdir(native(path))
    except FileExistsError:
        pass


def listing(path: str) -> list[str]:
    """The names in a directory without hidden ones; empty if it is missing."""
    try:
        return [name for name in nt.listdir(native(path)) if not name.startswith(".")]
    except OSError:
        return []


def remove(path: str) -> None:
    """Remove a file. Errors are ignored."""
    try:
        nt.unlink(native(path))
    except OSError:
        pass


def close(handle: int) -> None:
    """Close a handle of `create`."""
    _winapi.CloseHandle(handle)


def current_directory() -> str:
    return nt.getcwd()


def environment(name: str) -> str:
    """A variable of the environment, "" if it is not set. Names are case-insensitive on Windows, but not in `nt`."""
    found = nt.environ.get(name)
    if found is None:
        upper = name.upper()
        found = next((value for key, value in nt.environ.items() if key.upper() == upper), "")
    return found

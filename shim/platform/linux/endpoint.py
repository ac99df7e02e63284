"""The shim's endpoint: a Unix socket whose path is computed from containerd's address, the namespace and the id.

The rule is containerd's (SocketAddress in
https://github.com/containerd/containerd/blob/main/pkg/shim/util_unix.go: sha256 of the joined path, below
`/run/containerd/s`), so `ctr shim` finds the socket. Only root may enter the directory, only root may open the socket,
and a peer must have the same user: three checks, since a client of the shim can run containers as root.
"""

from __future__ import annotations

import _socket
import posix

SCHEME = "unix://"
DEFAULT_DIRECTORY = "/run/containerd/s"
DIRECTORY_VARIABLE = "RUNHCS_SOCKET_DIR"
# sun_path has 108 bytes with its NUL; containerd refuses above 106.
MAX_PATH = 106
BACKLOG = 128
# How long another process may hold the lock of the directory. Its holder probes a socket or two.
LOCK_TIME = 5.0
# How long a killed shim may still accept connections.
DYING_TIME = 0.5

_DIRECTORY = 0o040000
_SOCKET = 0o140000
_TYPE = 0o170000
_EADDRINUSE = 98
_CREDENTIALS = 12  # struct ucred: pid, uid, gid


class EndpointError(Exception):
    """An endpoint that cannot be used. The message has the next step."""


def address_for(containerd_address: str, namespace: str, id: str, directory: str = "") -> str:
    """The address of the shim that serves this id."""
    directory = directory or posix.environ.get(DIRECTORY_VARIABLE.encode(), b"").decode() or DEFAULT_DIRECTORY
    joined = _clean("/".join(part for part in (containerd_address, namespace, id) if part))
    return f"{SCHEME}{directory.rstrip('/')}/{hash_of(joined.encode('utf-8', 'surrogateescape'))}"


def hash_of(data: bytes) -> str:
    try:  # an extension module that a daemon does not need
        from _sha256 import sha256  # type: ignore[import-not-found]
    except ImportError:  # Python 3.12 and later
        from _sha2 import sha256  # type: ignore[import-not-found]
    return str(sha256(data).hexdigest())


def _clean(path: str) -> str:
    """Go's path.Clean, which containerd applies before it hashes."""
    parts: list[str] = []
    rooted = path.startswith("/")
    for part in path.split("/"):
        if part == "..":
            if parts and parts[-1] != "..":
                parts.pop()
            elif not rooted:
                parts.append(part)
        elif part not in ("", "."):
            parts.append(part)
    return ("/" if rooted else "") + "/".join(parts) or "."


def path_of(address: str) -> str:
    """The socket's path of an address, with or without a scheme."""
    path = address.removeprefix(SCHEME)
    if not path.startswith("/"):
        raise EndpointError(f"address {address!r} is not a Unix socket: use unix:///path")
    return path


def inherited(descriptor: int) -> _socket.socket:
    """A Unix socket that was inherited with this number. Our own children do not inherit it."""
    posix.set_inheritable(descriptor, False)
    return _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, descriptor)


def address_of(listener: _socket.socket) -> str:
    return f"{SCHEME}{listener.getsockname()}"


def name_of(address: str) -> str:
    """The part of an address that identifies the shim, without the directory."""
    return address.rpartition("/")[2]


def agent_address(address: str) -> str:
    """Where the node agent of a shim with this address listens."""
    return f"{address.rpartition('/')[0]}/agent"


def record_address(address: str) -> str:
    """Where `runhcs record` listens for new shims."""
    return f"{address.rpartition('/')[0]}/record"


def listen(address: str) -> _socket.socket:
    """A listening socket. A stale socket is replaced."""
    path = path_of(address)
    size = len(path.encode("utf-8", "surrogateescape"))
    if size > MAX_PATH:
        raise EndpointError(
            f"socket path {path} has {size} bytes, above {MAX_PATH}: set {DIRECTORY_VARIABLE} to a shorter directory"
        )
    _make_directory(path.rpartition("/")[0] or "/")
    listener = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        try:
            _bind(listener, path)
        except OSError as error:
            if error.errno != _EADDRINUSE:
                raise
            _replace(listener, path)
    except OSError as error:
        listener.close()
        raise EndpointError(f"cannot listen on {path}: {error.strerror}; is its directory writable?") from None
    except BaseException:
        listener.close()
        raise
    return listener


def _bind(listener: _socket.socket, path: str) -> None:
    before = posix.umask(0o177)
    try:
        listener.bind(path)
    finally:
        posix.umask(before)
    listener.listen(BACKLOG)


def _replace(listener: _socket.socket, path: str) -> None:
    """Replace the socket of a shim that died. Under a lock: two processes that find the same stale socket must not
    remove each other's new socket."""
    place = path.rpartition("/")[0]
    try:
        directory = lock(place)
    except BlockingIOError:
        raise EndpointError(f"another process holds the lock on {place} for too long: find it with fuser") from None
    try:
        try:
            if posix.lstat(path).st_mode & _TYPE != _SOCKET:
                raise EndpointError(f"{path} is in the way and is not a socket: remove it")
            if is_alive(path):
                raise EndpointError(f"a shim is already running on {path}: delete its task first, or use another id")
            posix.unlink(path)
        except FileNotFoundError:
            pass  # its shim has just removed it
        _bind(listener, path)
    finally:
        posix.close(directory)


def lock(path: str) -> int:
    """The lock for removing sockets of this directory; closing the descriptor releases it. Raises OSError, and
    BlockingIOError if another process holds it for too long: a stopped process must not block all others."""
    import fcntl
    import time

    directory = posix.open(path, posix.O_RDONLY | posix.O_DIRECTORY | posix.O_CLOEXEC)
    deadline = time.monotonic() + LOCK_TIME
    while True:
        try:
            fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return directory
        except OSError as error:
            if not isinstance(error, BlockingIOError) or time.monotonic() > deadline:
                posix.close(directory)
                raise
        time.sleep(0.01)


def _make_directory(path: str) -> None:
    """Create the directory if it is missing. One that others may enter is rejected, not changed: it may be /tmp."""
    try:
        try:
            status = posix.lstat(path)
        except FileNotFoundError:
            _make_all(path, 0o700)
            status = posix.lstat(path)
    except OSError as error:
        raise EndpointError(f"socket directory {path}: {error.strerror}; set {DIRECTORY_VARIABLE} to another") from None
    if status.st_mode & _TYPE != _DIRECTORY:
        raise EndpointError(f"socket directory {path} is not a directory: set {DIRECTORY_VARIABLE} to another")
    if status.st_uid != posix.geteuid() or status.st_mode & 0o077:
        raise EndpointError(
            f"socket directory {path} is open to others: chmod 700 it, or set {DIRECTORY_VARIABLE} to another"
        )


def _make_all(path: str, mode: int) -> None:
    try:
        posix.mkdir(path, mode)
    except FileNotFoundError:
        parent = path.rpartition("/")[0]
        if not parent:
            raise
        _make_all(parent, 0o711)
        posix.mkdir(path, mode)
    except FileExistsError:
        pass  # another start has created it


def exists(address: str) -> bool:
    """Whether the socket exists, stale or not."""
    try:
        posix.lstat(path_of(address))
    except (OSError, EndpointError):
        return False
    return True


def is_alive(path: str) -> bool:
    """Whether a process listens there."""
    try:
        connect(path, 1.0).close()
    except (TimeoutError, BlockingIOError):
        return True  # a full backlog is a busy shim
    except OSError:
        return False
    return True


def connect(path: str, timeout: float | None) -> _socket.socket:
    """A connection; the timeout also applies to its later operations."""
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        connection.settimeout(timeout)
        connection.connect(path)
    except BaseException:
        connection.close()
        raise
    return connection


def connect_to_own_user(path: str, timeout: float | None) -> _socket.socket:
    """A connection to a process of this user. PermissionError if it is of another one."""
    connection = connect(path, timeout)
    if not peer_is_own_user(connection):
        connection.close()
        raise PermissionError(1, f"the process that listens on {path} is of another user")
    return connection


def peer_is_own_user(connection: _socket.socket) -> bool:
    credentials = connection.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, _CREDENTIALS)
    return int.from_bytes(credentials[4:8], "little") == posix.geteuid()


class Listener:
    """Accepts connections of the own user only. `close` wakes a thread that blocks in `accept`."""

    __slots__ = ("_listener", "closed")

    def __init__(self, listener: _socket.socket) -> None:
        listener.setblocking(True)
        self._listener = listener
        self.closed = False

    def accept(self) -> _socket.socket:
        while True:
            descriptor, _ = self._listener._accept()  # type: ignore[attr-defined]
            connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, descriptor)
            if peer_is_own_user(connection):
                return connection
            connection.close()

    def close(self) -> None:
        self.closed = True
        try:
            self._listener.shutdown(_socket.SHUT_RDWR)
        except OSError:
            pass  # closed before

    def release(self) -> None:
        """Called by the accepting thread when it is done."""
        self._listener.close()


def remove(address: str, identity: tuple[int, int] | None = None) -> None:
    """Remove the socket. Only for its owner, or if it is known to be stale. With `identity`, only that socket: another
    `start` may have replaced it."""
    try:
        path = path_of(address)
        if identity is None or identity == identity_of(path):
            posix.unlink(path)
    except (OSError, EndpointError):
        pass


def identity_of(path: str) -> tuple[int, int] | None:
    """What tells a file from a later one with the same path; None if there is none."""
    try:
        status = posix.lstat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def remove_stale(address: str) -> None:
    """Remove the socket if no process listens on it."""
    try:
        path = path_of(address)
        if posix.lstat(path).st_mode & _TYPE == _SOCKET and not (is_alive(path) and _keeps_connection(path)):
            posix.unlink(path)
    except (OSError, EndpointError):
        pass


def _keeps_connection(path: str) -> bool:
    """Whether a connection stays open. The kernel closes a killed shim's sockets one by one, and the listening one may
    be the last: its clients have seen the end while it still accepts connections."""
    try:
        connection = connect(path, DYING_TIME)
        try:
            return bool(connection.recv(1))
        finally:
            connection.close()
    except TimeoutError:
        return True
    except OSError:
        return False

"""The control socket of a shared daemon: its name, and the side of `start`.

Its name is a hash of what pods of one daemon must have in common: the scope, containerd's address, the namespace if
the scope is one, the installed shim, the user, the environment, and what a process cannot take over from another
(namespaces, limits, groups, capabilities, control group), as with the standby. So `start` finds only a daemon that it
could have started itself. Only this user may enter the directory, and both ends check the user of their peer.

The messages are the standby's (`shim.platform.linux.standby`), with one more: the daemon reports READY when it serves
the pod. `launcher/linux/shared.c` is another client.
"""

from __future__ import annotations

import _socket
import posix
import sys

from shim.platform.linux.daemon import HANDOVER_TIMEOUT, READY, READY_TIMEOUT, Child
from shim.platform.linux.endpoint import hash_of, identity_of, lock, path_of, peer_is_own_user
from shim.platform.linux.files import read_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from shim.platform.linux.standby import Handover

PREFIX = "shared-"
BACKLOG = 128
PROTOCOL = b"runhcs-standby-3"
# How long a daemon may take to accept a connection; one that starts has to import its modules first.
GREETING_TIMEOUT = START_TIMEOUT = 10.0
# How long `delete`, for which containerd waits five seconds, waits for a place in the backlog of a daemon that hangs.
STALE_TIMEOUT = 0.2
_DIGITS = 32

# Variables that differ between the calls of one containerd, or between two runs of it, and that a daemon does not read.
IGNORED = frozenset(
    (
        b"NAMESPACE", b"RUNHCS_BEGAN", b"PWD", b"OLDPWD", b"SHLVL", b"_", b"LC_CTYPE", b"INVOCATION_ID",
        b"JOURNAL_STREAM", b"NOTIFY_SOCKET", b"WATCHDOG_PID", b"WATCHDOG_USEC", b"SYSTEMD_EXEC_PID", b"LISTEN_PID",
        b"LISTEN_FDS", b"LISTEN_FDNAMES", b"MEMORY_PRESSURE_WATCH", b"MEMORY_PRESSURE_WRITE",
    )
)  # fmt: skip
_STATUS = (b"Uid:", b"Gid:", b"Groups:", b"CapInh:", b"CapPrm:", b"CapEff:", b"CapBnd:", b"CapAmb:", b"NoNewPrivs:",
           b"Seccomp:", b"Cpus_allowed:", b"Mems_allowed:")  # fmt: skip
_NAMESPACES = ("cgroup", "ipc", "mnt", "net", "pid_for_children", "time_for_children", "user", "uts")
_FILES = ("limits", "cgroup", "oom_score_adj", "attr/current")


def control_path(address: str, scope: str, containerd_address: str, namespace: str) -> str:
    """The control socket of the daemon for pods with such addresses, in the directory of their sockets."""
    parts = [b"runhcs-shared-1", scope.encode(), containerd_address.encode(), namespace.encode(), *_program()]
    key = b"".join(part + b"\0" for part in (*parts, *_process_attributes(), *_environment()))
    return f"{path_of(address).rpartition('/')[0]}/{PREFIX}{hash_of(key)[:_DIGITS]}"


def _program() -> list[bytes]:
    """The installed shim: another version has another file."""
    path = sys.argv[0]
    status = posix.stat(path)
    return [path.encode("utf-8", "surrogateescape"), b"%d %d %d" % (status.st_ino, status.st_size, status.st_mtime_ns)]


def _process_attributes() -> list[bytes]:
    root = posix.stat("/")
    parts = [b"%d %d %d" % (root.st_dev, root.st_ino, posix.getpriority(posix.PRIO_PROCESS, 0))]
    parts += [posix.readlink(f"/proc/self/ns/{name}").encode() for name in _NAMESPACES]
    parts += [_read(f"/proc/self/{name}") for name in _FILES]
    return parts + [line for line in _read("/proc/self/status").split(b"\n") if line.startswith(_STATUS)]


def _read(path: str) -> bytes:
    try:
        descriptor = posix.open(path, posix.O_RDONLY | posix.O_CLOEXEC)
        try:
            return posix.read(descriptor, 8191)
        finally:
            posix.close(descriptor)
    except OSError:
        return b""


def _environment() -> list[bytes]:
    return sorted(name + b"=" + value for name, value in posix.environ.items() if name not in IGNORED)


def connect(path: str, timeout: float = GREETING_TIMEOUT) -> _socket.socket | None:
    """A connection to the daemon; None if there is none."""
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    try:
        connection.settimeout(timeout)
        connection.connect(path)
        if peer_is_own_user(connection):
            return connection
    except (FileNotFoundError, ConnectionRefusedError):
        connection.close()
        return None
    except BaseException:
        connection.close()
        raise
    connection.close()
    raise PermissionError(1, f"the process that listens on {path} is of another user")


def listen(path: str) -> _socket.socket | None:
    """The listening socket; None if another process listens there. Under a lock: a socket that is bound but does not
    listen yet would be taken for that of a dead daemon."""
    directory = lock(path.rpartition("/")[0])
    try:
        other = connect(path)
        if other is not None:
            other.close()
            return None
        remove(path)
        listener = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
        before = posix.umask(0o177)
        try:
            listener.bind(path)
        finally:
            posix.umask(before)
        listener.listen(BACKLOG)
        return listener
    finally:
        posix.close(directory)


def remove(path: str) -> None:
    try:
        posix.unlink(path)
    except OSError:
        pass


def remove_stale(address: str, content: bytes) -> None:
    """Remove control sockets of dead daemons, in the directory of a pod's socket. `content`: as for `crash_text`."""
    del content
    directory = path_of(address).rpartition("/")[0]
    try:
        names = [name for name in posix.listdir(directory) if name.startswith(PREFIX)]
        if not names:
            return
        held = lock(directory)
    except OSError:
        return
    try:
        for name in names:
            _remove_if_stale(f"{directory}/{name}")
    finally:
        posix.close(held)


def _remove_if_stale(path: str) -> None:
    try:
        other = connect(path, STALE_TIMEOUT)
    except OSError:
        return  # one that is busy or not ours is not stale
    if other is None:
        remove(path)
    else:
        other.close()


def path_instead(path: str) -> str:
    """The control socket to use instead of that of a daemon that hangs, which gets no more pods."""
    remove(path)
    return path


def wait_greeting(connection: _socket.socket) -> int:
    """The pid of the daemon, once it takes the pod; 0 if it takes no more pods, or has exited. TimeoutError if it
    hangs."""
    try:
        message = connection.recv(32)
    except TimeoutError:
        connection.close()
        raise
    except ConnectionError:
        message = b""
    if message[:1] == b"A" and message[1:].isdigit():
        return int(message[1:])
    connection.close()
    return 0


def hand_over(
    connection: _socket.socket,
    listener: _socket.socket,
    panic_log: int,
    options: bytes,
    bundle: str,
    is_sandbox: bool,
    arguments: list[str],
) -> None:
    """Send what the daemon needs for the pod."""
    descriptors = [listener.fileno(), panic_log]
    if options:
        file = _memfd(options)
        descriptors.append(file)
    texts = [text.encode("utf-8", "surrogateescape") for text in arguments]
    head = [PROTOCOL, b"1" if is_sandbox else b"0", bundle.encode("utf-8", "surrogateescape"), b"%d" % len(texts)]
    environment = [name + b"=" + value for name, value in posix.environ.items()]
    message = b"".join(text + b"\0" for text in (*head, *texts, *environment))
    passed = memoryview(b"".join(number.to_bytes(4, sys.byteorder) for number in descriptors))
    connection.sendmsg([message], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, passed)])
    if options:
        posix.close(file)


def _memfd(data: bytes) -> int:
    descriptor = posix.memfd_create("options", posix.MFD_CLOEXEC)
    while data:
        data = data[posix.write(descriptor, data) :]
    posix.lseek(descriptor, 0, 0)
    return descriptor


class Joined(Child):
    """A daemon that has taken the pod, until the handover is complete."""

    __slots__ = ()

    def __init__(self, pid: int, link: _socket.socket, listener: _socket.socket) -> None:
        del listener
        link.settimeout(READY_TIMEOUT)
        super().__init__(pid, link)

    def close(self) -> None:
        """Disconnect: the daemon gives up the pod."""
        self._link.close()

    def kill(self) -> None:
        """Not the process, which serves other pods."""
        self.close()


def discard(handover: Handover) -> None:
    """It will not be used."""
    handover.listener.close()
    posix.close(handover.panic_log)


def report_ready(link: _socket.socket) -> None:
    """In the daemon: it serves the pod."""
    link.settimeout(HANDOVER_TIMEOUT)
    link.send(READY)


def receive(connection: _socket.socket) -> Handover:
    """In the daemon: what a `start` hands over. OSError or ValueError if there is nothing."""
    from shim.platform.linux import standby  # not in `start`

    return standby.receive(connection)


def read_options(handover: Handover, limit: int) -> bytes:
    """The content of stdin of the `start`."""
    if handover.options < 0:
        return b""
    try:
        return read_all(handover.options, limit)
    finally:
        posix.close(handover.options)


class CrashLog:
    """The process's stderr: one file, with a name in each bundle. So `delete` finds in each what a crash wrote, and the
    file disappears with the last of them."""

    __slots__ = ()

    def link(self, path: str) -> None:
        # With a directory, which an absolute path does not need, Python follows the link.
        posix.link("/proc/self/fd/2", path, src_dir_fd=2)

    def remove(self) -> None:
        """Nothing to do: it disappears with the bundles."""


def crash_text(content: bytes, limit: int) -> bytes:
    """What a daemon wrote as it crashed, from the content of the file in a bundle."""
    return content[:limit]


class ControlEndpoint:
    """The daemon's side. `close` wakes the thread that blocks in `accept`."""

    __slots__ = ("_identity", "_listener", "_path", "closed")

    def __init__(self, listener: _socket.socket, path: str) -> None:
        listener.setblocking(True)
        self._listener = listener
        self._path = path
        self._identity = identity_of(path)
        self.closed = False

    def accept(self) -> _socket.socket:
        descriptor, _ = self._listener._accept()  # type: ignore[attr-defined]
        return _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET, 0, descriptor)

    def close(self) -> None:
        """Remove it, so that the next `start` creates another, and then refuse those that wait."""
        self.closed = True
        if identity_of(self._path) == self._identity:
            remove(self._path)
        try:
            self._listener.shutdown(_socket.SHUT_RDWR)
        except OSError:
            pass

    def release(self) -> None:
        """Called by the accepting thread when it is done: connections that wait are reset."""
        self._listener.close()

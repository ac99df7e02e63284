"""The standby's side of the socket: who asks, what they hand over, and becoming what they would have become.

`launcher/linux/standby.c` is the other side and says how the two agree. A spare takes over arguments, environment and
the descriptors of a daemon. What a process cannot take over is in the socket's name, so that a caller who differs in it
never finds this standby.
"""

from __future__ import annotations

import _socket
import os
import posix
import select
import sys

from shim.platform._libc_cffi import ffi
from shim.platform.linux import daemon
from shim.platform.linux.endpoint import lock, peer_is_own_user
from shim.platform.linux.files import remove
from shim.platform.linux.standby_start import is_wanted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

PROTOCOL = b"runhcs-standby-3"
MAX_REQUEST = 192 << 10
DESCRIPTORS = (2, 3)  # the listening socket, the panic log, and the options, if there are any
# The caller sends at once when it has heard that we are awake.
REQUEST_TIMEOUT = 2.0
BACKLOG = 64
TAKEN = b"T"

_PR_SET_MM = 35
_PR_SET_MM_ARG_END = 9


class Claim:
    """One start, and what the launcher handed over for its daemon."""

    __slots__ = ("_environment", "_panic_log", "arguments", "bundle", "is_sandbox", "link", "listener", "options")

    def __init__(self, connection: _socket.socket, data: bytes, descriptors: list[int]) -> None:
        if len(descriptors) not in DESCRIPTORS or not data.startswith(PROTOCOL + b"\0") or not data.endswith(b"\0"):
            for descriptor in descriptors:
                posix.close(descriptor)
            raise ValueError("not a claim")
        _, is_sandbox, bundle, count, *texts = data[:-1].split(b"\0")
        self.link = connection
        self.listener = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, descriptors[0])
        self._panic_log = descriptors[1]
        self.options = descriptors[2] if len(descriptors) > 2 else -1
        self.is_sandbox = is_sandbox == b"1"
        self.bundle = os.fsdecode(bundle)
        self.arguments = [os.fsdecode(text) for text in texts[: int(count)]]
        self._environment = texts[int(count) :]

    def take(self, shown: CommandLine) -> None:
        """Become what the launcher would have started. The rest of the caller's world never was ours."""
        posix.dup2(self._panic_log, 2)
        posix.close(self._panic_log)
        _replace_environment(self._environment)
        option = f"runhcs_daemon={self.is_sandbox:d}{self.options >= 0:d}{self.bundle}"
        shown.show(["-X", option, sys.orig_argv[2], *self.arguments])


class Door:
    """The standby's listening socket."""

    __slots__ = ("_identity", "_listener", "_path")

    def __init__(self, path: str, listener: _socket.socket) -> None:
        self._path = path
        self._listener = listener
        self._identity = _identity(path)

    def wait(self, lifeline: _socket.socket, is_fit: Callable[[], bool]) -> Claim | None:
        """In a spare: the next claim; None when the standby has ended, or when we are not fit for one."""
        waiting = select.poll()
        waiting.register(self._listener, select.POLLIN)
        waiting.register(lifeline, select.POLLIN)
        while True:
            ready = dict(waiting.poll())
            if self._listener.fileno() not in ready:
                return None
            try:
                descriptor, _ = self._listener._accept()  # type: ignore[attr-defined]
            except OSError:
                continue
            connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET, 0, descriptor)
            if not is_fit():
                return None
            try:
                return _receive(connection)
            except (OSError, ValueError):
                connection.close()  # somebody who has not waited, or has only looked whether we are alive

    def show_life(self) -> None:
        """For the launcher, which removes the socket of a standby that seems to hang, but not of one that is busy."""
        try:
            posix.utime(self._path)
        except OSError:
            pass

    @property
    def is_ours(self) -> bool:
        """Whether the path still leads here: a caller whom we kept waiting has removed it."""
        return _identity(self._path) == self._identity

    def close(self, remove: bool) -> None:
        if remove and self.is_ours:
            posix.unlink(self._path)
        self._listener.close()


def _receive(connection: _socket.socket) -> Claim:
    if not peer_is_own_user(connection):
        raise ValueError("another user")
    connection.settimeout(REQUEST_TIMEOUT)
    connection.send(b"A%d" % posix.getpid())  # awake, and who
    room = _socket.CMSG_SPACE(4 * max(DESCRIPTORS))
    try:
        data, messages, _, _ = connection.recvmsg(MAX_REQUEST, room, _socket.MSG_CMSG_CLOEXEC)
    except TimeoutError:
        # From here on the caller's sending fails, and it starts cold. If it was quicker, its request is here.
        connection.shutdown(_socket.SHUT_RD)
        data, messages, _, _ = connection.recvmsg(MAX_REQUEST, room, _socket.MSG_CMSG_CLOEXEC | _socket.MSG_DONTWAIT)
    connection.setblocking(True)
    descriptors: list[int] = []
    for level, kind, content in messages:
        if (level, kind) == (_socket.SOL_SOCKET, _socket.SCM_RIGHTS):
            descriptors += memoryview(content[: len(content) // 4 * 4]).cast("i").tolist()
    return Claim(connection, data, descriptors)


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = posix.lstat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def open_door(path: str) -> Door | None:
    """Listen; None if there is a standby already, or no telling whether there is."""
    try:
        directory = lock(path.rpartition("/")[0])
    except OSError:
        return None
    try:
        if not is_wanted(path):
            return None
        listener = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
        # It has its name only when it listens: one that does not would be taken for a dead one's.
        temporary = f"{path.rpartition('/')[0]}/.{path.rpartition('/')[2]}"
        remove(temporary)
        before = posix.umask(0o177)
        try:
            listener.bind(temporary)
        finally:
            posix.umask(before)
        listener.listen(BACKLOG)
        listener.setblocking(False)
        posix.rename(temporary, path)
        return Door(path, listener)
    finally:
        posix.close(directory)


def settle() -> None:
    """Leave the world of the command that started us."""
    posix.chdir("/")
    posix.umask(0o022)
    for name in posix.listdir("/proc/self/fd"):
        if int(name) > 2:
            try:
                posix.close(int(name))
            except OSError:
                pass  # the one that listed them


def fork_spare() -> tuple[bool, _socket.socket]:
    """A fork that is nobody's child, like a daemon from a cold start. Whether this is it, and a socket that leads from
    one to the other."""
    ours, theirs = _socket.socketpair()
    between = posix.fork()
    if between:
        theirs.close()
        posix.waitpid(between, 0)
        return False, ours
    if posix.fork():
        posix._exit(0)
    ours.close()
    posix.setsid()
    daemon.name_process()
    return True, theirs


def say_taken(line: _socket.socket) -> None:
    """To the standby, for it to fork another. If it has ended meanwhile, that is nothing to us any more."""
    try:
        line.send(TAKEN)
    except OSError:
        pass
    line.close()


class CommandLine:
    """What `ps` shows of a spare: once it is taken the command, not the standby, for people look for a shim by its
    container's id. Made before the spare is needed."""

    __slots__ = ("_begin", "_end", "_memory")

    def __init__(self) -> None:
        self._memory = -1
        try:
            with open("/proc/self/stat", "rb", 0) as file:
                fields = file.read(4096).rpartition(b")")[2].split()
            self._begin, self._end = int(fields[45]), int(fields[46])
            self._memory = posix.open("/proc/self/mem", posix.O_RDWR | posix.O_CLOEXEC)
        except (OSError, IndexError, ValueError):
            pass  # it is only for show

    def show(self, arguments: list[str]) -> None:
        if self._memory < 0:
            return
        command = b"\0".join([os.fsencode(part) for part in (*sys.orig_argv[:2], *arguments)]) + b"\0"
        room = self._end - self._begin
        command = command[:room]
        try:
            posix.pwrite(self._memory, command.ljust(room, b"\0"), self._begin)
        except OSError:
            pass
        posix.close(self._memory)
        libc: Any = ffi.dlopen(None)
        libc.prctl(_PR_SET_MM, _PR_SET_MM_ARG_END, self._begin + len(command), 0, 0)


def own_program() -> str:
    """The file that Python was told to run."""
    return sys.argv[0]


def _replace_environment(variables: list[bytes]) -> None:
    """Most of it is the same: only differences are written, for Python and for native code."""
    wanted = {}
    for variable in variables:
        name, equals, value = variable.partition(b"=")
        if equals:
            wanted[name] = value
    if wanted == posix.environ:
        return
    now = os.environb
    for name in [name for name in now if name not in wanted]:
        del now[name]
    for name, value in wanted.items():
        if now.get(name) != value:
            now[name] = value

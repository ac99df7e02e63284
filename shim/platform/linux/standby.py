"""The standby's side of its socket: accept a launcher, receive the handover, and turn a spare into the daemon.

`launcher/linux/standby.c` is the other side and describes the protocol. A spare takes over the arguments, environment
and descriptors of a daemon. What a process cannot take over is part of the socket's name, so that a launcher that
differs in it does not find this standby.
"""

from __future__ import annotations

import _socket
import os
import posix
import select
import sys

from shim.platform._libc_cffi import ffi
from shim.platform.linux import daemon
from shim.platform.linux.endpoint import identity_of, lock, peer_is_own_user
from shim.platform.linux.files import remove
from shim.platform.linux.standby_start import is_needed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

PROTOCOL = b"runhcs-standby-3"
MAX_REQUEST = 192 << 10
DESCRIPTORS = (2, 3)  # the listening socket, the panic log, and the options, if there are any
# The launcher sends at once after it has received the greeting.
REQUEST_TIMEOUT = 2.0
BACKLOG = 64
TAKEN = b"T"

_PR_SET_MM = 35
_PR_SET_MM_ARG_END = 9


class Handover:
    """What the launcher of one `start` hands over for its daemon."""

    __slots__ = ("_environment", "arguments", "bundle", "is_sandbox", "link", "listener", "options", "panic_log")

    def __init__(self, connection: _socket.socket, data: bytes, descriptors: list[int]) -> None:
        try:
            if len(descriptors) not in DESCRIPTORS or not data.startswith(PROTOCOL + b"\0") or not data.endswith(b"\0"):
                raise ValueError("not a handover")
            _, is_sandbox, bundle, number, *texts = data[:-1].split(b"\0")
            count = int(number)
            self.listener = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, descriptors[0])
        except (OSError, ValueError):  # of no listening socket
            for descriptor in descriptors:
                posix.close(descriptor)
            raise
        self.link = connection
        self.panic_log = descriptors[1]
        self.options = descriptors[2] if len(descriptors) > 2 else -1
        self.is_sandbox = is_sandbox == b"1"
        self.bundle = os.fsdecode(bundle)
        self.arguments = [os.fsdecode(text) for text in texts[:count]]
        self._environment = texts[count:]

    def apply(self, title: ProcessTitle) -> None:
        """Turn this process into the daemon that the launcher would have started. A spare is detached already."""
        posix.dup2(self.panic_log, 2)
        posix.close(self.panic_log)
        _replace_environment(self._environment)
        option = f"runhcs_daemon={self.is_sandbox:d}{self.options >= 0:d}{self.bundle}"
        title.set(["-X", option, sys.orig_argv[2], *self.arguments])


class StandbySocket:
    """The standby's listening socket."""

    __slots__ = ("_identity", "_listener", "_path")

    def __init__(self, path: str, listener: _socket.socket) -> None:
        self._path = path
        self._listener = listener
        self._identity = identity_of(path)

    def wait(self, lifeline: _socket.socket, is_fit: Callable[[], bool]) -> Handover | None:
        """In a spare: the next handover; None if the standby has exited or `is_fit` returns False."""
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
                return receive(connection)
            except (OSError, ValueError):
                connection.close()  # a launcher that timed out, or a probe (`is_alive`)

    def touch(self) -> None:
        """Update the socket's timestamp: the launcher removes the socket of a standby that hangs, not of a busy one."""
        try:
            posix.utime(self._path)
        except OSError:
            pass

    @property
    def is_ours(self) -> bool:
        """Whether the path still names this socket: a launcher that timed out removes it."""
        return identity_of(self._path) == self._identity

    def close(self, remove: bool) -> None:
        if remove and self.is_ours:
            posix.unlink(self._path)
        self._listener.close()


def receive(connection: _socket.socket) -> Handover:
    """Greet a launcher and receive its handover. OSError or ValueError if there is none."""
    if not peer_is_own_user(connection):
        raise ValueError("another user")
    connection.settimeout(REQUEST_TIMEOUT)
    connection.send(b"A%d" % posix.getpid())  # the greeting: awake, and our pid
    space = _socket.CMSG_SPACE(4 * max(DESCRIPTORS))
    try:
        data, messages, _, _ = connection.recvmsg(MAX_REQUEST, space, _socket.MSG_CMSG_CLOEXEC)
    except TimeoutError:
        # From here on the launcher's send fails, and it starts cold. If it sent before, its request is here.
        connection.shutdown(_socket.SHUT_RD)
        data, messages, _, _ = connection.recvmsg(MAX_REQUEST, space, _socket.MSG_CMSG_CLOEXEC | _socket.MSG_DONTWAIT)
    connection.setblocking(True)
    descriptors: list[int] = []
    for level, kind, content in messages:
        if (level, kind) == (_socket.SOL_SOCKET, _socket.SCM_RIGHTS):
            descriptors += memoryview(content[: len(content) // 4 * 4]).cast("i").tolist()
    return Handover(connection, data, descriptors)


def listen(path: str) -> StandbySocket | None:
    """Listen; None if there is a standby already, or if that cannot be determined."""
    try:
        directory = lock(path.rpartition("/")[0])
    except OSError:
        return None
    try:
        if not is_needed(path):
            return None
        listener = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
        # Renamed to its path once it listens: before that it would be taken for the socket of a dead standby.
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
        return StandbySocket(path, listener)
    finally:
        posix.close(directory)


def detach() -> None:
    """Leave the directory and the descriptors of the command that started this process."""
    posix.chdir("/")
    posix.umask(0o022)
    for name in posix.listdir("/proc/self/fd"):
        if int(name) > 2:
            try:
                posix.close(int(name))
            except OSError:
                pass  # the descriptor of listdir itself


def fork_spare() -> tuple[bool, _socket.socket]:
    """Fork a spare that is not our child (double fork), like a daemon of a cold start. Returns whether this process is
    the spare, and a socket that connects the two."""
    ours, theirs = _socket.socketpair()
    intermediate = posix.fork()
    if intermediate:
        theirs.close()
        posix.waitpid(intermediate, 0)
        return False, ours
    if posix.fork():
        posix._exit(0)
    ours.close()
    posix.setsid()
    daemon.set_process_name()
    return True, theirs


def report_taken(line: _socket.socket) -> None:
    """Report to the standby, which forks another spare. It may have exited meanwhile."""
    try:
        line.send(TAKEN)
    except OSError:
        pass
    line.close()


class ProcessTitle:
    """The command line that `ps` shows: of a spare that was taken, the daemon's, since operators look for a shim by its
    container's id. Created in advance, before the spare is taken."""

    __slots__ = ("_begin", "_end", "_memory")

    def __init__(self) -> None:
        self._memory = -1
        try:
            with open("/proc/self/stat", "rb", 0) as file:
                fields = file.read(4096).rpartition(b")")[2].split()
            self._begin, self._end = int(fields[45]), int(fields[46])
            self._memory = posix.open("/proc/self/mem", posix.O_RDWR | posix.O_CLOEXEC)
        except (OSError, IndexError, ValueError):
            pass  # cosmetic only

    def set(self, arguments: list[str]) -> None:
        if self._memory < 0:
            return
        command = b"\0".join([os.fsencode(part) for part in (*sys.orig_argv[:2], *arguments)]) + b"\0"
        size = self._end - self._begin
        command = command[:size]
        try:
            posix.pwrite(self._memory, command.ljust(size, b"\0"), self._begin)
        except OSError:
            pass
        posix.close(self._memory)
        libc: Any = ffi.dlopen(None)
        libc.prctl(_PR_SET_MM, _PR_SET_MM_ARG_END, self._begin + len(command), 0, 0)


def own_program() -> str:
    """The file that Python runs."""
    return sys.argv[0]


def _replace_environment(variables: list[bytes]) -> None:
    """Write only the differences, for Python and for native code: most variables are the same."""
    new = {}
    for variable in variables:
        name, equals, value = variable.partition(b"=")
        if equals:
            new[name] = value
    if new == posix.environ:
        return
    now = os.environb
    for name in [name for name in now if name not in new]:
        del now[name]
    for name, value in new.items():
        if now.get(name) != value:
            now[name] = value

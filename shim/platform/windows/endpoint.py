"""The shim's endpoint: a named pipe below a prefix in which only administrators may create names.

`\\\\.\\pipe\\ProtectedPrefix\\Administrators\\containerd-shim-<namespace>-<id>-pipe`, the name of Microsoft's shim
(https://github.com/microsoft/hcsshim/blob/main/cmd/containerd-shim-runhcs-v1/serve.go). Only SYSTEM and Administrators
may open it, and no remote client; the first instance must be the first of its name, so that a squatted name is noticed.
"""

from __future__ import annotations

import _winapi
import nt
from _thread import allocate_lock

from shim.platform.windows.pipe import BUFFER, ERROR_OPERATION_ABORTED, PipeStream, dial

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _winapi import Overlapped

PIPES = "\\\\.\\pipe\\"
PREFIX = PIPES + "ProtectedPrefix\\Administrators\\"
# MAX_PATH does not apply to pipes, but their names have at most 256 characters.
MAX_NAME = 256

_DUPLEX = 0x3
_OVERLAPPED = 0x40000000
_FIRST_INSTANCE = 0x00080000
_REJECT_REMOTE_CLIENTS = 0x8
_UNLIMITED = 255
_TIMEOUT = 50

_ERROR_ACCESS_DENIED = 5
_ERROR_PIPE_BUSY = 231
_ERROR_PIPE_CONNECTED = 535
_ERROR_NO_DATA = 232


class EndpointError(Exception):
    """An endpoint that cannot be used. The message has the next step."""


def address_for(containerd_address: str, namespace: str, id: str, directory: str = "") -> str:
    """The address of the shim that serves this id."""
    del containerd_address, directory
    return f"{PREFIX}containerd-shim-{namespace}-{id}-pipe"


def path_of(address: str) -> str:
    """The pipe's path of an address, which may also be a URL."""
    path = address
    if path.startswith("npipe://"):
        path = path[len("npipe://") :].replace("/", "\\")
        path = "\\\\" + path.lstrip("\\")
    if not path.lower().startswith(PIPES):
        raise EndpointError(f"address {address!r} is not a named pipe: use {PIPES}NAME")
    return path


def name_of(address: str) -> str:
    """The part of an address that identifies the shim."""
    return address.rpartition("\\")[2]


def agent_address(address: str) -> str:
    """Where the node agent listens: one for all shims."""
    del address
    return f"{PREFIX}runhcs-agent"


def record_address(address: str) -> str:
    """Where `runhcs record` listens for new shims."""
    del address
    return f"{PREFIX}runhcs-record"


class ListeningPipe:
    """A pipe's name, held by an instance that waits for its client."""

    __slots__ = ("handle", "path")

    def __init__(self, path: str, handle: int) -> None:
        self.path = path
        self.handle = handle

    def next(self) -> int:
        """Create an instance for the next client; the caller owns the previous one."""
        taken, self.handle = self.handle, create(self.path, first=False)
        return taken

    def close(self) -> None:
        handle, self.handle = self.handle, 0
        if handle:
            _winapi.CloseHandle(handle)


def create(path: str, *, first: bool, direction: int = _DUPLEX) -> int:
    """A pipe instance in byte mode. With `first` it fails if another of that name exists."""
    from shim.platform.windows.security import administrators_only

    flags = direction | _OVERLAPPED | (_FIRST_INSTANCE if first else 0)
    security = administrators_only()
    return _winapi.CreateNamedPipe(path, flags, _REJECT_REMOTE_CLIENTS, _UNLIMITED, BUFFER, BUFFER, _TIMEOUT, security)


def listen(address: str) -> ListeningPipe:
    path = path_of(address)
    if len(path) - len(PIPES) > MAX_NAME:
        raise EndpointError(f"pipe name {path} has more than {MAX_NAME} characters: use a shorter id or namespace")
    # Before, because one error means both: a name that is taken, and one that this user may not create.
    if exists(path):
        raise EndpointError(f"{path} is taken: delete the task of that id first, or find out who holds the name")
    try:
        return ListeningPipe(path, create(path, first=True))
    except OSError as error:
        if error.winerror == _ERROR_PIPE_BUSY:
            raise EndpointError(f"{path} is taken: find out who holds the name") from None
        if error.winerror == _ERROR_ACCESS_DENIED:
            raise EndpointError(
                f"this user may not create {path}, or another process has just created it: run as an administrator"
            ) from None
        raise EndpointError(f"cannot listen on {path}: {error.strerror}") from None


def inherited(address: str, handle: int) -> ListeningPipe:
    """A pipe whose first instance our parent has created. Our own children do not inherit it."""
    nt.set_handle_inheritable(handle, False)
    return ListeningPipe(path_of(address), handle)


def address_of(listener: ListeningPipe) -> str:
    return listener.path


def identity_of(path: str) -> None:
    """None: no other process can replace a pipe while one holds it."""
    del path


def exists(address: str) -> bool:
    """Whether the pipe exists. The check does not use up an instance."""
    try:
        _winapi.WaitNamedPipe(path_of(address), 1)
    except FileNotFoundError:
        return False
    except (OSError, EndpointError):
        return True  # no free instance at the moment
    return True


def is_alive(path: str) -> bool:
    return exists(path)


def connect(path: str, timeout: float | None) -> PipeStream:
    """A connection; the timeout also applies to its later operations."""
    return PipeStream(dial(path, timeout), timeout)


def connect_to_own_user(path: str, timeout: float | None) -> PipeStream:
    """As `connect`: only administrators can create a pipe of our names."""
    if not path.lower().startswith(PREFIX.lower()):
        raise PermissionError(1, f"{path} is not a pipe of administrators: use a name below {PREFIX}")
    return connect(path, timeout)


class Listener:
    """Accepts connections. The pipe's security descriptor decides who may connect. `close` wakes `accept`.

    After an error other than by `close`, `accept` can be called again: it then continues with the same instance of the
    pipe, which may have a client already, or with a new one.
    """

    __slots__ = ("_closed", "_lock", "_pipe", "_waiting")

    def __init__(self, pipe: ListeningPipe) -> None:
        self._pipe = pipe
        self._lock = allocate_lock()
        self._closed = False
        self._waiting: Overlapped | None = None

    def accept(self) -> PipeStream:
        while True:
            if self._connected():
                # Create the next instance before this one is served, so that the name always exists.
                return PipeStream(self._pipe.next())
            # A client that left before it was accepted has used its instance up.
            self._replace()

    @property
    def closed(self) -> bool:
        return self._closed

    def _replace(self) -> None:
        _winapi.CloseHandle(self._pipe.next())

    def _connected(self) -> bool:
        """Wait for a client. False if the instance cannot have one any more."""
        with self._lock:
            if self._closed:
                raise OSError(ERROR_OPERATION_ABORTED, "closed")
            try:
                self._waiting = _winapi.ConnectNamedPipe(self._pipe.handle, overlapped=True)
            except OSError as error:
                if error.winerror == _ERROR_PIPE_CONNECTED:
                    return True
                if error.winerror == _ERROR_NO_DATA:
                    return False
                self._replace()  # unless that fails too, the next attempt begins with a new instance
                raise
        try:
            _, code = self._waiting.GetOverlappedResult(True)
        except OSError:
            code = _ERROR_NO_DATA  # e.g. a client that connected and left at once
        self._waiting = None
        if self._closed:
            raise OSError(ERROR_OPERATION_ABORTED, "closed")
        return not code

    def close(self) -> None:
        with self._lock:
            self._closed = True
            if self._waiting is not None:
                try:
                    self._waiting.cancel()
                except OSError:
                    pass  # a client has just connected

    def release(self) -> None:
        """Called by the accepting thread when it is done."""
        self._pipe.close()


def remove(address: str, identity: tuple[int, int] | None = None) -> None:
    """Nothing to do: a pipe disappears with its last handle."""
    del address, identity


def remove_stale(address: str) -> None:
    """Nothing to do: a pipe disappears with its process."""
    del address

"""The control pipe of a shared daemon: its name, the side of `start`, and the daemon's crash log.

Its name is a hash of what pods of one daemon must have in common: the scope, containerd's address, the namespace if the
scope is one, and what the launcher has hashed (`launcher/windows/process_key.c`): the program's files, the caller's
logon, session, job, priority and environment. So `start` finds only a daemon that it could have started itself. Only
administrators can create the name and open the pipe.

    daemon -> start    A and its pid as u32
    start -> daemon    u32 length and texts, each with a NUL: PROTOCOL, 1 for a sandbox or 0, the bundle, the pod's
                       pipe, its handle, that of the panic log, the number of arguments, the arguments; then u32 length
                       and the content of stdin
    daemon -> start    R when it serves the pod
    start -> daemon    D when the address has been printed

The handles are those of the `start`. The daemon duplicates them, so that a `start` that is terminated at any point
leaves nothing in the daemon. `launcher/windows/shared.c` is another client.

A pipe cannot be removed while its process runs. So the name ends with a number, and a `start` whose daemon hangs starts
one with the next number. All others use the highest number that exists.
"""

from __future__ import annotations

import _winapi
import nt
import sys
from time import monotonic, sleep, time

from shim.platform.windows import daemon, endpoint, files
from shim.platform.windows.endpoint import PREFIX, Listener, ListeningPipe
from shim.platform.windows.pipe import PipeStream, dial

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from shim.platform.windows.pipe_link import PipeLink

PROTOCOL = "runhcs-shared-w1"
AWAKE = b"A"
#: `-X runhcs_shared=KEY`, from the launcher. Without it, as with python.exe, each pod has a daemon of its own.
OPTION = "runhcs_shared"
# How many daemons may hang.
NUMBERS = 4
# How long a daemon may take to accept a connection. One that this `start` has started has to import its modules first;
# its death is noticed at once.
GREETING_TIMEOUT = 10.0
START_TIMEOUT = 60.0
# A daemon that has accepted a connection does not hang. These are for an overloaded machine.
READY_TIMEOUT = 30.0
REQUEST_TIMEOUT = 30.0
MAX_HANDOVER = 192 << 10
MAX_OPTIONS = 10 << 20
# How long a daemon may take to give up a pod whose `start` has failed.
END_TIMEOUT = 10.0
# What a crash wrote is kept for the `delete`s of all pods.
CRASH_LOG_SECONDS = 86400.0
CRASH_LOG, SUFFIX = ".runhcs-shared-", ".log"

_FNV_PRIME = 1099511628211
_64_BITS = (1 << 64) - 1
_PROCESS_DUP_HANDLE = 0x40
_SAME_ACCESS = 2
_ERROR_ACCESS_DENIED = 5
_ERROR_PIPE_BUSY = 231


def control_path(address: str, scope: str, containerd_address: str, namespace: str) -> str:
    """The control pipe of the daemon that takes this pod."""
    del address
    key = sys._xoptions.get(OPTION)
    if not isinstance(key, str) or not key:
        raise OSError(50, "only the launcher can find a shared daemon")
    number = int(key, 16)
    for text in (scope, containerd_address, namespace):
        for byte in text.encode("utf-8", "surrogatepass") + b"\xff":
            number = (number ^ byte) * _FNV_PRIME & _64_BITS
    base = f"{PREFIX}containerd-shim-runhcs-shared-{number:016x}-"
    return next((f"{base}{last}" for last in range(NUMBERS - 1, 0, -1) if endpoint.exists(f"{base}{last}")), f"{base}0")


def path_instead(path: str) -> str:
    """The control pipe to use instead of that of a daemon that hangs, which gets no more pods."""
    base, _, number = path.rpartition("-")
    if int(number) + 1 == NUMBERS:
        raise OSError(170, f"{NUMBERS} shared daemons hang")
    return f"{base}-{int(number) + 1}"


def connect(path: str, timeout: float = GREETING_TIMEOUT) -> PipeStream | None:
    """A connection to the daemon; None if there is none."""
    try:
        return PipeStream(dial(path, timeout), timeout)
    except FileNotFoundError:
        return None


def listen(path: str) -> ListeningPipe | None:
    """The pipe; None if another process has created it. Windows creates the first instance of a name once."""
    try:
        return ListeningPipe(path, endpoint.create(path, first=True))
    except OSError as error:
        if error.winerror in (_ERROR_ACCESS_DENIED, _ERROR_PIPE_BUSY):
            return None
        raise


def remove(path: str) -> None:
    """Nothing to do: a pipe disappears with its last handle."""
    del path


def wait_greeting(connection: PipeStream) -> int:
    """The pid of the daemon, once it takes the pod; 0 if it takes no more pods, or has exited. TimeoutError if it
    hangs."""
    message = b""
    try:
        while len(message) < 5 and (piece := connection.recv(5 - len(message))):
            message += piece
    except TimeoutError:
        connection.release()
        raise
    if len(message) == 5 and message[:1] == AWAKE:
        return int.from_bytes(message[1:], "little")
    connection.release()
    return 0


def hand_over(
    connection: PipeStream,
    listener: ListeningPipe,
    panic_log: int,
    options: bytes,
    bundle: str,
    is_sandbox: bool,
    arguments: list[str],
) -> None:
    """Send what the daemon needs for the pod."""
    head = [PROTOCOL, "1" if is_sandbox else "0", bundle, listener.path, str(listener.handle), str(panic_log)]
    texts = [*head, str(len(arguments)), *arguments]
    data = b"".join(text.encode("utf-8", "surrogatepass") + b"\0" for text in texts)
    connection.sendall(b"".join(len(part).to_bytes(4, "little") + part for part in (data, options)))


class Joined:
    """A daemon that has taken the pod, until the handover is complete."""

    __slots__ = ("_link", "_path", "pid")

    def __init__(self, pid: int, link: PipeStream, listener: ListeningPipe) -> None:
        link.settimeout(READY_TIMEOUT)
        self.pid = pid
        self._link = link
        self._path = listener.path

    def wait_ready(self) -> bool:
        """False if it died or did not report in time."""
        try:
            return self._link.recv(1) == daemon.READY
        except OSError:
            return False

    def release(self) -> None:
        """Complete the handover: the daemon serves the pod from now on."""
        try:
            self._link.sendall(daemon.DONE)
        except OSError:
            pass

    def close(self) -> None:
        """Disconnect: the daemon gives up the pod."""
        self._link.release()

    def kill(self) -> None:
        """Not the process, which serves other pods. Afterwards the name of the pod's pipe is free."""
        self.close()
        deadline = monotonic() + END_TIMEOUT
        while endpoint.exists(self._path) and monotonic() < deadline:
            sleep(0.01)


# The daemon.


class Handover:
    """What a `start` hands over for its pod."""

    __slots__ = ("arguments", "bundle", "is_sandbox", "listener", "options", "panic_log")

    def __init__(self, data: bytes, options: bytes, client: int) -> None:
        """`client`: the process of the `start`."""
        texts = data.decode("utf-8", "surrogatepass").removesuffix("\0").split("\0")
        protocol, is_sandbox, self.bundle, path, listener, panic_log, count, *self.arguments = texts
        if protocol != PROTOCOL or int(count) != len(self.arguments):
            raise ValueError("not a handover")
        self.is_sandbox = is_sandbox == "1"
        self.options = options
        pipe = _duplicate(client, int(listener))
        try:
            self.panic_log = _duplicate(client, int(panic_log))
        except BaseException:
            _winapi.CloseHandle(pipe)
            raise
        self.listener = ListeningPipe(path, pipe)


def _duplicate(process: int, handle: int) -> int:
    return _winapi.DuplicateHandle(process, handle, _winapi.GetCurrentProcess(), 0, False, _SAME_ACCESS)


def receive(link: PipeLink) -> Handover:
    """Greet a `start` and receive its handover. OSError or ValueError if there is none."""
    link.send(AWAKE + nt.getpid().to_bytes(4, "little"))
    data, options = link.receive_input(MAX_HANDOVER), link.receive_input(MAX_OPTIONS)
    client = _winapi.OpenProcess(_PROCESS_DUP_HANDLE, False, _client_of(link.handle))
    try:
        handover = Handover(data, options, client)
    finally:
        _winapi.CloseHandle(client)
    try:
        # It has not exited: so the process that was opened is no other with the same id.
        _winapi.PeekNamedPipe(link.handle, 0)
    except OSError:
        discard(handover)
        raise
    return handover


def _client_of(pipe: int) -> int:
    """The process at the other end of a pipe."""
    from shim.platform.hcs_library import system_library
    from shim.platform.windows._system_cffi import ffi

    kernel32: Any = ffi.dlopen(system_library("kernel32"))
    pid = ffi.new("uint32_t *")
    if not kernel32.GetNamedPipeClientProcessId(ffi.cast("void *", pipe), pid):
        raise OSError(ffi.getwinerror()[0], "the process of a start is unknown")
    return int(pid[0])


def read_options(handover: Handover, limit: int) -> bytes:
    """The content of stdin of the `start`."""
    return handover.options[:limit]


def discard(handover: Handover) -> None:
    """It will not be used."""
    handover.listener.close()
    _winapi.CloseHandle(handover.panic_log)


def report_ready(link: PipeLink) -> None:
    """The daemon serves the pod."""
    link.settimeout(daemon.HANDOVER_TIMEOUT)
    link.report_ready()


class ControlEndpoint:
    """The daemon's side of the control pipe. `close` wakes the thread that blocks in `accept`."""

    __slots__ = ("_listener",)

    def __init__(self, pipe: ListeningPipe, path: str) -> None:
        del path
        self._listener = Listener(pipe)

    @property
    def closed(self) -> bool:
        return self._listener.closed

    def accept(self) -> PipeLink:
        from shim.platform.windows.pipe_link import PipeLink

        return PipeLink(self._listener.accept(), REQUEST_TIMEOUT)

    def close(self) -> None:
        self._listener.close()

    def release(self) -> None:
        """Called by the accepting thread when it is done: the name disappears, and those that wait are disconnected."""
        self._listener.release()


class CrashLog:
    """The process's stderr: a file beside the bundles. A file in a bundle would block its removal while it is open, so
    each bundle has one with its path instead."""

    __slots__ = ("_path",)

    def __init__(self, bundle: str) -> None:
        """Create it beside the bundle."""
        self._path = f"{_directory_of(bundle)}{CRASH_LOG}{nt.getpid()}{SUFFIX}"
        import msvcrt

        descriptor = msvcrt.open_osfhandle(files.create(self._path), nt.O_APPEND | nt.O_NOINHERIT)
        nt.dup2(descriptor, 2, False)
        nt.close(descriptor)

    def link(self, path: str) -> None:
        files.write_atomic(path, self._path.encode("utf-8", "surrogatepass"))

    def remove(self) -> None:
        """Before the process exits."""
        daemon.release_bundle()
        if not files.size(self._path):
            files.remove(self._path)


def _directory_of(path: str) -> str:
    """With the separator at its end."""
    path = path.rstrip("\\/")
    return path[: max(path.rfind("\\"), path.rfind("/")) + 1]


def crash_text(content: bytes, limit: int) -> bytes:
    """What a daemon wrote as it crashed, from the content of the file in a bundle."""
    try:
        return files.read(content.decode("utf-8", "surrogatepass"), limit, follow=False)
    except (FileNotFoundError, ValueError):
        return b""  # it has exited regularly; or the content is not a path


def remove_stale(address: str, content: bytes) -> None:
    """Remove crash logs of dead daemons, if they are empty, or old. `content`: as for `crash_text`."""
    del address
    try:
        directory = _directory_of(content.decode("utf-8", "surrogatepass"))
        names = nt.listdir(files.native(directory)) if directory else []
    except (OSError, ValueError):
        return
    for name in names:
        pid = name.removeprefix(CRASH_LOG).removesuffix(SUFFIX)
        if name.startswith(CRASH_LOG) and pid.isascii() and pid.isdigit() and not daemon.is_running(int(pid)):
            path = directory + name
            if not files.size(path) or _age(path) > CRASH_LOG_SECONDS:
                files.remove(path)


def _age(path: str) -> float:
    try:
        return time() - nt.stat(files.native(path)).st_mtime
    except OSError:
        return 0.0

"""From `start` to a daemon: by fork, since importing everything a second time would cost more than all the rest.

`start` and its child are connected by a socket pair. The child sends READY when it has detached from the caller; the
parent sends DONE when it has printed the address. If the parent dies in between (containerd kills it when its client
gives up), the child reads EOF instead and exits too: containerd does not know about it.
"""

from __future__ import annotations

import _socket
import posix
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

    #: The daemon's main function; its argument is the link to `start`, if there is one.
    Body = Callable[[_socket.socket | None], int]

#: `start` forks the daemon.
FORKS = True
#: Where the system may log more about a process that died.
SYSTEM_LOG = "the kernel's messages"
#: A thread that imports must not delay a response for Python's default 5 ms.
SWITCH_INTERVAL = 0.0005
#: No user is created for a container.
CREATES_USERS = False
#: An open file does not block the removal of its directory.
OPEN_FILES_STAY = False
READY = b"R"
DONE = b"D"
READY_TIMEOUT = 10.0
HANDOVER_TIMEOUT = 30.0
# How often to poll, every 10 ms, for the exit of a killed daemon.
KILL_POLLS = 500


class Child:
    """The daemon as `start` sees it, until the handover."""

    __slots__ = ("_link", "pid")

    def __init__(self, pid: int, link: _socket.socket) -> None:
        self.pid = pid
        self._link = link

    def wait_ready(self) -> bool:
        """False if it died or did not report within READY_TIMEOUT."""
        try:
            return self._link.recv(1) == READY
        except OSError:
            return False

    def release(self) -> None:
        """Complete the handover: the daemon outlives `start`."""
        try:
            self._link.send(DONE)
        except OSError:
            pass

    def kill(self) -> None:
        from time import sleep

        try:
            posix.kill(self.pid, 9)
            for _ in range(KILL_POLLS):
                if posix.waitpid(self.pid, posix.WNOHANG)[0]:
                    break
                sleep(0.01)
        except OSError:
            pass


def fork(body: Body, listener: _socket.socket, panic_log: int, *keep: int) -> Child:
    """Run `body(link)` in a child that inherits only the listening socket and the descriptors to `keep`."""
    ours, theirs = _socket.socketpair()
    ours.settimeout(READY_TIMEOUT)
    pid = posix.fork()
    if pid == 0:
        _run_child(body, listener, theirs, panic_log, *keep)
    theirs.close()
    return Child(pid, ours)


def _run_child(body: Body, listener: _socket.socket, link: _socket.socket, panic_log: int, *keep: int) -> NoReturn:
    try:
        detach(panic_log, listener.fileno(), link.fileno(), *keep)
        set_process_name()
        link.settimeout(HANDOVER_TIMEOUT)
        try:
            link.send(READY)
        except OSError:
            pass  # `start` is dead already: `body` will notice
    except BaseException:
        sys.excepthook(*sys.exc_info())
        exit_now(1)
    run_daemon(body, link)


def detach(panic_log: int, *keep: int) -> None:
    """Leave the caller's session, directory and descriptors."""
    posix.setsid()
    posix.chdir("/")
    posix.umask(0o022)
    _replace_descriptors(panic_log, *keep)


def run_daemon(body: Body, link: _socket.socket | None) -> NoReturn:
    """Run `body` until the process exits. Never returns to the caller."""
    code = 1
    try:
        code = body(link)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        exit_now(code)


def set_process_name() -> None:
    """Set the name that containerd's own shims have in process lists."""
    try:
        with open("/proc/self/comm", "wb", 0) as file:
            file.write(b"containerd-shim")
    except OSError:
        pass


def _replace_descriptors(panic_log: int, *keep: int) -> None:
    """stdin and stdout to /dev/null, stderr to the panic log; close every other descriptor."""
    null = posix.open("/dev/null", posix.O_RDWR)
    posix.dup2(null, 0)
    posix.dup2(null, 1)
    posix.dup2(panic_log, 2)
    for name in posix.listdir("/proc/self/fd"):
        descriptor = int(name)
        if descriptor > 2 and descriptor not in keep:
            try:
                posix.close(descriptor)
            except OSError:
                pass  # the descriptor of listdir itself


def wait_for_handover(link: _socket.socket) -> bool:
    """In the daemon: wait until `start` has printed the address. False if it died before that."""
    try:
        return link.recv(1) == DONE
    except OSError:
        return False
    finally:
        link.close()


class ShutdownRequest:
    """A request to shut down: made by any thread or by SIGTERM and SIGINT, waited for by the main thread.

    The main thread waits in `read`, and Python's C signal handler writes to the same pipe: a signal may arrive at any
    time, on any thread, and is not lost. Waiting for a lock would lose one that arrives just before the wait.
    """

    __slots__ = ("_reading", "_writing", "failed", "now", "requested")

    def __init__(self) -> None:
        self.requested = False
        self.now = False
        #: The daemon cannot do its work any more.
        self.failed = False
        self._reading, self._writing = posix.pipe2(posix.O_CLOEXEC)
        posix.set_blocking(self._writing, False)

    def request(self, now: bool = False) -> None:
        self.now = self.now or now
        self.requested = True
        try:
            posix.write(self._writing, b"!")
        except BlockingIOError:
            pass  # the pipe is full: the waiter will wake

    def catch_signals(self) -> None:
        """SIGTERM and SIGINT request the shutdown; SIGHUP is ignored."""
        import _signal  # type: ignore[import-not-found]  # `signal` would import `enum`

        for number in (_signal.SIGTERM, _signal.SIGINT):
            _signal.signal(number, lambda _number, _frame: self.request())
        _signal.signal(_signal.SIGHUP, _signal.SIG_IGN)
        _signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)

    def wake(self) -> None:
        """Have the waiting thread call `woken`. From any thread."""
        try:
            posix.write(self._writing, b".")
        except BlockingIOError:
            pass  # the pipe is full: the waiter will wake

    def wait(self, woken: Callable[[], object]) -> None:
        while not self.requested:
            posix.read(self._reading, 1)
            if not self.requested:
                woken()


def enable_fault_handler(stacks: Callable[[], str]) -> None:
    """A crash in native code dumps the stacks to stderr; SIGUSR1 dumps the stacks of all threads at any time.

    The main thread, which only waits for the shutdown, handles the signal. faulthandler could dump the stacks without
    it, but reads frames that other threads are changing, which may crash the process.
    """
    import _signal
    import faulthandler

    faulthandler.enable(2)
    _signal.signal(_signal.SIGUSR1, lambda _number, _frame: posix.write(2, stacks().encode()))


def announce_and_load(announce: Callable[[], None]) -> None:
    """Call `announce`. Libraries are loaded fast enough when they are needed."""
    announce()


def own_pid() -> int:
    return posix.getpid()


def redirect_stdio_to_null() -> None:
    """Redirect stdin and stdout to /dev/null."""
    null = posix.open("/dev/null", posix.O_RDWR)
    posix.dup2(null, 0)
    posix.dup2(null, 1)
    if null > 2:
        posix.close(null)


def release_bundle() -> None:
    """Nothing to do: on Linux a directory with open files can be removed."""


def flush() -> None:
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        pass


def exit_now(code: int) -> NoReturn:
    """Exit without the interpreter's finalization, which takes longer than some commands and may crash in threads."""
    flush()
    posix._exit(code)


def start_standby() -> None:
    """Start a standby for the next command, if the launcher requested it. Never fails."""
    path = sys._xoptions.get("runhcs_standby")
    if not isinstance(path, str):
        return
    from shim.platform.linux import standby_start

    standby_start.spawn(path)


def restore_error_mode() -> None:
    """Windows has an error mode that Python changes."""


def is_running(pid: int) -> bool:
    """Whether the process runs; a zombie does not."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except OSError:
        return False

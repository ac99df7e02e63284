"""From `start` to a daemon: by fork, since importing everything a second time would cost more than all the rest.

`start` and its child speak over a socket pair. The child says READY when it has left the caller's world; the parent
says DONE when it has handed the address over. A parent that dies in between (containerd kills it when its client
gives up) leaves a child that hears the end of the connection instead, and goes too: nobody else knows of it.
"""

from __future__ import annotations

import _socket
import posix
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

    #: What a daemon does, given its link to `start`, if there is one.
    Body = Callable[[_socket.socket | None], int]

#: `start` becomes the daemon's parent by forking.
FORKS = True
#: Where the system may say more about a process that died.
SYSTEM_LOG = "the kernel's messages"
READY = b"R"
DONE = b"D"
READY_TIMEOUT = 10.0
HANDOVER_TIMEOUT = 30.0
# How often, every hundredth of a second, is looked whether a killed daemon is gone.
KILL_LOOKS = 500


class Child:
    """The daemon as `start` sees it, until it lets it go."""

    __slots__ = ("_link", "pid")

    def __init__(self, pid: int, link: _socket.socket) -> None:
        self.pid = pid
        self._link = link

    def wait_ready(self) -> bool:
        """False if it died, or hangs."""
        try:
            return self._link.recv(1) == READY
        except OSError:
            return False

    def release(self) -> None:
        """It is on its own from here."""
        try:
            self._link.send(DONE)
        except OSError:
            pass

    def kill(self) -> None:
        from time import sleep

        try:
            posix.kill(self.pid, 9)
            for _ in range(KILL_LOOKS):
                if posix.waitpid(self.pid, posix.WNOHANG)[0]:
                    break
                sleep(0.01)
        except OSError:
            pass


def fork(body: Body, listener: _socket.socket, panic_log: int) -> Child:
    """Run `body(link)` in a child that has nothing of ours but the listening socket."""
    ours, theirs = _socket.socketpair()
    ours.settimeout(READY_TIMEOUT)
    pid = posix.fork()
    if pid == 0:
        _become(body, listener, theirs, panic_log)
    theirs.close()
    return Child(pid, ours)


def _become(body: Body, listener: _socket.socket, link: _socket.socket, panic_log: int) -> NoReturn:
    try:
        leave_world(panic_log, listener.fileno(), link.fileno())
        name_process()
        link.settimeout(HANDOVER_TIMEOUT)
        try:
            link.send(READY)
        except OSError:
            pass  # `start` is dead already: `body` will hear it
    except BaseException:
        sys.excepthook(*sys.exc_info())
        exit_now(1)
    be(body, link)


def leave_world(panic_log: int, *keep: int) -> None:
    """The caller's session, directory and descriptors."""
    posix.setsid()
    posix.chdir("/")
    posix.umask(0o022)
    _leave_descriptors(panic_log, *keep)


def be(body: Body, link: _socket.socket | None) -> NoReturn:
    """The rest of this process's life. Nothing above it on the stack gets another turn."""
    code = 1
    try:
        code = body(link)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        exit_now(code)


def name_process() -> None:
    """As containerd's own shims are named in lists of processes."""
    try:
        with open("/proc/self/comm", "wb", 0) as file:
            file.write(b"containerd-shim")
    except OSError:
        pass


def _leave_descriptors(panic_log: int, *keep: int) -> None:
    """Nothing in, nothing out, errors to the panic log; every other descriptor, known to us or not, closed."""
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
                pass  # the one that listed them


def handed_over(link: _socket.socket) -> bool:
    """In the daemon: wait until `start` has printed the address. False if it died before."""
    try:
        return link.recv(1) == DONE
    except OSError:
        return False
    finally:
        link.close()


class Ending:
    """The word to end: given by any thread or by SIGTERM and SIGINT, waited for by the main thread.

    The main thread waits in `read`, and Python's own C handler writes to the same pipe: a signal can come at any
    moment, to any thread, and is not lost. Waiting for a lock would lose one that comes just before the wait begins.
    """

    __slots__ = ("_reading", "_writing", "now", "requested")

    def __init__(self) -> None:
        self.requested = False
        self.now = False
        self._reading, self._writing = posix.pipe2(posix.O_CLOEXEC)
        posix.set_blocking(self._writing, False)

    def request(self, now: bool = False) -> None:
        self.now = self.now or now
        self.requested = True
        try:
            posix.write(self._writing, b"!")
        except BlockingIOError:
            pass  # it is being told often enough

    def catch_signals(self) -> None:
        """A closed terminal is no reason to end."""
        import _signal  # type: ignore[import-not-found]  # `signal` would bring `enum` along

        for number in (_signal.SIGTERM, _signal.SIGINT):
            _signal.signal(number, lambda _number, _frame: self.request())
        _signal.signal(_signal.SIGHUP, _signal.SIG_IGN)
        _signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)

    def wait(self) -> None:
        while not self.requested:
            posix.read(self._reading, 1)


def watch_faults(stacks: Callable[[], str]) -> None:
    """A crash of native code writes what it can to stderr; SIGUSR1 writes the stacks of all threads, at any time.

    The signal is heard by the main thread, which waits for nothing but the end. faulthandler could write the stacks
    without it, but looks at frames that other threads are changing: a process asked for its stacks may die of it.
    """
    import _signal
    import faulthandler

    faulthandler.enable(2)
    _signal.signal(_signal.SIGUSR1, lambda _number, _frame: posix.write(2, stacks().encode()))


def own_pid() -> int:
    return posix.getpid()


def close_stdout() -> None:
    """Standard input and output lead nowhere from here on."""
    null = posix.open("/dev/null", posix.O_RDWR)
    posix.dup2(null, 0)
    posix.dup2(null, 1)
    if null > 2:
        posix.close(null)


def leave_bundle() -> None:
    """Nothing keeps a directory of Linux from being removed."""


def flush() -> None:
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        pass


def exit_now(code: int) -> NoReturn:
    """Leave without the interpreter's clean-up, which takes longer than some commands and would trip over threads."""
    flush()
    posix._exit(code)


def leave_standby() -> None:
    """If the launcher asked for it: a standby for the next command. This one is done, whatever comes of it."""
    path = sys._xoptions.get("runhcs_standby")
    if not isinstance(path, str):
        return
    from shim.platform.linux import standby_start

    standby_start.spawn(path)


def is_running(pid: int) -> bool:
    """Whether there is such a process; a zombie is none, however long its parent leaves it there."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except OSError:
        return False

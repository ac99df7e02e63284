"""Start a standby: the last step of a cold `start`. It does little and never fails."""

from __future__ import annotations

import _socket
import posix
import sys

PREFIX = "standby-"
# Space for the command line of a later daemon: the kernel shows the memory of the first command line.
PADDING = " " * 4000


def spawn(path: str) -> None:
    """Start a standby that listens at the path, if there is none in its directory."""
    command = [sys.executable, "-IS", sys.argv[0], "standby", path, PADDING]
    try:
        # Not posix_spawn: a process that it starts ignores a signal that a forked one does not.
        if is_needed(path) and posix.fork() == 0:
            _exec(command)
    except OSError:
        pass  # the next `start` is cold, too


def _exec(command: list[str]) -> None:
    try:
        posix.setsid()
        null = posix.open("/dev/null", posix.O_RDWR)
        for number in range(3):
            posix.dup2(null, number)
        posix.execve(command[0], command, posix.environ)
    finally:
        posix._exit(1)


def is_alive(path: str) -> bool:
    """Whether a standby listens there."""
    probe = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    try:
        probe.settimeout(1.0)
        probe.connect(path)
    except (TimeoutError, BlockingIOError):
        return True
    except OSError:
        return False
    finally:
        probe.close()
    return True


def is_needed(path: str) -> bool:
    """Whether there is none yet in this directory: one serves the machine. Sockets of dead standbys are removed."""
    directory = path.rpartition("/")[0]
    for name in posix.listdir(directory):
        if name.startswith(PREFIX):
            other = f"{directory}/{name}"
            if is_alive(other):
                return False
            try:
                posix.unlink(other)
            except FileNotFoundError:
                pass
    return True

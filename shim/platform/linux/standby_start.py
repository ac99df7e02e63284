"""Leaving a standby behind: what a cold `start` does last, so it is little, and never fails."""

from __future__ import annotations

import _socket
import posix
import sys

PREFIX = "standby-"
# Room for the command line of a command that is run here: the kernel shows what is where the first one was.
PADDING = " " * 4000


def spawn(path: str) -> None:
    """Start a standby that listens at the path, if there is none in its directory."""
    command = [sys.executable, "-IS", sys.argv[0], "standby", path, PADDING]
    try:
        # Not posix_spawn: what that starts ignores a signal that others do not.
        if is_wanted(path) and posix.fork() == 0:
            _exec(command)
    except OSError:
        pass  # the next command starts cold, too


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


def is_wanted(path: str) -> bool:
    """Whether there is none yet in this directory: one is enough for a machine. What dead ones left is removed."""
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

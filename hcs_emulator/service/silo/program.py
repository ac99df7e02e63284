"""Start of the silo program (`native/silo/main.c`), and reaping of children."""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import socket
from pathlib import Path

from hcs_emulator.service.silo.process import E_FAIL, LaunchError

BUILD = Path(__file__).resolve().parents[2] / "native" / "build"
_SOCKET, _COMMANDS = 3, 4  # descriptors of the program: its socket, and the stand-in commands


def start_program(hostname: str, root: str, channel: socket.socket) -> int:
    """Start the program with its end of the channel; returns the launcher's pid. Raises LaunchError."""
    try:
        commands = os.open(BUILD / "cmd", os.O_RDONLY)
    except FileNotFoundError as error:
        message = f"the emulator's programs are not built ({error.filename} is missing): run make native"
        raise LaunchError(E_FAIL, message) from error
    # Duplicates above the target numbers, so that no dup2 overwrites a source.
    sources = [fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _COMMANDS + 1) for descriptor in (channel, commands)]
    try:
        # posix_spawn does not copy the service's memory, as fork would.
        return os.posix_spawn(
            BUILD / "silo",
            ["silo", hostname, root],
            {},
            file_actions=[
                (os.POSIX_SPAWN_DUP2, sources[0], _SOCKET),
                (os.POSIX_SPAWN_DUP2, sources[1], _COMMANDS),
                (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDWR, 0),
                (os.POSIX_SPAWN_DUP2, 0, 1),
            ],
            setsigdef=range(1, signal.SIGSYS + 1),
            setsigmask=(),
        )
    finally:
        for descriptor in (commands, *sources):
            os.close(descriptor)


async def reaped(pid: int) -> int:
    """Wait for a child without blocking, and return its wait status."""
    loop = asyncio.get_running_loop()
    pidfd = os.pidfd_open(pid)
    exited: asyncio.Future[None] = loop.create_future()
    try:
        loop.add_reader(pidfd, _complete, exited)
        await exited
    finally:
        loop.remove_reader(pidfd)
        os.close(pidfd)
    try:
        return os.waitpid(pid, 0)[1]
    except ChildProcessError:  # another SIGCHLD handler has reaped it
        return 0


def _complete(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)

"""A logging program, containerd's `binary://` scheme
(https://github.com/containerd/containerd/blob/main/core/runtime/v2/README.md#logging).

The program gets the reading ends of stdout and stderr as descriptors 3 and 4, and the writing end of a pipe as
descriptor 5, on which it reports that it is ready: it writes one byte or closes it. When the shim has closed the
streams, the program has time to write what it has; then it gets SIGTERM, then SIGKILL. That happens in a thread, since
the exit of a container must not wait for its logger.
"""

from __future__ import annotations

import os
import select
import signal
from fcntl import F_DUPFD_CLOEXEC, fcntl

from shim.threads import run_soon

READY_TIMEOUT = 10.0
STOP_TIMEOUT = 5.0  # to exit by itself, and again after SIGTERM

_FIRST = 3  # the first of the program's three pipes: descriptors 3, 4 and 5


class Logger:
    """A running program; the caller owns `stdout` and `stderr`, the writing ends of its streams."""

    __slots__ = ("_pid", "stderr", "stdout")

    def __init__(self, pid: int, stdout: int, stderr: int) -> None:
        self._pid = pid
        self.stdout = stdout
        self.stderr = stderr

    def stop(self) -> None:
        """Stop it, once the streams have been closed. Returns at once."""
        run_soon(stop_process, self._pid, STOP_TIMEOUT)


def start(program: str, arguments: list[str], environment: dict[str, str], requires_ready: bool) -> Logger:
    """Raises OSError (or TimeoutError) with a message, and then leaves nothing behind."""
    ours: list[int] = []
    theirs: list[int] = []
    try:
        for writes in (False, False, True):
            ends = os.pipe2(os.O_CLOEXEC)
            # Moved above 3, 4 and 5, which dup2 overwrites one after the other.
            mine, its = (ends[0], ends[1]) if writes else (ends[1], ends[0])
            ours.append(mine)
            theirs.append(fcntl(its, F_DUPFD_CLOEXEC, 16))
            os.close(its)
        actions: list[tuple[int, ...] | tuple[int, int, str, int, int]] = [
            (os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in range(_FIRST)
        ]
        actions += [(os.POSIX_SPAWN_DUP2, end, _FIRST + at) for at, end in enumerate(theirs)]
        pid = os.posix_spawn(
            program,
            [program, *arguments],
            environment,
            file_actions=actions,
            setsigmask=(),
            setsigdef=(signal.SIGPIPE, signal.SIGTERM, signal.SIGINT, signal.SIGCHLD),
        )
    except BaseException:
        for descriptor in ours + theirs:
            os.close(descriptor)
        raise
    for descriptor in theirs:
        os.close(descriptor)
    try:
        _wait_ready(program, ours[2], requires_ready)
    except BaseException:
        os.close(ours[0])
        os.close(ours[1])
        run_soon(stop_process, pid, 0.0)
        raise
    finally:
        os.close(ours[2])
    return Logger(pid, ours[0], ours[1])


def _wait_ready(program: str, descriptor: int, requires_ready: bool) -> None:
    poller = select.poll()
    poller.register(descriptor, select.POLLIN)
    if not poller.poll(READY_TIMEOUT * 1000):
        raise TimeoutError(f"logger {program} did not say within {READY_TIMEOUT:.0f} s that it is ready: "
                           "it must write to descriptor 5 or close it")  # fmt: skip
    if not os.read(descriptor, 1) and requires_ready:
        raise OSError(f"logger {program} ended or closed descriptor 5 without saying that it is ready")


def stop_process(pid: int, timeout: float) -> None:
    """Wait for a child to exit, then send SIGTERM, then SIGKILL; reap it."""
    try:
        process = os.pidfd_open(pid)
    except OSError:
        _reap(pid)
        return
    try:
        poller = select.poll()
        poller.register(process, select.POLLIN)
        for number in (signal.SIGTERM, signal.SIGKILL):
            if poller.poll(timeout * 1000):
                break
            signal.pidfd_send_signal(process, number)
        _reap(pid)
    except ProcessLookupError:
        _reap(pid)
    finally:
        os.close(process)


def _reap(pid: int) -> None:
    try:
        os.waitpid(pid, 0)
    except ChildProcessError:
        pass  # reaped already

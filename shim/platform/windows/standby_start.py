"""Start a standby: a daemon that was started with standbys on does this when it is idle."""

from __future__ import annotations

import _winapi
from _thread import allocate_lock, start_new_thread

from shim.platform.windows import daemon, detached_process, endpoint

# A start is followed by Create and Start: leave the processor to them first.
START_AFTER = 3.0
# A daemon that exits earlier starts one on exit, which no client waits for; but containerd runs `delete` just then.
FINISH_AFTER = 0.5
FINISH_TIME = 20.0
# The pipe of the daemon that starts one, so that only one of many daemons does.
STARTING = "-starting"
# Space for the command line of a later daemon, which overwrites the standby's.
PADDING = " " * 2000

_GENERIC_WRITE = 0x40000000
_SHARE_ALL = 7
_OPEN_EXISTING = 3


class StandbyStarter:
    """Starts a standby that listens at the path, if there is none: after a while, or when this process exits."""

    __slots__ = ("_done", "_now", "_path")

    def __init__(self, path: str) -> None:
        self._path = path
        self._now = allocate_lock()
        self._done = allocate_lock()
        self._now.acquire()
        self._done.acquire()
        try:
            start_new_thread(self._run, ())
        except (RuntimeError, MemoryError):
            self._done.release()  # without a standby the next start is cold

    def _run(self) -> None:
        self._now.acquire(True, START_AFTER)
        try:
            _start(self._path)
        finally:
            self._done.release()

    def finish(self) -> None:
        """Before this process exits, when nothing else is left to do."""
        if not self._done.acquire(True, FINISH_AFTER):
            self._now.release()
            self._done.acquire(True, FINISH_TIME)


def _start(path: str) -> None:
    """Never fails: without a standby the next start is cold."""
    try:
        if endpoint.exists(path):
            return
        lock = endpoint.listen(path + STARTING)
        try:
            _spawn(path)
        finally:
            lock.close()
    except (OSError, endpoint.EndpointError):
        pass


def _spawn(path: str) -> None:
    null = _winapi.CreateFile("NUL", _GENERIC_WRITE, _SHARE_ALL, 0, _OPEN_EXISTING, 0, 0)
    try:
        spare = detached_process.spawn(["standby", path, PADDING], daemon.neutral_directory(), null)
    finally:
        _winapi.CloseHandle(null)
    if not spare.wait_ready():
        spare.kill()
    spare.close()

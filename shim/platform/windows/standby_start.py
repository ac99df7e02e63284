"""Leaving a standby behind: what a daemon that was started with standbys switched on does when it has the time."""

from __future__ import annotations

import _winapi
from _thread import allocate_lock, start_new_thread

from shim.platform.windows import daemon, detached_process, endpoint

# A start is followed by Create and Start: let those have the processor first.
LEAVE_AFTER = 3.0
# A daemon that ends earlier leaves one as it ends, which nobody waits for; but containerd runs `delete` just now.
FINISH_AFTER = 0.5
FINISH_TIME = 20.0
# Held by who is making one, so that of many daemons one does.
MAKING = "-making"
# Room for the command line of a daemon, in the place of the standby's.
PADDING = " " * 2000

_GENERIC_WRITE = 0x40000000
_SHARE_ALL = 7
_OPEN_EXISTING = 3


class Leaving:
    """A standby that listens at the door, if there is none; after a while, or at the end of this process."""

    __slots__ = ("_done", "_door", "_now")

    def __init__(self, door: str) -> None:
        self._door = door
        self._now = allocate_lock()
        self._done = allocate_lock()
        self._now.acquire()
        self._done.acquire()
        start_new_thread(self._run, ())

    def _run(self) -> None:
        self._now.acquire(True, LEAVE_AFTER)
        try:
            _leave(self._door)
        finally:
            self._done.release()

    def finish(self) -> None:
        """At the end, when nothing else is left to do."""
        if not self._done.acquire(True, FINISH_AFTER):
            self._now.release()
            self._done.acquire(True, FINISH_TIME)


def _leave(door: str) -> None:
    """Whatever goes wrong: the next start is cold, too."""
    try:
        if endpoint.exists(door):
            return
        making = endpoint.listen(door + MAKING)
        try:
            _make(door)
        finally:
            making.close()
    except (OSError, endpoint.EndpointError):
        pass


def _make(door: str) -> None:
    null = _winapi.CreateFile("NUL", _GENERIC_WRITE, _SHARE_ALL, 0, _OPEN_EXISTING, 0, 0)
    try:
        spare = detached_process.spawn(["standby", door, PADDING], daemon.neutral_directory(), null)
    finally:
        _winapi.CloseHandle(null)
    if not spare.wait_ready():
        spare.kill()
    spare.close()

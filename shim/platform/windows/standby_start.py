"""Leaving a standby behind: what a daemon that was started with standbys switched on does when it has the time."""

from __future__ import annotations

import _winapi
from time import sleep

from shim.platform.windows import child, daemon, endpoint

# A start is followed by a Create: let that have the processor first.
LEAVE_AFTER = 1.0
# Held by who is making one, so that of many daemons one does.
MAKING = "-making"

_GENERIC_WRITE = 0x40000000
_SHARE_ALL = 7
_OPEN_EXISTING = 3


def leave(door: str) -> None:
    """A standby that listens there, if there is none. Whatever goes wrong: the next start is cold, too."""
    sleep(LEAVE_AFTER)
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
        spare = child.spawn(["standby", door], daemon.neutral_directory(), null)
    finally:
        _winapi.CloseHandle(null)
    if not spare.wait_ready():
        spare.kill()
    spare.close()

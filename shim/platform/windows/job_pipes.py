"""Pipes for the stdio of a new process: our end is overlapped, as the pump needs it, the process's is not.

Overlapped pipes have names. With the default descriptor every user of the machine could open the reading end of stdin
before the shim does.
"""

from __future__ import annotations

import _winapi
import nt

from shim.platform.windows.security import administrators_only

_INBOUND, _OUTBOUND = 1, 2
_FIRST_INSTANCE = 0x00080000
_OVERLAPPED = 0x40000000
_REJECT_REMOTE = 0x8
_GENERIC_READ, _GENERIC_WRITE = 0x80000000, 0x40000000
_OPEN_EXISTING = 3
_PIPE_CONNECTED = 535
_BUFFER = 64 << 10


def create(reads: bool) -> tuple[int, int]:
    """Our end and the process's, which is inheritable; `reads`: the process reads from it."""
    name = rf"\\.\pipe\runhcs-job-{nt.getpid()}-{nt.urandom(16).hex()}"
    mode = (_OUTBOUND if reads else _INBOUND) | _FIRST_INSTANCE | _OVERLAPPED
    ours = _winapi.CreateNamedPipe(name, mode, _REJECT_REMOTE, 1, _BUFFER, _BUFFER, 0, administrators_only())
    try:
        access = _GENERIC_READ if reads else _GENERIC_WRITE
        theirs = _winapi.CreateFile(name, access, 0, 0, _OPEN_EXISTING, 0, 0)
        try:
            connecting = _winapi.ConnectNamedPipe(ours, overlapped=True)
            connecting.GetOverlappedResult(True)
        except OSError as error:
            if error.winerror != _PIPE_CONNECTED:
                _winapi.CloseHandle(theirs)
                raise
        nt.set_handle_inheritable(theirs, True)
    except BaseException:
        _winapi.CloseHandle(ours)
        raise
    return ours, theirs

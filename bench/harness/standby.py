"""The standby of our shim: finds its processes and waits until it is ready.

This does not connect to its socket, which would wake the spare: standby and spare have the path of the socket in their
command lines.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from bench.harness.candidates import Candidate

TIMEOUT = 20.0
STEP = 0.02


def is_enabled(candidate: Candidate) -> bool:
    return candidate.environment.get("RUNHCS_STANDBY") == "1"


def pids(candidate: Candidate) -> list[int]:
    """Of standby and spare, if they run."""
    sockets = candidate.sockets
    if not is_enabled(candidate) or sockets is None:
        return []
    socket = os.fsencode(sockets / "standby-")
    numbers = map(int, filter(str.isdigit, os.listdir("/proc")))
    return [pid for pid in numbers if any(word.startswith(socket) for word in _command(pid))]


def wait(candidate: Candidate) -> None:
    """Waits until the standby has its spare, so that measures see a ready one; how often it is not shows in the p99.
    Before the first start there is no standby to wait for."""
    if is_enabled(candidate):
        deadline = time.monotonic() + TIMEOUT
        while len(pids(candidate)) == 1 and time.monotonic() < deadline:
            time.sleep(STEP)


def _command(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return []

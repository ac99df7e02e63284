"""The standby behind a candidate of ours: which processes it is, and waiting until it is ready.

Nobody knocks at its door for this, which would wake the spare: standby and spare have the door's path in their
command line.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from bench.harness.candidates import Candidate

PATIENCE = 20.0
STEP = 0.02


def is_wanted(candidate: Candidate) -> bool:
    return candidate.environment.get("RUNHCS_STANDBY") == "1"


def pids(candidate: Candidate) -> list[int]:
    """Standby and spare, if they are there or on their way."""
    sockets = candidate.sockets
    if not is_wanted(candidate) or sockets is None:
        return []
    door = os.fsencode(sockets / "standby-")
    numbers = map(int, filter(str.isdigit, os.listdir("/proc")))
    return [pid for pid in numbers if any(word.startswith(door) for word in _command(pid))]


def wait(candidate: Candidate) -> None:
    """A candidate with a standby is measured with one that is ready; how often it is not shows in its p99. Before the
    first start there is none to wait for."""
    if is_wanted(candidate):
        deadline = time.monotonic() + PATIENCE
        while len(pids(candidate)) == 1 and time.monotonic() < deadline:
            time.sleep(STEP)


def _command(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return []

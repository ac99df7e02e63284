"""The leak check: resources that shims leaked. One leaked resource fails the run.

Everything that a shim starts has the node's directory in its environment, and its files are below that directory. The
exception are sockets of shims that choose their own directory; `start` returned their addresses.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

# For what exits or is removed asynchronously.
TIMEOUT = 15.0


def wait_none(find: Callable[[], list[str]], timeout: float = TIMEOUT) -> list[str]:
    """Waits until nothing is found; what is still found after the timeout."""
    deadline = time.monotonic() + timeout
    while (found := find()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return found


def processes(marks: Iterable[str], excluded: Iterable[int] = ()) -> list[str]:
    """Processes whose environment has one of the marks, `name=value`; `excluded` is for standbys, which stay."""
    searched = {mark.encode() for mark in marks}
    skipped = {os.getpid(), *excluded}
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) in skipped:
            continue
        try:
            if searched.isdisjoint(Path("/proc", entry, "environ").read_bytes().split(b"\0")):
                continue
            command = Path("/proc", entry, "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue  # it has exited, or is not readable
        found.append(f"process {entry}: {command.strip() or '(exited)'}")
    return found


def mounts(directory: Path) -> list[str]:
    points = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return [f"mount {point}" for point in points if point.startswith(f"{os.path.realpath(directory)}/")]


def sockets(addresses: Iterable[str], directories: Iterable[Path]) -> list[str]:
    """Those of the addresses that still exist, and everything in the candidates' socket directories."""
    found = {path for path in addresses if os.path.lexists(path)}
    for directory in directories:
        if directory.is_dir():
            found |= {str(path) for path in directory.iterdir() if not path.name.startswith("standby-")}
    return [f"socket {path}" for path in sorted(found)]


def systems(status: dict[str, Any]) -> list[str]:
    return [f"compute system {one['Id']} ({one['State']})" for one in status["systems"]]


def runc_state(directory: Path) -> list[str]:
    """State of containers that runc did not delete."""
    return [f"runc state of {path.name}" for path in directory.glob("*/*") if path.is_dir()]


def control_groups(ids: Iterable[str], root: Path = Path("/sys/fs/cgroup")) -> list[str]:
    """Groups that runc created for containers; they are named by container id."""
    hierarchies = [root, *(path for path in root.glob("*") if path.is_dir())]
    return [f"control group {path}" for name in ids for one in hierarchies if (path := one / name).is_dir()]


def remove_group(path: Path) -> None:
    """Waits for its killed processes to exit."""
    deadline = time.monotonic() + TIMEOUT
    while path.is_dir() and time.monotonic() < deadline:
        try:
            path.rmdir()
        except OSError:
            time.sleep(0.05)

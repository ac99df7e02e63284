"""What shims may leave behind, looked for after a run: one thing left is enough to fail it.

Whatever a shim starts has the node's directory in its environment, and all its files are below that directory, but
for the sockets of shims that choose their place themselves; those are known by the addresses they told.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

# What ends on its own may need a moment for it.
PATIENCE = 15.0


def settle(look: Callable[[], list[str]], patience: float = PATIENCE) -> list[str]:
    """What is found once there is nothing, or once patience is over."""
    deadline = time.monotonic() + patience
    while (found := look()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return found


def processes(marks: Iterable[str], spared: Iterable[int] = ()) -> list[str]:
    """Processes whose environment has one of the marks, `name=value`; the standby of a candidate is meant to stay."""
    wanted = {mark.encode() for mark in marks}
    passed_over = {os.getpid(), *spared}
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) in passed_over:
            continue
        try:
            if wanted.isdisjoint(Path("/proc", entry, "environ").read_bytes().split(b"\0")):
                continue
            command = Path("/proc", entry, "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue  # it has ended, or is not ours to look at
        found.append(f"process {entry}: {command.strip() or '(ended)'}")
    return found


def mounts(directory: Path) -> list[str]:
    points = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return [f"mount {point}" for point in points if point.startswith(f"{os.path.realpath(directory)}/")]


def sockets(told: Iterable[str], directories: Iterable[Path]) -> list[str]:
    """Of the addresses that shims told those that are still there, and whatever lies in directories of their own."""
    found = {path for path in told if os.path.lexists(path)}
    for directory in directories:
        if directory.is_dir():
            found |= {str(path) for path in directory.iterdir() if not path.name.startswith("standby-")}
    return [f"socket {path}" for path in sorted(found)]


def systems(status: dict[str, Any]) -> list[str]:
    return [f"compute system {one['Id']} ({one['State']})" for one in status["systems"]]


def runc_state(directory: Path) -> list[str]:
    """State of containers that runc was never asked to delete."""
    return [f"runc's state of {path.name}" for path in directory.glob("*/*") if path.is_dir()]


def control_groups(ids: Iterable[str], root: Path = Path("/sys/fs/cgroup")) -> list[str]:
    """Groups that runc has made for containers; it names them by their ids."""
    hierarchies = [root, *(path for path in root.glob("*") if path.is_dir())]
    return [f"control group {path}" for name in ids for one in hierarchies if (path := one / name).is_dir()]


def remove_group(path: Path) -> None:
    """Whose processes have been killed, and may take a moment to be gone."""
    deadline = time.monotonic() + PATIENCE
    while path.is_dir() and time.monotonic() < deadline:
        try:
            path.rmdir()
        except OSError:
            time.sleep(0.05)

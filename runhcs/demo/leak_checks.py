"""Checks that the demo leaks nothing: one function for each kind of resource, which returns what it found.

The demo makes itself the reaper of its descendants (PR_SET_CHILD_SUBREAPER), so a daemon that leaves its parent becomes
a child of the demo and not of init. All processes that the demo started, directly or not, are its descendants.
"""

from __future__ import annotations

import ctypes
import glob
import hashlib
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from hcs_emulator.service.silo import cgroup
from runhcs import emulator
from runhcs.demo.workspace import Workspace, mounts_below

SETTLE_TIMEOUT = 5.0
KILL_TIMEOUT = 5.0
_PR_SET_CHILD_SUBREAPER = 36

Found = list[str]


def settle(look: Callable[[], Found], timeout: float = SETTLE_TIMEOUT) -> Found:
    """Repeat a check until it finds nothing, or until the timeout; returns what it found last."""
    deadline = time.monotonic() + timeout
    while (found := look()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return found


# While the emulator runs.


def compute_systems(workspace: Workspace) -> Found:
    try:
        status = workspace.status()
    except emulator.ControlError as error:
        return [str(error)]
    found = [f"{system['SystemType']} {system['Id']} ({system['State']})" for system in status["systems"]]
    if not found and status["handles"]:
        found.append(f"{status['handles']} open handles")
    return found


# After everything has been stopped, and before the directory is removed.


def processes() -> Found:
    reap_orphans()
    return [describe_process(pid) for pid in descendants()]


def mounts(workspace: Workspace) -> Found:
    return mounts_below(workspace.directory)


def sockets(workspace: Workspace) -> Found:
    """Open sockets, and socket files without a listener."""
    below = f"{os.path.realpath(workspace.directory)}/"
    found = {line.split()[-1] for line in Path("/proc/net/unix").read_text().splitlines() if below in line}
    for directory, _, names in os.walk(workspace.directory):
        found |= {path for name in names if (path := os.path.join(directory, name)) and Path(path).is_socket()}
    return sorted(found)


def control_groups(workspace: Workspace) -> Found:
    """The emulator derives the name of its groups from its directory."""
    instance = hashlib.sha256(os.path.realpath(workspace.hcs).encode()).hexdigest()[:12]
    where = cgroup.host_hierarchies()
    roots = set(where.bases.values()) | ({where.unified} if where.unified is not None else set())
    # Not Path.glob, which fails if another emulator removes the directory meanwhile.
    return sorted(path for root in roots for path in glob.glob(f"{root}/hcs-emulator/{instance}*"))


def bundles(workspace: Workspace) -> Found:
    """Bundles and scratch layers, which are removed with their container."""
    places = (workspace.directory / "bundles", workspace.layers)
    found = [path for place in places if place.is_dir() for path in place.iterdir() if path != workspace.base]
    if workspace.containerd is not None:
        found += workspace.containerd.tasks()
    return sorted(map(str, found))


def directory(workspace: Workspace) -> Found:
    return [str(workspace.directory)] if os.path.lexists(workspace.directory) else []


def remove_all(workspace: Workspace) -> None:
    """Kill, unmount and delete what the checks may have found."""
    kill_processes(descendants())
    for point in reversed(mounts_below(workspace.directory)):
        subprocess.run(["umount", "-l", point], check=False, timeout=10, stderr=subprocess.DEVNULL)
    workspace.remove()


# Processes.


def become_subreaper() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "becoming the reaper of orphaned processes failed")


def descendants(root: int | None = None) -> list[int]:
    """Running processes below one, nearest first; zombies are not counted."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            state, parent = _state(int(entry))
            if state not in ("", "X"):
                children.setdefault(parent, []).append(int(entry))
    found: list[int] = []
    waiting = [os.getpid() if root is None else root]
    while waiting:
        for child in children.get(waiting.pop(0), ()):
            waiting.append(child)
            if _state(child)[0] != "Z":
                found.append(child)
    return found


def reap_orphans() -> None:
    for entry in os.listdir("/proc"):
        if entry.isdigit() and _state(int(entry)) == ("Z", os.getpid()):
            try:
                os.waitpid(int(entry), os.WNOHANG)
            except ChildProcessError:
                pass


def kill_processes(pids: list[int]) -> None:
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    deadline = time.monotonic() + KILL_TIMEOUT
    while any(is_running(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.01)
    reap_orphans()


def describe_process(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        words = ""
    return f"{pid} {words[:60]}".strip()


def is_running(pid: int) -> bool:
    return _state(pid)[0] not in ("", "Z", "X")


def _state(pid: int) -> tuple[str, int]:
    """The letter of the state and the parent's id; an empty letter if there is no such process."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return "", 0
    return fields[0], int(fields[1])

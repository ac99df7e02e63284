"""The proof: what could be left behind, looked for, one kind at a time.

Each check gives what it found, in words. First those that need the emulator running, then, once it has been stopped
and before the directory goes, all others; `remove_by_force` gets rid of what was found.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from hcs_emulator.service.silo import cgroup
from runhcs import emulator
from runhcs.demo import process_tree
from runhcs.demo.workspace import Workspace, mounts_below

# What ends on its own may need a moment for it.
PATIENCE = 5.0

Found = list[str]


def settle(look: Callable[[], Found], patience: float = PATIENCE) -> Found:
    """What is found once there is nothing, or once patience is over."""
    deadline = time.monotonic() + patience
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


# When everything has been stopped.


def processes(own: set[int]) -> Found:
    process_tree.bury(own)
    return [process_tree.describe(pid) for pid in process_tree.descendants()]


def mounts(workspace: Workspace) -> Found:
    return mounts_below(workspace.directory)


def sockets(workspace: Workspace) -> Found:
    """Sockets that somebody has open, and socket files that nobody has."""
    below = f"{os.path.realpath(workspace.directory)}/"
    found = {line.split()[-1] for line in Path("/proc/net/unix").read_text().splitlines() if below in line}
    for directory, _, names in os.walk(workspace.directory):
        found |= {path for name in names if (path := os.path.join(directory, name)) and Path(path).is_socket()}
    return sorted(found)


def control_groups(workspace: Workspace) -> Found:
    """The emulator keeps its groups below a name that it makes from its directory's."""
    instance = hashlib.sha256(os.path.realpath(workspace.hcs).encode()).hexdigest()[:12]
    where = cgroup.host_hierarchies()
    roots = set(where.bases.values()) | ({where.unified} if where.unified is not None else set())
    return sorted(str(path) for root in roots for path in (root / "hcs-emulator").glob(f"{instance}*"))


def bundles(workspace: Workspace) -> Found:
    """What should have gone with each container."""
    places = (workspace.directory / "bundles", workspace.layers)
    found = [path for place in places if place.is_dir() for path in place.iterdir() if path != workspace.base]
    if workspace.containerd is not None:
        found += workspace.containerd.tasks()
    return sorted(map(str, found))


def directory(workspace: Workspace) -> Found:
    return [str(workspace.directory)] if os.path.lexists(workspace.directory) else []


def remove_by_force(workspace: Workspace, own: set[int]) -> None:
    process_tree.end(process_tree.descendants(), own)
    for point in reversed(mounts_below(workspace.directory)):
        subprocess.run(["umount", "-l", point], check=False, timeout=10, stderr=subprocess.DEVNULL)
    workspace.remove()

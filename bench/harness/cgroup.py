"""Control groups of the benchmark: one per candidate for CPU accounting, and one for scheduling the whole run.

The second one is for fairness. Linux gives every session its own scheduling group (autogroup) while its processes are
in no control group. A shim that creates a session then competes with the rest of the machine under other rules than
one that stays in its session, and on a busy machine that alone can double or halve a result. Under a service manager,
where containerd runs, there is no such difference. So a run enters a control group first.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
AUTOGROUP = Path("/proc/sys/kernel/sched_autogroup_enabled")
EMPTY_TIMEOUT = 10.0


class Group:
    """A group below the root, in the first hierarchy that has the required file; `path` is None if none has it."""

    def __init__(self, name: str, *places: tuple[str, str]) -> None:
        """`places`: a hierarchy's directory and the required file of a group in it."""
        self.path: Path | None = None
        self.file = ""
        for hierarchy, file in places:
            path = ROOT / hierarchy / name
            try:
                path.mkdir()
            except OSError:
                continue
            if (path / file).exists():
                self.path, self.file = path, file
                return
            path.rmdir()

    def enter(self) -> None:
        """Moves this process, and so its later children, into the group; may run between fork and exec."""
        with open(f"{self.path}/cgroup.procs", "w") as file:
            file.write("0")

    def close(self) -> None:
        """Moves the remaining processes (this one, or an idle standby) to the root and removes the group."""
        if self.path is None:
            return
        deadline = time.monotonic() + EMPTY_TIMEOUT
        while time.monotonic() < deadline:
            for pid in (self.path / "cgroup.procs").read_text().split():
                try:
                    (self.path.parent / "cgroup.procs").write_text(pid)
                except OSError:
                    pass  # it has exited
            try:
                self.path.rmdir()
                return
            except OSError:
                time.sleep(0.05)


class Accounting(Group):
    """A group that counts the CPU time of its processes."""

    def __init__(self, name: str) -> None:
        super().__init__(name, ("cpuacct", "cpuacct.usage"), ("", "cpu.stat"))

    def seconds(self) -> float:
        assert self.path is not None
        text = (self.path / self.file).read_text()
        if self.file == "cpuacct.usage":
            return int(text) / 1e9
        return int(text.split("usage_usec", 1)[1].split()[0]) / 1e6


def is_autogrouped() -> bool:
    """Whether this process's session is a scheduling group."""
    try:
        enabled = AUTOGROUP.read_text().strip() == "1"
        lines = Path("/proc/self/cgroup").read_text().split()
    except OSError:
        return False
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if "cpu" in controllers.split(","):
            return enabled and path == "/"
    return enabled and all(line.endswith(":/") for line in lines)


@contextmanager
def one_scheduling_group() -> Iterator[str]:
    """Puts this process into one scheduling group, if possible; yields a description for the results."""
    if not is_autogrouped():
        yield "no autogroups"
        return
    group = Group(f"bench-{os.getpid()}", ("cpu", "cpu.shares"))
    if group.path is None:
        yield "autogroups: a shim that creates a session is scheduled differently from one that does not"
        return
    try:
        group.enter()
        yield "one control group"
    finally:
        group.close()

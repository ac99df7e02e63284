"""Control groups of the benchmark's own: one that counts a candidate's time, one that all of a run competes in.

The second is about fairness. Linux gives every session a scheduling group of its own (autogroup) as long as its
processes are in no control group. A shim that makes a session then competes with the rest of the machine by other
rules than one that stays in the session it was started in, and on a busy machine that alone can double or halve a
figure. Under a service manager, where containerd runs, there is no such difference; so a run puts itself into a control
group first.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
AUTOGROUP = Path("/proc/sys/kernel/sched_autogroup_enabled")
EMPTYING_TIME = 10.0


class Group:
    """A group below the root, in the first of the hierarchies that has the wanted file; `path` is None if none has."""

    def __init__(self, name: str, *places: tuple[str, str]) -> None:
        """`places`: a hierarchy's directory and the file that a group of it must have."""
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
        """This process and its children from now on; also for a process between fork and exec."""
        with open(f"{self.path}/cgroup.procs", "w") as file:
            file.write("0")

    def close(self) -> None:
        """Whoever is still in it (ourselves, or a standby, which stays a while) goes back to the root."""
        if self.path is None:
            return
        deadline = time.monotonic() + EMPTYING_TIME
        while time.monotonic() < deadline:
            for pid in (self.path / "cgroup.procs").read_text().split():
                try:
                    (self.path.parent / "cgroup.procs").write_text(pid)
                except OSError:
                    pass  # it has ended
            try:
                self.path.rmdir()
                return
            except OSError:
                time.sleep(0.05)


class Accounting(Group):
    """One that counts the CPU time of who is in it."""

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
    """Compete as one group with the rest of the machine, where that is possible; how it was done, in words."""
    if not is_autogrouped():
        yield "no autogroups"
        return
    group = Group(f"bench-{os.getpid()}", ("cpu", "cpu.shares"))
    if group.path is None:
        yield "autogroups: sessions compete with each other, shims that make one and shims that do not"
        return
    try:
        group.enter()
        yield "one control group"
    finally:
        group.close()

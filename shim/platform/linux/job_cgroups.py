"""Control groups of a job, version 1 or 2: limits, membership, and the end of all in it by somebody else's hand.

A job is in one group for membership, and in one more for each kind of limit that is set: joining costs the kernel a
grace period each. Their names are fixed before they are made, so that the ledger can have them first. A machine where
none can be made has no limits, which is told, and jobs all the same: the keeper knows its processes.
"""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from shim.platform.job_types import Limits

SUBTREE = "runhcs-jobs"
MEMBERSHIP = ("pids", "freezer", "memory", "cpu")
CONTROLLERS = ("memory", "cpu", "pids", "freezer")
PERIOD_US = 100_000
# What a weight of 1 to 9 is to the kernel: 5 is what everybody has.
_ORDINARY_WEIGHT = 5
_LOOK_SECONDS = 0.005


class Groups:
    def __init__(self, id: str) -> None:
        instance = os.environ.get("HCS_EMULATOR_DIR", "")
        self._name = f"{SUBTREE}/{_safe(instance) or 'machine'}/{_safe(id)}"
        self._bases, self._unified = _hierarchies()
        self._made: dict[str, str] = {}
        self._counted = 0

    def paths(self) -> list[str]:
        """All that may ever be made."""
        roots = [*dict.fromkeys(self._bases.values()), *([self._unified] if self._unified else [])]
        return [f"{root}/{self._name}" for root in roots]

    def is_taken(self) -> bool:
        return any(_members(path) for path in self.paths())

    def adopt(self, pid: int) -> bool:
        """Take a process in, and whatever it starts from now on. False: there is nothing to take it into."""
        for controller in MEMBERSHIP:
            if directory := self._make(controller):
                return _write(f"{directory}/cgroup.procs", str(pid))
        return False

    def set_limits(self, limits: Limits, processes: Sequence[int]) -> list[str]:
        """For these processes and those to come. The names of limits that cannot be held."""
        quota = limits.rate * (os.cpu_count() or 1) * PERIOD_US // 10_000
        held = {
            "memory": self._hold("memory", bool(limits.memory), processes, _set_memory, limits.memory),
            "rate": self._hold("cpu", bool(quota), processes, _set_quota, max(quota, 1000) if quota else -1),
            "weight": self._hold("cpu", bool(limits.weight), processes, _set_weight, limits.weight or _ORDINARY_WEIGHT),
        }
        left = [name for name, is_held in held.items() if not is_held]
        return left + [name for name in ("iops", "bandwidth") if getattr(limits, name)]

    def _hold(
        self, controller: str, wanted: bool, processes: Sequence[int], setting: Callable[[str, int], bool], value: int
    ) -> bool:
        """Set one limit, or lift it. False if it is wanted and cannot be had."""
        directory = self._made.get(controller, "")
        if wanted and not directory and (directory := self._make(controller)):
            for pid in processes:
                _write(f"{directory}/cgroup.procs", str(pid))
        return (bool(directory) and setting(directory, value)) or not wanted

    def memory(self) -> tuple[int, int]:
        """Use and peak in bytes; zeros if nobody counts."""
        at = self._made.get("memory", "")
        use = _number(f"{at}/memory.usage_in_bytes") or _number(f"{at}/memory.current") if at else 0
        peak = _number(f"{at}/memory.max_usage_in_bytes") or _number(f"{at}/memory.peak") if at else 0
        return use, max(use, peak)

    def breaches(self) -> int:
        """How many processes the memory limit has cost since last asked."""
        at = self._made.get("memory", "")
        if not at:
            return 0
        counted = max(_counter(f"{at}/memory.oom_control"), _counter(f"{at}/memory.events"))
        new, self._counted = max(counted - self._counted, 0), max(counted, self._counted)
        return new

    def remove(self, timeout: float) -> None:
        """Those that are empty, or soon will be."""
        end(list(self._made.values()), time.monotonic() + timeout)
        self._made.clear()

    def _make(self, controller: str) -> str:
        if directory := self._made.get(controller, ""):
            return directory
        try:
            base = self._bases.get(controller, "")
            if base:
                directory = f"{base}/{self._name}"
                os.makedirs(directory, exist_ok=True)
            else:
                directory = self._make_unified(controller)
        except OSError:
            return ""
        if directory:
            self._made[controller] = directory
        return directory

    def _make_unified(self, controller: str) -> str:
        directory = self._unified
        for part in self._name.split("/") if directory else ():
            if controller != "freezer" and not _write(f"{directory}/cgroup.subtree_control", f"+{controller}"):
                return ""
            directory = f"{directory}/{part}"
            os.makedirs(directory, exist_ok=True)
        return directory


def end(paths: Sequence[str], deadline: float) -> None:
    """Kill all that is in these groups and remove them. Raises OSError if somebody does not go in time."""
    left = [path for path in paths if path and os.path.isdir(path)]
    found = list(left)
    while left:
        for path in left:
            if not _write(f"{path}/cgroup.kill", "1"):
                for pid in _members(path):
                    _kill(pid)
        left = [path for path in left if not _removed(path)]
        if left and time.monotonic() > deadline:
            raise TimeoutError(110, f"processes {_members(left[0])} of a job do not end", left[0])
        if left:
            time.sleep(_LOOK_SECONDS)
    for path in found:  # those above, when this was the last
        above = os.path.dirname(path)
        _ = _removed(above) and _removed(os.path.dirname(above))


def _hierarchies() -> tuple[dict[str, str], str]:
    """Where each controller of version 1 has the group that we are in; and the tree of version 2, if there is one."""
    own = {}
    for line in read("/proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        own.update(dict.fromkeys(controllers.split(","), path.lstrip("/")))
    bases: dict[str, str] = {}
    unified = ""
    for line in read("/proc/self/mounts").splitlines():
        _, point, kind, options, *_ = line.split()
        if kind == "cgroup":
            for controller in CONTROLLERS:
                if controller in options.split(","):
                    group = f"{point}/{own.get(controller, '')}".rstrip("/")
                    bases[controller] = group if os.path.isdir(group) else point
        elif kind == "cgroup2":
            unified = point
    return bases, unified


def _set_memory(at: str, limit: int) -> bool:
    if os.path.exists(f"{at}/memory.max"):
        return _write(f"{at}/memory.max", str(limit or "max"))
    return _write(f"{at}/memory.limit_in_bytes", str(limit or -1))


def _set_quota(at: str, quota: int) -> bool:
    if os.path.exists(f"{at}/cpu.max"):
        return _write(f"{at}/cpu.max", f"{quota if quota > 0 else 'max'} {PERIOD_US}")
    return _write(f"{at}/cpu.cfs_period_us", str(PERIOD_US)) and _write(f"{at}/cpu.cfs_quota_us", str(quota))


def _set_weight(at: str, weight: int) -> bool:
    if os.path.exists(f"{at}/cpu.weight"):
        return _write(f"{at}/cpu.weight", str(100 * weight // _ORDINARY_WEIGHT))
    return _write(f"{at}/cpu.shares", str(1024 * weight // _ORDINARY_WEIGHT))


def _safe(name: str) -> str:
    """One part of a path that two names never share."""
    kept = "".join(char if char.isalnum() or char in "-_" else f".{ord(char):x}." for char in name)
    if len(kept) < 200:
        return kept
    from hashlib import sha1

    return kept[:100] + sha1(kept.encode()).hexdigest()


def _members(path: str) -> list[int]:
    return [int(pid) for pid in read(f"{path}/cgroup.procs").split()]


def _kill(pid: int) -> None:
    try:
        os.kill(pid, 9)
    except ProcessLookupError:
        pass


def _removed(path: str) -> bool:
    try:
        os.rmdir(path)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _counter(path: str) -> int:
    for line in read(path).splitlines():
        name, _, value = line.partition(" ")
        if name == "oom_kill":
            return int(value)
    return 0


def _number(path: str) -> int:
    text = read(path).strip()
    return int(text) if text.isdigit() else 0


def read(path: str) -> str:
    """A file of the kernel's; nothing if it is not there, or its process has gone."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _write(path: str, value: str) -> bool:
    try:
        descriptor = os.open(path, os.O_WRONLY)  # never creates: a missing file is a missing feature
    except OSError:
        return False
    try:
        os.write(descriptor, value.encode())
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)

"""The cgroups of a job, version 1 or 2: limits, membership, and killing its processes from another process.

A job is in one cgroup for membership, and in one more for each kind of limit that is set: each join costs the kernel a
grace period. Their names are known before they are created, so that the ledger can record them first. Without cgroups
there are no limits, which is reported, but jobs still work: the keeper knows its processes.
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
# Weights are 1 to 9; 5 is the kernel's default weight.
_DEFAULT_WEIGHT = 5
_POLL_SECONDS = 0.005
_ATTEMPTS = 20


class Groups:
    def __init__(self, id: str) -> None:
        instance = os.environ.get("HCS_EMULATOR_DIR", "")
        self._name = f"{SUBTREE}/{_safe(instance) or 'machine'}/{_safe(id)}"
        self._bases, self._unified = _hierarchies()
        self._created: dict[str, str] = {}
        self._counted = 0

    def paths(self) -> list[str]:
        """All cgroups that may ever be created."""
        roots = [*dict.fromkeys(self._bases.values()), *([self._unified] if self._unified else [])]
        return [f"{root}/{self._name}" for root in roots]

    def is_taken(self) -> bool:
        return any(_members(path) for path in self.paths())

    def add(self, pid: int) -> bool:
        """Add a process, and with it its later children. False: there is no cgroup."""
        for controller in MEMBERSHIP:
            if directory := self._create(controller):
                return _write(f"{directory}/cgroup.procs", str(pid))
        return False

    def set_limits(self, limits: Limits, processes: Sequence[int]) -> list[str]:
        """Set limits for these processes and later ones. Returns the names of limits that cannot be enforced."""
        quota = limits.rate * (os.cpu_count() or 1) * PERIOD_US // 10_000
        enforced = {
            "memory": self._set("memory", bool(limits.memory), processes, _set_memory, limits.memory),
            "rate": self._set("cpu", bool(quota), processes, _set_quota, max(quota, 1000) if quota else -1),
            "weight": self._set("cpu", bool(limits.weight), processes, _set_weight, limits.weight or _DEFAULT_WEIGHT),
        }
        left = [name for name, is_enforced in enforced.items() if not is_enforced]
        return left + [name for name in ("iops", "bandwidth") if getattr(limits, name)]

    def _set(
        self, controller: str, is_set: bool, processes: Sequence[int], setting: Callable[[str, int], bool], value: int
    ) -> bool:
        """Set or remove one limit. False if it is set and cannot be enforced."""
        directory = self._created.get(controller, "")
        if is_set and not directory and (directory := self._create(controller)):
            for pid in processes:
                _write(f"{directory}/cgroup.procs", str(pid))
        return (bool(directory) and setting(directory, value)) or not is_set

    def memory(self) -> tuple[int, int]:
        """Usage and peak in bytes; zeros without a memory cgroup."""
        at = self._created.get("memory", "")
        usage = _number(f"{at}/memory.usage_in_bytes") or _number(f"{at}/memory.current") if at else 0
        peak = _number(f"{at}/memory.max_usage_in_bytes") or _number(f"{at}/memory.peak") if at else 0
        return usage, max(usage, peak)

    def new_oom_kills(self) -> int:
        """The number of OOM kills since the last call."""
        at = self._created.get("memory", "")
        if not at:
            return 0
        counted = max(_counter(f"{at}/memory.oom_control"), _counter(f"{at}/memory.events"))
        new, self._counted = max(counted - self._counted, 0), max(counted, self._counted)
        return new

    def remove(self, timeout: float) -> None:
        """Remove the cgroups, which are empty or will be soon."""
        kill_and_remove(list(self._created.values()), time.monotonic() + timeout)
        self._created.clear()

    def _create(self, controller: str) -> str:
        if directory := self._created.get(controller, ""):
            return directory
        try:
            base = self._bases.get(controller, "")
            if base:
                directory = f"{base}/{self._name}"
                _make_directories(directory)
            else:
                directory = self._create_unified(controller)
        except OSError:
            return ""
        if directory:
            self._created[controller] = directory
        return directory

    def _create_unified(self, controller: str) -> str:
        directory = self._unified
        for part in self._name.split("/") if directory else ():
            if controller != "freezer" and not _write(f"{directory}/cgroup.subtree_control", f"+{controller}"):
                return ""
            directory = f"{directory}/{part}"
            _make_directories(directory)
        return directory


def kill_and_remove(paths: Sequence[str], deadline: float) -> None:
    """Kill all processes of these cgroups and remove them. Raises OSError after the deadline, and if one is not of a
    job: a ledger may be damaged or forged, and a cgroup may be that of the whole system."""
    if other := [path for path in paths if path and not _is_of_job(path)]:
        raise OSError(22, "not a cgroup of a job", other[0])
    left = [path for path in paths if path and os.path.isdir(path)]
    while left:
        for path in left:
            if not _write(f"{path}/cgroup.kill", "1"):
                for pid in _members(path):
                    _kill(pid)
        left = [path for path in left if not _removed(path)]
        if left and time.monotonic() > deadline:
            raise TimeoutError(110, f"processes {_members(left[0])} of a job do not exit", left[0])
        if left:
            time.sleep(_POLL_SECONDS)
    # And their parents, if they are empty, also those of a group that is gone: its shim may have been killed before it
    # removed them.
    for path in filter(None, paths):
        above = os.path.dirname(path)
        _ = _removed(above) and _removed(os.path.dirname(above))


def _is_of_job(path: str) -> bool:
    """As `Groups.paths` names them."""
    first, *parts = path.split("/")
    return len(parts) > 3 and not first and parts[-3] == SUBTREE and all(part not in ("", "..") for part in parts)


def _hierarchies() -> tuple[dict[str, str], str]:
    """Our own cgroup of each version 1 controller, and the root of version 2, if there is one."""
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
        return _write(f"{at}/cpu.weight", str(100 * weight // _DEFAULT_WEIGHT))
    return _write(f"{at}/cpu.shares", str(1024 * weight // _DEFAULT_WEIGHT))


def _safe(name: str) -> str:
    """A unique path component for a name."""
    safe = "".join(char if char.isalnum() or char in "-_" else f".{ord(char):x}." for char in name)
    if len(safe) < 200:
        return safe
    from hashlib import sha1

    return safe[:100] + sha1(safe.encode()).hexdigest()


def _members(path: str) -> list[int]:
    return [int(pid) for pid in read(f"{path}/cgroup.procs").split()]


def _kill(pid: int) -> None:
    try:
        os.kill(pid, 9)
    except ProcessLookupError:
        pass


def _make_directories(path: str) -> None:
    """The end of another job removes a parent that is empty, perhaps just after it was created here."""
    for _ in range(_ATTEMPTS):
        try:
            os.makedirs(path, exist_ok=True)
            return
        except FileNotFoundError:
            pass
    os.makedirs(path, exist_ok=True)


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
    return int(text) if text.isascii() and text.isdigit() else 0


def read(path: str) -> str:
    """A file of /proc or cgroupfs; empty if it is missing or its process has exited."""
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

"""Limits on a silo by cgroups, version 1 or 2, as far as the host allows.

A silo has a directory of its own, `hcs-emulator/<instance>/<id>`, below the service's own group if possible, so that
limits on the service also limit its silos. A limit that cannot be set is recorded as not enforced. It is no failure:
HCS accepted the limit.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import time
import urllib.parse
from collections.abc import Callable
from pathlib import Path

import attrs

from hcs_emulator.service.silo.limits import PERIOD_US, Limits

_SUBTREE = "hcs-emulator"
_REMOVAL_TIMEOUT = 5.0
_STALE_TIMEOUT = 1.0  # delays the start of the service
_FREEZE_TIMEOUT = 1.0  # a process blocked in the kernel freezes later
# The controller of each limit.
_CONTROLLERS = {
    "memory_bytes": "memory",
    "cpu_count": "cpu",
    "cpu_maximum": "cpu",
    "cpu_weight": "cpu",
    "process_limit": "pids",
}


@attrs.frozen
class Memory:
    usage: int
    peak: int


class Hierarchies:
    """The mount point of each controller, and the group below which the service may create its own."""

    def __init__(self, bases: dict[str, Path], unified: Path | None) -> None:
        self.bases = bases
        self.unified = unified

    @classmethod
    def of_host(cls, mounts: str = "/proc/self/mounts", membership: str = "/proc/self/cgroup") -> Hierarchies:
        own = {}
        for line in Path(membership).read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            for controller in controllers.split(","):
                own[controller] = path.lstrip("/")
        bases: dict[str, Path] = {}
        unified = None
        for line in Path(mounts).read_text().splitlines():
            _, mount_point, kind, options, *_ = line.split()
            root = Path(mount_point)
            if kind == "cgroup":
                for controller in ("memory", "cpu", "pids", "freezer"):
                    if controller in options.split(","):
                        group = root / own.get(controller, "")
                        bases[controller] = group if group.is_dir() else root
            elif kind == "cgroup2":
                unified = root
        return cls(bases, unified)


_host: Hierarchies | None = None


def host_hierarchies() -> Hierarchies:
    global _host
    if _host is None:
        _host = Hierarchies.of_host()
    return _host


class Cgroup:
    """The groups of one silo. Methods that may take a kernel grace period run in a thread."""

    def __init__(self, instance: str, identity: str, hierarchies: Hierarchies | None = None) -> None:
        # Two ids must not map to one path, and no id may leave the subtree.
        self._name = Path(_SUBTREE, _safe(instance), _safe(identity))
        self._where = hierarchies or host_hierarchies()
        self._directories: dict[str, Path] = {}
        self._frozen: Path | None = None
        self._breaches = 0
        self.enforced: dict[str, bool] = {}

    async def apply(self, limits: Limits) -> None:
        """Set these limits and remove all others."""
        await asyncio.to_thread(self._apply, limits)

    async def adopt(self, list_processes: Callable[[], list[int]]) -> None:
        """Move processes into the groups, repeatedly: a process that is not yet moved may start another."""
        await asyncio.to_thread(self._adopt, set(self._directories.values()), list_processes)

    @property
    def oom_count(self) -> int:
        self.count_breaches()
        return self._breaches

    def count_breaches(self) -> int:
        """How many processes the kernel has killed for the memory limit since the last call."""
        directory = self._directories.get("memory")
        if directory is None:
            return 0
        counted = max(
            _counter(directory / "memory.oom_control", "oom_kill"), _counter(directory / "memory.events", "oom_kill")
        )
        new = max(counted - self._breaches, 0)
        self._breaches = max(counted, self._breaches)
        return new

    def memory(self) -> Memory | None:
        directory = self._directories.get("memory")
        if directory is None:
            return None
        usage = _number(directory / "memory.usage_in_bytes") or _number(directory / "memory.current")
        peak = _number(directory / "memory.max_usage_in_bytes") or _number(directory / "memory.peak")
        return Memory(usage, max(usage, peak))

    async def freeze(self, list_processes: Callable[[], list[int]]) -> int | None:
        """Freeze processes. Returns an open descriptor that thaws them when `THAWED` or `0` is written to it, or None.
        """
        return await asyncio.to_thread(self._freeze, list_processes)

    async def thaw(self) -> None:
        if self._frozen is not None:
            await asyncio.to_thread(self._thaw, self._frozen)

    async def remove(self) -> None:
        """Remove the groups. Retries: exited processes stay in them for a moment."""
        self.count_breaches()
        deadline = time.monotonic() + _REMOVAL_TIMEOUT
        directories = [self._frozen] if self._frozen is not None else []
        directories += [path for path in set(self._directories.values()) if path not in directories]
        while directories and time.monotonic() < deadline:
            directories = [path for path in directories if not _removed(path)]
            if directories:
                await asyncio.sleep(0.005)
        for directory in set(self._directories.values()):
            for above in (directory.parent, directory.parent.parent):  # not empty unless this is the last silo
                _removed(above)
        self._directories.clear()
        self._frozen = None

    # -- in a thread

    def _apply(self, limits: Limits) -> None:
        requested = limits.set
        for controller in ("memory", "cpu", "pids"):
            if any(_CONTROLLERS[name] == controller for name in requested):
                self._make(controller)
        self.enforced = dict.fromkeys(requested, False)
        results = {
            "memory": self._set_memory(limits.memory_bytes),
            "pids": self._set_processes(limits.process_limit),
        }
        weight, quota = self._set_weight(limits.cpu_weight), self._set_quota(limits.cpu_quota())
        for name in requested:
            self.enforced[name] = results.get(_CONTROLLERS[name], weight if name == "cpu_weight" else quota)

    def _make(self, controller: str) -> Path | None:
        """The silo's directory for a controller, created on first use."""
        if controller in self._directories:
            return self._directories[controller]
        base = self._where.bases.get(controller)
        for _ in range(3):  # an exiting silo may remove the parent directories meanwhile
            try:
                if base is not None:
                    directory = base / self._name
                    directory.mkdir(parents=True, exist_ok=True)
                else:
                    directory = self._make_unified(controller)
            except FileNotFoundError:
                continue
            except OSError:
                break
            self._directories[controller] = directory
            return directory
        return None

    def _make_unified(self, controller: str) -> Path:
        root = self._where.unified
        if root is None:
            raise FileNotFoundError(controller)
        directory = root
        for part in self._name.parts:
            if controller != "freezer":  # the freezer needs no controller enabled
                (directory / "cgroup.subtree_control").write_text(f"+{controller}")
            directory /= part
            directory.mkdir(exist_ok=True)
        return directory

    def _set_memory(self, limit: int | None) -> bool:
        directory = self._directories.get("memory")
        if directory is None:
            return False
        if (directory / "memory.max").exists():
            return _written(directory / "memory.max", str(limit or "max"))
        return _written(directory / "memory.limit_in_bytes", str(limit or -1))

    def _set_processes(self, limit: int | None) -> bool:
        # The kernel counts pid 1 of the silo, which is not a process of the user.
        directory = self._directories.get("pids")
        return directory is not None and _written(directory / "pids.max", str(limit + 1) if limit else "max")

    def _set_quota(self, quota: int) -> bool:
        directory = self._directories.get("cpu")
        if directory is None:
            return False
        if (directory / "cpu.max").exists():
            return _written(directory / "cpu.max", f"{quota if quota > 0 else 'max'} {PERIOD_US}")
        return _written(directory / "cpu.cfs_period_us", str(PERIOD_US)) and _written(
            directory / "cpu.cfs_quota_us", str(quota)
        )

    def _set_weight(self, weight: int | None) -> bool:
        directory = self._directories.get("cpu")
        if directory is None:
            return False
        ordinary = weight or 100  # 100 is the default of HCS and of cgroup version 2
        if (directory / "cpu.weight").exists():
            return _written(directory / "cpu.weight", str(min(max(ordinary, 1), 10_000)))
        return _written(directory / "cpu.shares", str(max(ordinary * 1024 // 100, 2)))

    def _adopt(self, directories: set[Path], list_processes: Callable[[], list[int]]) -> None:
        moved: set[int] = set()
        while True:
            left = [pid for pid in list_processes() if pid not in moved]
            if not left:
                return
            for pid in left:
                moved.add(pid)
                for directory in directories:
                    _written(directory / "cgroup.procs", str(pid))

    def _freeze(self, list_processes: Callable[[], list[int]]) -> int | None:
        directory = self._make("freezer")
        if directory is None:
            return None
        frozen = directory / "frozen"
        try:
            frozen.mkdir(exist_ok=True)
        except OSError:
            return None
        self._frozen = frozen
        self._adopt({frozen}, list_processes)
        switch, value = ("freezer.state", "FROZEN") if (frozen / "freezer.state").exists() else ("cgroup.freeze", "1")
        if not _written(frozen / switch, value):
            return None
        deadline = time.monotonic() + _FREEZE_TIMEOUT
        while not _is_frozen(frozen) and time.monotonic() < deadline:
            time.sleep(0.001)
        return os.open(frozen / switch, os.O_WRONLY)

    def _thaw(self, frozen: Path) -> None:
        if not _written(frozen / "freezer.state", "THAWED"):
            _written(frozen / "cgroup.freeze", "0")


def remove_stale(instance: str, hierarchies: Hierarchies | None = None) -> None:
    """Remove the cgroups that a crashed service of this instance, or a VM of it (`<instance>-…`), leaked.

    Its silos exited with it, their directories did not.
    """
    where = hierarchies or host_hierarchies()
    roots = set(where.bases.values()) | ({where.unified} if where.unified is not None else set())
    for root in roots:
        subtree = root / _SUBTREE
        own = _safe(instance)
        # Not glob, which keeps the pattern of each of up to 32,768 instances.
        for name in _names(subtree):
            if name == own or name.startswith(f"{own}-"):
                _remove_tree(subtree / name)
        _removed(subtree)


def _names(directory: Path) -> list[str]:
    """None if another instance has removed the directory."""
    try:
        return os.listdir(directory)
    except FileNotFoundError:
        return []


def _remove_tree(tree: Path) -> None:
    """Retries for a moment, since exited processes stay in a group for a moment; gives up on groups in use."""
    deadline = time.monotonic() + _STALE_TIMEOUT
    while tree.exists() and time.monotonic() < deadline:
        for directory, _, _ in os.walk(tree, topdown=False):
            _removed(Path(directory))
        if tree.exists():
            time.sleep(0.005)


def _safe(name: str) -> str:
    quoted = urllib.parse.quote(name, safe="", errors="surrogatepass")
    if quoted.strip(".") and len(quoted) < 200:
        return quoted
    return "x" + hashlib.sha256(quoted.encode()).hexdigest()[:32]


def _written(path: Path, value: str) -> bool:
    try:
        descriptor = os.open(path, os.O_WRONLY)  # does not create: a missing file is a missing feature
    except OSError:
        return False
    try:
        os.write(descriptor, value.encode())
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)


def _is_frozen(directory: Path) -> bool:
    try:
        if (directory / "freezer.state").exists():
            return (directory / "freezer.state").read_text().strip() == "FROZEN"
        return _counter(directory / "cgroup.events", "frozen") == 1
    except OSError:
        return True


def _removed(directory: Path) -> bool:
    try:
        directory.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _number(path: Path) -> int:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return 0


def _counter(path: Path, name: str) -> int:
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith(name + " ")), 0)

"""The cgroups of a VM: a group of its own in every hierarchy of the host, which is the root of the guest's cgroups.

With version 1 (or both) on the host the guest gets the hierarchies of version 1, otherwise version 2. The service
removes the groups when the VM has exited; a service that was killed removes them at its next start.

A VM can be in a group of the host, such as that of its pod, which limits and counts what the VM uses. Who made that
group, such as a kubelet, removes it with everything in it.
"""

from __future__ import annotations

import errno
import os
import time

SUBTREE = "hcs-emulator"
PERIOD_US = 100_000
_FULL_LIMIT = 100_000  # of HCS: 1/1000 of a percent
_REMOVAL_TIMEOUT = 5.0
_CREATE_ATTEMPTS = 10
_NO_MEMORY_LIMIT = 1 << 62  # the kernel rounds the greatest number down to pages


class Hierarchy:
    """A hierarchy of version 1 with its controllers, or that of version 2."""

    def __init__(self, controllers: str, mount_point: str, own_group: str, version: int) -> None:
        self.controllers = controllers
        self.mount_point = mount_point
        self.version = version
        inside = os.path.join(mount_point, own_group.lstrip("/"))
        # Version 2 allows groups below one with processes only at the root.
        self.base = inside if version == 1 and os.path.isdir(inside) else mount_point


def host_hierarchies(mounts: str = "/proc/self/mounts", membership: str = "/proc/self/cgroup") -> list[Hierarchy]:
    own: dict[str, str] = {}
    with open(membership) as file:
        for line in file:
            _, controllers, group = line.rstrip("\n").split(":", 2)
            own[controllers] = group
    first: list[Hierarchy] = []
    second: list[Hierarchy] = []
    with open(mounts) as file:
        for line in file:
            _, point, kind, options, *_ = line.split()
            if kind == "cgroup2":
                second.append(Hierarchy("", point, "", 2))
            elif kind == "cgroup":
                name = next((name for name in own if name and _serves(options.split(","), name)), None)
                if name is not None and all(name != known.controllers for known in first):
                    first.append(Hierarchy(name, point, own[name], 1))
    return first or second[:1]


def _serves(options: list[str], controllers: str) -> bool:
    return all(controller in options for controller in controllers.split(","))


class Cgroups:
    """The groups of one VM. `name` contains the instance of the emulator and the VM. `parent` is a group of the host,
    by its path in each hierarchy; where it does not exist, the VM is beside the emulator."""

    def __init__(self, name: str, parent: str = "", hierarchies: list[Hierarchy] | None = None) -> None:
        self.name = name
        self.hierarchies = host_hierarchies() if hierarchies is None else hierarchies
        for hierarchy in self.hierarchies:
            inside = os.path.join(hierarchy.mount_point, parent.strip("/"))
            if parent and os.path.isdir(inside):
                hierarchy.base = inside
        self._groups = [(entry, os.path.join(entry.base, SUBTREE, name)) for entry in self.hierarchies]

    def create(self) -> None:
        for hierarchy, group in self._groups:
            for attempt in range(1, _CREATE_ATTEMPTS + 1):
                try:
                    _create(hierarchy, group)
                    break
                except OSError as error:
                    # The last VM that exited removed the parent directory meanwhile: before it was opened, or after.
                    if error.errno not in (errno.ENOENT, errno.ENODEV) or attempt == _CREATE_ATTEMPTS:
                        raise

    def enter(self) -> None:
        """Move the calling process into the groups: its cgroup namespace then begins there."""
        for _, group in self._groups:
            write(os.path.join(group, "cgroup.procs"), "0")

    def set_limits(self, memory_mb: int, processors: int, limit: int, weight: int) -> None:
        """As far as the host has the controllers: what a VM of this size could use."""
        cpus = min(processors, os.cpu_count() or 1)
        full = cpus == (os.cpu_count() or 1) and not 0 < limit < _FULL_LIMIT
        quota = -1 if full else max(cpus * PERIOD_US * (limit or _FULL_LIMIT) // _FULL_LIMIT, 1000)
        shares = weight or 100
        for hierarchy, group in self._groups:
            controllers = hierarchy.controllers.split(",")
            if hierarchy.version == 2:
                _try_write(f"{group}/memory.max", str(memory_mb << 20))
                _try_write(f"{group}/cpu.max", f"{'max' if quota < 0 else quota} {PERIOD_US}")
                _try_write(f"{group}/cpu.weight", str(min(max(shares, 1), 10_000)))
            if "memory" in controllers:
                _try_write(f"{group}/memory.limit_in_bytes", str(memory_mb << 20))
            if "cpu" in controllers:
                _try_write(f"{group}/cpu.cfs_quota_us", str(quota))
                _try_write(f"{group}/cpu.shares", str(max(shares * 1024 // 100, 2)))

    def memory_allowed(self) -> int | None:
        """How many bytes the group that the VM is in may use; None if that is not limited."""
        for hierarchy in self.hierarchies:
            for name in ("memory.max", "memory.limit_in_bytes"):
                try:
                    with open(os.path.join(hierarchy.base, name)) as file:
                        limit = file.read().strip()
                except OSError:
                    continue
                return None if limit == "max" or int(limit) >= _NO_MEMORY_LIMIT else int(limit)
        return None

    def freeze(self, frozen: bool) -> None:
        for hierarchy, group in self._groups:
            if hierarchy.version == 2:
                _try_write(f"{group}/cgroup.freeze", "1" if frozen else "0")
            elif "freezer" in hierarchy.controllers.split(","):
                _try_write(f"{group}/freezer.state", "FROZEN" if frozen else "THAWED")

    def remove(self) -> None:
        _remove_trees([group for _, group in self._groups])


def remove_stale(instance: str, hierarchies: list[Hierarchy] | None = None) -> None:
    """Remove the groups of VMs of this instance (`<instance>-…`) that have exited."""
    found = []
    for hierarchy in host_hierarchies() if hierarchies is None else hierarchies:
        subtree = os.path.join(hierarchy.base, SUBTREE)
        try:
            names = os.listdir(subtree)
        except OSError:
            continue
        found += [os.path.join(subtree, name) for name in names if name.startswith(instance + "-")]
    _remove_trees(found)


def _remove_trees(trees: list[str]) -> None:
    """Retries: exited processes stay in a group for a moment."""
    deadline = time.monotonic() + _REMOVAL_TIMEOUT
    while trees:
        for tree in trees:
            for directory, _, _ in os.walk(tree, topdown=False):
                _remove(directory)
            _remove(os.path.dirname(tree))  # not empty unless this was the last VM
        trees = [tree for tree in trees if os.path.exists(tree)]
        if not trees or time.monotonic() > deadline:
            return
        time.sleep(0.005)


def _remove(directory: str) -> None:
    try:
        os.rmdir(directory)
    except OSError:
        pass


def _create(hierarchy: Hierarchy, group: str) -> None:
    for path in (os.path.dirname(group), group):
        try:
            os.mkdir(path)
        except FileExistsError:
            pass
        if hierarchy.controllers.startswith("cpuset"):
            _inherit_cpuset(path)
    if hierarchy.version == 2:
        for path in (hierarchy.base, os.path.dirname(group), group):
            enable_controllers(path)


def _inherit_cpuset(group: str) -> None:
    """A new group has no processors and no memory nodes, and takes no processes then."""
    for name in ("cpuset.cpus", "cpuset.mems"):
        with open(os.path.join(group, name)) as file:
            present = file.read().strip()
        if not present:
            with open(os.path.join(os.path.dirname(group), name)) as file:
                write(os.path.join(group, name), file.read().strip())


def enable_controllers(group: str) -> None:
    """For the children of a group of version 2."""
    try:
        with open(os.path.join(group, "cgroup.controllers")) as file:
            controllers = file.read().split()
    except OSError:
        return
    for controller in controllers:
        _try_write(os.path.join(group, "cgroup.subtree_control"), "+" + controller)


def write(path: str, value: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, value.encode())
    finally:
        os.close(descriptor)


def _try_write(path: str, value: str) -> None:
    """A limit that the host cannot set is no failure: HCS accepted it."""
    try:
        write(path, value)
    except OSError:
        pass

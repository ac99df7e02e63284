"""Cgroups on a tree of ordinary files, version 1 and version 2."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from hcs_emulator.service.silo import cgroup
from hcs_emulator.service.silo.cgroup import Cgroup, Hierarchies
from hcs_emulator.service.silo.limits import Limits

MIB = 1 << 20


class Tree:
    """A fake cgroup file system. The kernel creates the files of a group with its directory."""

    def __init__(self, root: Path, version: int) -> None:
        self.root = root
        if version == 2:
            (root / "cgroup.subtree_control").touch()
            self.hierarchies = Hierarchies({}, root)
            self.directory = root / "hcs-emulator" / "one" / "box"
            for path in (root / "hcs-emulator", root / "hcs-emulator" / "one"):
                path.mkdir()
                (path / "cgroup.subtree_control").touch()
        else:
            bases = {name: root / name for name in ("memory", "cpu", "pids", "freezer")}
            self.hierarchies = Hierarchies(bases, None)
            self.directory = root / "all"

    def make(self, directory: Path, *files: str) -> Path:
        directory.mkdir(parents=True)
        for name in files:
            (directory / name).touch()
        return directory


def test_version_2_limits_are_written(tmp_path: Path) -> None:
    tree = Tree(tmp_path, 2)
    group = tree.make(
        tree.directory, "memory.max", "cpu.max", "cpu.weight", "pids.max", "cgroup.procs", "cgroup.events"
    )
    box = Cgroup("one", "box", tree.hierarchies)
    asyncio.run(box.apply(Limits(memory_bytes=64 * MIB, cpu_maximum=5000, cpu_weight=500, process_limit=7)))
    assert box.enforced == {"memory_bytes": True, "cpu_maximum": True, "cpu_weight": True, "process_limit": True}
    assert (tmp_path / "cgroup.subtree_control").read_text() in ("+memory", "+cpu", "+pids")
    assert (group / "memory.max").read_text() == str(64 * MIB)
    quota, period = (group / "cpu.max").read_text().split()
    assert period == "100000" and int(quota) % 50_000 == 0
    assert (group / "cpu.weight").read_text() == "500"
    assert (group / "pids.max").read_text() == "8"  # and pid 1 of the silo
    pids = [[1], [1, 2], [1, 2]]
    asyncio.run(box.adopt(lambda: pids.pop(0)))
    assert (group / "cgroup.procs").read_text() in ("1", "2")
    assert not pids  # listed again until there was no new process
    (group / "memory.events").write_text("low 0\nhigh 0\noom 3\noom_kill 2\n")
    (group / "memory.current").write_text("1000\n")
    (group / "memory.peak").write_text("5000\n")
    assert (box.count_breaches(), box.count_breaches(), box.oom_count) == (2, 0, 2)
    assert box.memory() == cgroup.Memory(usage=1000, peak=5000)
    asyncio.run(box.apply(Limits()))
    assert (group / "memory.max").read_text().startswith("max")
    assert (group / "cpu.max").read_text().startswith("max 100000")


def test_version_2_freezes_a_child_group(tmp_path: Path) -> None:
    tree = Tree(tmp_path, 2)
    tree.make(tree.directory, "cgroup.procs")
    frozen = tree.make(tree.directory / "frozen", "cgroup.procs", "cgroup.freeze")
    (frozen / "cgroup.events").write_text("populated 1\nfrozen 1\n")
    box = Cgroup("one", "box", tree.hierarchies)
    left = [[5], [5]]
    switch = asyncio.run(box.freeze(lambda: left.pop(0)))
    assert switch is not None
    assert (frozen / "cgroup.freeze").read_text() == "1"
    assert (frozen / "cgroup.procs").read_text() == "5"
    asyncio.run(box.thaw())
    assert (frozen / "cgroup.freeze").read_text() == "0"


def test_limit_without_controller_is_not_enforced(tmp_path: Path) -> None:
    bases = {"pids": tmp_path / "pids"}
    group = tmp_path / "pids" / "hcs-emulator" / "one" / "box"
    group.mkdir(parents=True)
    (group / "pids.max").touch()
    box = Cgroup("one", "box", Hierarchies(bases, None))
    asyncio.run(box.apply(Limits(memory_bytes=MIB, process_limit=3)))
    assert box.enforced == {"memory_bytes": False, "process_limit": True}


@pytest.mark.parametrize("name", ["..", ".", "", "a/b", "../../x", "x" * 300, "ü\0n", "a\\b"])
def test_id_cannot_leave_the_subtree(tmp_path: Path, name: str) -> None:
    box = Cgroup("one", name, Hierarchies({"pids": tmp_path}, None))
    asyncio.run(box.apply(Limits(process_limit=3)))
    made = [path for path in tmp_path.rglob("*") if path.is_dir()]
    assert len(made) == 3
    assert made[-1].parent == tmp_path / "hcs-emulator" / "one"
    asyncio.run(box.remove())
    assert list(tmp_path.iterdir()) == []


def test_hierarchies_are_read_from_mounts_and_membership(tmp_path: Path) -> None:
    (tmp_path / "memory" / "mine").mkdir(parents=True)
    (tmp_path / "cpu").mkdir()
    mounts, membership = tmp_path / "mounts", tmp_path / "cgroup"
    mounts.write_text(
        f"cgroup {tmp_path}/memory cgroup rw,relatime,memory 0 0\n"
        f"cgroup {tmp_path}/cpu cgroup rw,relatime,cpu,cpuacct 0 0\n"
        f"cgroup2 {tmp_path}/unified cgroup2 rw,relatime 0 0\n"
    )
    membership.write_text("4:memory:/mine\n2:cpu,cpuacct:/not/visible\n0::/\n")
    found = Hierarchies.of_host(str(mounts), str(membership))
    assert found.bases == {"memory": tmp_path / "memory" / "mine", "cpu": tmp_path / "cpu"}
    assert found.unified == tmp_path / "unified"


def test_stale_groups_of_a_crashed_service_are_removed(tmp_path: Path) -> None:
    for name in ("one/box/frozen", "one-vm1/box", "two/box"):
        (tmp_path / "hcs-emulator" / name).mkdir(parents=True)
    cgroup.remove_stale("one", Hierarchies({"memory": tmp_path}, None))
    assert [path.name for path in (tmp_path / "hcs-emulator").iterdir()] == ["two"]


def test_subtree_that_another_instance_removes_meanwhile_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    subtree = tmp_path / "hcs-emulator"
    subtree.mkdir()
    scan = os.scandir

    def scandir(path: Any) -> Any:
        if os.fspath(path) == str(subtree) and subtree.exists():
            subtree.rmdir()
        return scan(path)

    monkeypatch.setattr(os, "scandir", scandir)
    cgroup.remove_stale("one", Hierarchies({"memory": tmp_path}, None))
    assert not subtree.exists()


@pytest.mark.parametrize(
    ("limits", "share"),
    [
        (Limits(cpu_count=1), 1.0),
        (Limits(cpu_maximum=10_000), None),
        (Limits(cpu_maximum=1), 0.01),
        (Limits(cpu_weight=50), -0.00001),
    ],
)
def test_processor_quota_is_the_smaller_limit(limits: Limits, share: float | None) -> None:
    import os

    expected = share if share is not None else float(os.cpu_count() or 1)
    assert limits.cpu_quota() == int(expected * 100_000)

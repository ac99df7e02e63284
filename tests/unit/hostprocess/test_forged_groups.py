"""`delete` kills the control groups that a ledger lists for a job, and no others."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from shim.platform.linux import job_cgroups


@pytest.mark.parametrize(
    "name", ["system.slice", "runhcs-jobs", "runhcs-jobs/machine", "runhcs-jobs/machine/c1/..", "runhcs-jobs/../a/b"]
)
def test_group_that_is_not_of_a_job_is_not_killed(tmp_path: Path, name: str) -> None:
    group = tmp_path / "cgroup" / name
    group.mkdir(parents=True, exist_ok=True)
    (group / "cgroup.kill").write_text("")
    with pytest.raises(OSError, match="not a cgroup of a job"):
        job_cgroups.kill_and_remove(["", f"{tmp_path}/cgroup/{name}"], time.monotonic() + 60)
    assert (group / "cgroup.kill").read_text() == ""


@pytest.mark.parametrize("path", ["/", "relative/runhcs-jobs/machine/c1", "/sys/fs/cgroup"])
def test_path_that_is_not_of_a_job_is_refused(path: str) -> None:
    with pytest.raises(OSError, match="not a cgroup of a job"):
        job_cgroups.kill_and_remove([path], time.monotonic() + 60)


def test_groups_of_a_job_are_accepted() -> None:
    job_cgroups.kill_and_remove(["", *job_cgroups.Groups("c1-none").paths()], time.monotonic() + 60)


def test_parents_are_removed_if_the_shim_was_killed_before_it_did(tmp_path: Path) -> None:
    """An rmdir of a cgroup is one of an empty directory."""
    killed, busy = tmp_path / "runhcs-jobs" / "killed", tmp_path / "runhcs-jobs" / "busy"
    killed.mkdir(parents=True)
    (busy / "c2").mkdir(parents=True)
    job_cgroups.kill_and_remove([f"{killed}/c1"], time.monotonic() + 60)
    assert not killed.exists() and (busy / "c2").exists()
    (busy / "c2").rmdir()
    job_cgroups.kill_and_remove([f"{busy}/c1"], time.monotonic() + 60)
    assert list(tmp_path.iterdir()) == []


def test_group_is_created_although_its_parent_is_removed_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_directory = os.mkdir

    def remove_parent_first(path: str, mode: int = 0o777) -> None:
        """As the end of another job, once, between the creation of the parent and that of the group."""
        if path.endswith("/c1"):
            monkeypatch.undo()
            job_cgroups.kill_and_remove([f"{Path(path).parent}/other"], time.monotonic() + 60)
        make_directory(path, mode)

    base = tmp_path / "pids"
    base.mkdir()
    monkeypatch.setenv("HCS_EMULATOR_DIR", "/tmp/none")
    monkeypatch.setattr(job_cgroups, "_hierarchies", lambda: ({"pids": str(base)}, ""))
    groups = job_cgroups.Groups("c1")
    monkeypatch.setattr(os, "mkdir", remove_parent_first)
    groups.add(os.getpid())
    assert [Path(path).is_dir() for path in groups.paths()] == [True]

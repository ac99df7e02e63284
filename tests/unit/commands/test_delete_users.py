"""`delete` and the users of host process containers, on a platform that creates some."""

from __future__ import annotations

from pathlib import Path

import pytest

from shim.commands import Flags, delete
from shim.platform import admin_events, daemon, files, jobs
from shim.platform.job_types import JobError


@pytest.fixture
def flags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Flags:
    monkeypatch.setattr(daemon, "CREATES_USERS", True)
    monkeypatch.setattr(files, "write_stdout", lambda data: None)
    flags = Flags()
    flags.namespace, flags.id, flags.bundle = "k8s.io", "c1", str(tmp_path)
    flags.address, flags.publish_binary = "/run/containerd/containerd.sock", "containerd"
    return flags


def test_delete_without_ledger_removes_the_user(flags: Flags, monkeypatch: pytest.MonkeyPatch) -> None:
    removed: list[str] = []
    monkeypatch.setattr(jobs, "remove_container_user", removed.append)
    assert delete.run(flags) == 0
    assert removed == ["c1"]


def test_delete_prints_and_reports_a_user_that_cannot_be_removed(
    flags: Flags, monkeypatch: pytest.MonkeyPatch
) -> None:
    printed: list[bytes] = []
    reported: list[tuple[int, str]] = []

    def refuse(id: str) -> None:
        raise JobError(5, "user 'c1' cannot be removed (NetUserDel returns 5)")

    monkeypatch.setattr(jobs, "remove_container_user", refuse)
    monkeypatch.setattr(files, "write_stderr", printed.append)
    monkeypatch.setattr(admin_events, "report", lambda event, message: reported.append((event, message)))
    assert delete.run(flags) == 0
    assert printed == [b"user 'c1' cannot be removed (NetUserDel returns 5)\n"]
    assert reported == [(admin_events.RESOURCES_LEAKED, f"c1: {printed[0].decode().strip()}")]

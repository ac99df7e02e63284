"""Removing directories of containers, as os.RemoveAll of Go does for Microsoft's agent."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from hcs_emulator.vm.linux.agent import mounts
from hcs_emulator.vm.linux.agent.errors import GuestError


def test_remove_tree_removes_the_content_of_mounts_and_fails_as_busy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside = tmp_path / "bundle" / "mounts" / "m0"
    inside.mkdir(parents=True)
    (inside / "file").touch()
    (tmp_path / "bundle" / "other").touch()
    remove = os.rmdir

    def rmdir(path: str) -> None:
        if path == str(inside):
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
        remove(path)

    monkeypatch.setattr(mounts.os, "rmdir", rmdir)
    with pytest.raises(GuestError, match=f"unlinkat {inside}: device or resource busy"):
        mounts.remove_tree(str(tmp_path / "bundle"))
    assert [path.name for path in (tmp_path / "bundle").rglob("*")] == ["mounts", "m0"]


def test_remove_tree_does_not_follow_symlinks(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "kept").touch()
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "link").symlink_to(tmp_path / "outside")
    mounts.remove_tree(str(tmp_path / "tree"))
    mounts.remove_tree(str(tmp_path / "missing"))
    assert (tmp_path / "outside" / "kept").exists() and not (tmp_path / "tree").exists()

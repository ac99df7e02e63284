"""Removing directories of containers must never remove what is mounted in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from hcs_emulator.vm.linux.agent import mounts
from hcs_emulator.vm.linux.agent.errors import GuestError


def test_remove_tree_with_a_mount_keeps_its_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inside = tmp_path / "bundle" / "mounts" / "m0"
    inside.mkdir(parents=True)
    (inside / "kept").touch()
    (tmp_path / "bundle" / "gone").touch()
    monkeypatch.setattr(mounts, "points", lambda: ["/", str(inside)])
    with pytest.raises(GuestError, match=f"unlinkat {inside}: device or resource busy"):
        mounts.remove_tree(str(tmp_path / "bundle"))
    assert (inside / "kept").exists() and not (tmp_path / "bundle" / "gone").exists()


def test_remove_tree_does_not_follow_symlinks(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "kept").touch()
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "link").symlink_to(tmp_path / "outside")
    mounts.remove_tree(str(tmp_path / "tree"))
    mounts.remove_tree(str(tmp_path / "missing"))
    assert (tmp_path / "outside" / "kept").exists() and not (tmp_path / "tree").exists()

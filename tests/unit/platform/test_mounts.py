"""Mounting through libc."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from shim.platform.linux import mounts

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")


def test_mount_options_become_flags_and_data() -> None:
    options = ["rbind", "ro", "rw", "nosuid", "rslave", "size=1m", "mode=700", "defaults"]
    flags, propagation, data = mounts.parse_options(options)
    assert flags == mounts.MS_BIND | mounts.MS_REC | mounts.MS_NOSUID
    assert propagation == mounts.MS_SLAVE | mounts.MS_REC
    assert data == "size=1m,mode=700"


@needs_root
def test_read_only_bind_mount_rejects_writes(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    target.mkdir()
    (source / "file").write_text("x")
    mounts.mount(str(source), str(target), "bind", ["rbind", "ro"])
    try:
        assert (target / "file").read_text() == "x"
        with pytest.raises(OSError) as caught:
            (target / "other").write_text("y")
        assert caught.value.errno == errno.EROFS
    finally:
        assert mounts.unmount(str(target)) is True
    assert list(target.iterdir()) == []
    assert mounts.unmount(str(target)) is False, "nothing is mounted there any more"


@needs_root
def test_overlay_shows_all_layers(tmp_path: Path) -> None:
    for name in ("lower", "upper", "work", "target"):
        (tmp_path / name).mkdir()
    (tmp_path / "lower" / "below").write_text("1")
    options = [f"lowerdir={tmp_path}/lower", f"upperdir={tmp_path}/upper", f"workdir={tmp_path}/work"]
    mounts.mount("overlay", str(tmp_path / "target"), "overlay", options)
    try:
        (tmp_path / "target" / "above").write_text("2")
        assert (tmp_path / "target" / "below").read_text() == "1"
    finally:
        mounts.unmount(str(tmp_path / "target"), detach=True)
    assert (tmp_path / "upper" / "above").read_text() == "2"


@needs_root
def test_busy_mount_needs_detach(tmp_path: Path) -> None:
    mounts.mount("tmpfs", str(tmp_path), "tmpfs", ["size=1m"])
    try:
        with (tmp_path / "held").open("w"):
            with pytest.raises(OSError, match="detach") as caught:
                mounts.unmount(str(tmp_path))
            assert caught.value.errno == errno.EBUSY
            assert mounts.unmount(str(tmp_path), detach=True)
    finally:
        mounts.unmount(str(tmp_path), detach=True)


@needs_root
def test_failed_mount_error_has_next_step(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="check that source and target exist") as caught:
        mounts.mount(str(tmp_path / "missing"), str(tmp_path), "bind", ["bind"])
    assert caught.value.errno == errno.ENOENT
    with pytest.raises(OSError, match="does not know the file system"):
        mounts.mount("x", str(tmp_path), "nosuchfs")

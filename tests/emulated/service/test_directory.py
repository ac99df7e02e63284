"""The emulator's directory: one that another user controls is refused, and none is changed that is not its own."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from hcs_emulator.service.directory import DirectoryError, prepare
from hcs_emulator.service.run import BAD_DIRECTORY

# As any program that uses the library: it starts the service on demand.
CALL = "from shim.hcs_bindings import service; print(service.properties())"


def shared(path: Path) -> Path:
    path.mkdir()
    path.chmod(0o1777)
    return path


def foreign(path: Path) -> Path:
    path.mkdir(mode=0o700)
    os.chown(path, 65534, 65534)
    return path


def linked(path: Path) -> Path:
    (path.parent / "target").mkdir()
    path.symlink_to(path.parent / "target")
    return path


@pytest.fixture(params=[shared, foreign, linked])
def directory(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    make: Callable[[Path], Path] = request.param
    return make(tmp_path / "d")


def test_service_refuses_directory_of_others_and_leaves_it(directory: Path) -> None:
    before = directory.stat()
    command = [sys.executable, "-m", "hcs_emulator.service", "--directory", str(directory)]
    result = subprocess.run(command, capture_output=True, timeout=60, check=False)
    assert result.returncode == BAD_DIRECTORY and b"HCS_EMULATOR_DIR" in result.stderr
    assert (directory.stat().st_mode, list(directory.iterdir())) == (before.st_mode, [])


def test_library_refuses_directory_of_others_and_leaves_it(directory: Path) -> None:
    env = os.environ | {"HCS_EMULATOR_DIR": str(directory)}
    result = subprocess.run([sys.executable, "-c", CALL], env=env, capture_output=True, timeout=60, check=False)
    assert result.returncode and b"HCS_EMULATOR_DIR" in result.stderr, result.stderr
    assert list(directory.iterdir()) == []


def test_command_refuses_directory_of_others_and_leaves_it(directory: Path) -> None:
    command = [sys.executable, "-m", "runhcs", "emulator", "--directory", str(directory), "start"]
    result = subprocess.run(command, capture_output=True, timeout=60, check=False)
    assert result.returncode and b"HCS_EMULATOR_DIR" in result.stderr, result.stderr
    assert list(directory.iterdir()) == []


def test_new_directory_is_private(tmp_path: Path) -> None:
    assert prepare(str(tmp_path / "a" / "b")) == str(tmp_path / "a" / "b")
    assert stat.S_IMODE((tmp_path / "a" / "b").stat().st_mode) == 0o700


def test_empty_directory_becomes_private(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir(mode=0o755)
    prepare(str(tmp_path / "d"))
    assert stat.S_IMODE((tmp_path / "d").stat().st_mode) == 0o700


def test_directory_with_other_content_is_not_changed(tmp_path: Path) -> None:
    """It may be /run."""
    (tmp_path / "d").mkdir(mode=0o755)
    (tmp_path / "d" / "passwd").touch()
    prepare(str(tmp_path / "d"))
    assert stat.S_IMODE((tmp_path / "d").stat().st_mode) == 0o755


@pytest.mark.parametrize("name", ["service.log", "start.lock", "hcs.sock.lock"])
def test_links_in_directory_are_not_followed(tmp_path: Path, name: str) -> None:
    directory = tmp_path / "d"
    directory.mkdir(mode=0o700)
    (directory / name).symlink_to(tmp_path / "elsewhere")
    env = os.environ | {"HCS_EMULATOR_DIR": str(directory)}
    result = subprocess.run([sys.executable, "-c", CALL], env=env, capture_output=True, timeout=60, check=False)
    assert result.returncode and not (tmp_path / "elsewhere").exists()


def test_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "d").touch()
    with pytest.raises((DirectoryError, OSError)):
        prepare(str(tmp_path / "d"))

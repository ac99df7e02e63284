"""`shim.platform.host`, which does without `os`, returns what `os` returns."""

from __future__ import annotations

import os
import termios
from pathlib import Path

import pytest

from shim.platform import host
from shim.platform.linux import pump


def test_make_directories_creates_parents(tmp_path: Path) -> None:
    deep = tmp_path / "a" / "b" / "c"
    host.make_directories(str(deep), 0o711)
    assert deep.is_dir() and deep.stat().st_mode & 0o777 == 0o711
    assert deep.parent.stat().st_mode & 0o777 == 0o755
    host.make_directories(str(deep))  # there already
    host.make_directories(f"{deep}/d/")
    assert (deep / "d").is_dir()
    assert host.exists(str(deep)) and host.is_directory(str(deep))


def test_file_is_not_a_directory(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    assert host.exists(str(file)) and not host.is_directory(str(file))
    with pytest.raises(FileExistsError):
        host.make_directories(str(file))
    with pytest.raises(NotADirectoryError):
        host.make_directories(f"{file}/below")


def test_missing_path_does_not_exist(tmp_path: Path) -> None:
    for path in (f"{tmp_path}/none", "", "with\0zero"):
        assert not host.exists(path) and not host.is_directory(path)
    with pytest.raises(FileNotFoundError):
        host.make_directories("")


def test_final_path_resolves_links(tmp_path: Path) -> None:
    (tmp_path / "real" / "inner").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "real" / "loop").symlink_to("loop")
    for path in ("link/inner", "real/../link/./inner/", "link"):
        assert host.final_path(f"{tmp_path}/{path}") == os.path.realpath(tmp_path / path)
    for path, error in (("none", FileNotFoundError), ("link/loop", OSError), ("real/inner/x", FileNotFoundError)):
        with pytest.raises(error) as caught:
            host.final_path(f"{tmp_path}/{path}")
        assert host.reason(caught.value) == os.strerror(caught.value.errno or 0)


def test_absolute_paths() -> None:
    assert host.is_absolute("/a") and not host.is_absolute("a/b") and not host.is_absolute("")


def test_host_properties() -> None:
    assert host.processors() == os.cpu_count()
    assert len(host.random(16)) == 16 and host.random(16) != host.random(16)
    assert pump.FIONREAD == termios.FIONREAD


@pytest.mark.parametrize(
    ("argv", "executable", "path"),
    [
        ("-c", "/programs/shim.exe", "/programs/device-util.exe"),
        ("/install/shim.bin", "/usr/bin/python3", "/install/device-util.exe"),
    ],
)
def test_file_beside_program(monkeypatch: pytest.MonkeyPatch, argv: str, executable: str, path: str) -> None:
    """The daemon of the Windows distribution has `-c` as argv[0]."""
    monkeypatch.setattr("sys.argv", [argv])
    monkeypatch.setattr("sys.executable", executable)
    assert host.beside_program("device-util.exe") == path

"""Directories and links below a directory that somebody else has filled: links in it are not followed."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from shim.platform import jobs


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root").mkdir()
    (tmp_path / "elsewhere").mkdir()
    return tmp_path / "root"


def test_directories_and_link_are_created(root: Path) -> None:
    jobs.make_directory_below(str(root), ["a", "b"])
    jobs.make_directory_below(str(root), ["a", "b", "c"])
    jobs.make_directory_below(str(root), [])
    jobs.link_below("/target", str(root), ["a", "b", "link"])
    assert (root / "a" / "b" / "c").is_dir() and os.readlink(root / "a" / "b" / "link") == "/target"
    with pytest.raises(FileExistsError):
        jobs.link_below("/target", str(root), ["a", "b", "link"])


@pytest.mark.parametrize("target", ["elsewhere", "missing", "/", "root/real"])
@pytest.mark.parametrize("parts", [["link", "x"], ["real", "link", "x"], ["link"]])
def test_link_on_the_way_is_not_followed(root: Path, target: str, parts: list[str]) -> None:
    (root / "real").mkdir()
    for place in (root, root / "real"):
        (place / "link").symlink_to(root.parent / target)
    with pytest.raises(NotADirectoryError):
        jobs.make_directory_below(str(root), parts)
    with pytest.raises((NotADirectoryError, FileExistsError)):
        jobs.link_below("/target", str(root), parts)
    assert list((root.parent / "elsewhere").iterdir()) == [] and not (root.parent / "missing").exists()


def test_no_descriptor_is_leaked(root: Path) -> None:
    (root / "link").symlink_to("/")
    before = len(os.listdir("/proc/self/fd"))
    for parts in (["a", "b"], ["link", "x"], ["a", "b", "c"]):
        try:
            jobs.make_directory_below(str(root), parts)
        except NotADirectoryError:
            pass
    assert len(os.listdir("/proc/self/fd")) == before


class Windows:
    """CreateFile, mkdir and lstat as Windows has them; `links` are reparse points."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made: list[str] = []
        self.open: dict[int, str] = {}
        self.opened = 0
        self.links: set[str] = set()
        winapi: Any = ModuleType("_winapi")
        winapi.CreateFile, winapi.CloseHandle = self._create_file, self.open.pop
        nt: Any = ModuleType("nt")
        nt.__getattr__ = lambda name: 0
        monkeypatch.setitem(sys.modules, "_winapi", winapi)
        monkeypatch.setitem(sys.modules, "nt", nt)
        import shim.platform.windows as package

        before = set(sys.modules)
        from shim.platform.windows import mount_points

        self.mount_points = mount_points
        self._package, self._added = package, [name for name in sys.modules if name not in before]
        system = SimpleNamespace(
            mkdir=self.made.append, lstat=self._lstat, symlink=self._symlink, path=SimpleNamespace(isdir=lambda _: True)
        )
        monkeypatch.setattr(mount_points, "os", system)
        monkeypatch.setattr(mount_points, "native", lambda path: path)
        self.linked: list[tuple[str, str]] = []

    def forget(self) -> None:
        """The modules were imported with fakes: nothing else may use them."""
        for name in self._added:
            del sys.modules[name]
            if hasattr(self._package, name.rpartition(".")[2]):
                delattr(self._package, name.rpartition(".")[2])

    def _create_file(self, path: str, access: int, share: int, *_: Any) -> int:
        assert access == 1 and not share & 4, "a directory that is held must not be renamed or removed"
        self.opened += 1
        self.open[self.opened] = path
        return self.opened

    def _lstat(self, path: str) -> Any:
        assert path in self.open.values(), "checked before it is held"
        return SimpleNamespace(st_file_attributes=0x10 | (0x400 if path in self.links else 0))

    def _symlink(self, target: str, path: str, target_is_directory: bool) -> None:
        assert self.open, "the directories are not held any more"
        self.linked.append((target, path))


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch) -> Iterator[Windows]:
    windows = Windows(monkeypatch)
    yield windows
    windows.forget()


def test_windows_holds_and_checks_each_directory(windows: Windows) -> None:
    windows.mount_points.link_below("D:\\t", "C:\\hpc\\", ["a", "b", "link"])
    assert windows.made == ["C:\\hpc\\a", "C:\\hpc\\a\\b"] and windows.linked == [("D:\\t", "C:\\hpc\\a\\b\\link")]
    assert windows.opened == 2 and windows.open == {}


def test_windows_refuses_reparse_point_on_the_way(windows: Windows) -> None:
    windows.links = {"C:\\hpc\\a"}
    with pytest.raises(NotADirectoryError):
        windows.mount_points.link_below("D:\\t", "C:\\hpc\\", ["a", "b", "link"])
    with pytest.raises(NotADirectoryError):
        windows.mount_points.make_directory_below("C:\\hpc\\", ["a", "b"])
    assert windows.made == ["C:\\hpc\\a"] * 2 and windows.linked == [] and windows.open == {}

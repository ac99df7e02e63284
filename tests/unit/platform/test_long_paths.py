"""Paths of more than 260 characters: every system call gets the path with the prefix of Windows.

Windows refuses longer paths without it, unless the node's policy allows them; Wine does not. Here the file functions
refuse them, on Linux, where the prefix stands for nothing.
"""

from __future__ import annotations

import builtins
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from shim.container import image_version, ledger
from shim.platform import files, host
from shim.task import exit_record
from shim.uvm.windows import boot_files

MAX_PATH = 260
PREFIX = "\\\\?\\"


def native(path: str) -> str:
    """As shim/platform/windows/files.py: a prefix for long paths."""
    return path if path.startswith(PREFIX) or len(path) < 240 else PREFIX + path


def strict(function: Any) -> Any:
    """The function, as Windows has it for a program without long paths."""

    def call(*arguments: Any, **options: Any) -> Any:
        paths = []
        for argument in arguments:
            if isinstance(argument, str) and len(argument) >= MAX_PATH and not argument.startswith(PREFIX):
                raise FileNotFoundError(2, "The system cannot find the path specified", argument)
            paths.append(argument.removeprefix(PREFIX) if isinstance(argument, str) else argument)
        return function(*paths, **options)

    return call


class StrictSystem:
    """The module `nt`, or `posix`, with strict functions."""

    def __getattr__(self, name: str) -> Any:
        return strict(getattr(os, name))


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A directory with a path of 300 characters, and a system that refuses it without the prefix."""
    deep = tmp_path.joinpath(*["d" * 60] * 4, "e" * max(1, 300 - len(str(tmp_path)) - 250))
    deep.mkdir(parents=True)
    monkeypatch.setattr(files, "native", native)
    monkeypatch.setattr(host, "system", StrictSystem())
    for module in (ledger, image_version, exit_record, boot_files):
        monkeypatch.setattr(module, "open", strict(builtins.open), raising=False)
    monkeypatch.setattr(boot_files, "os", StrictOs())
    assert len(str(deep)) > 280
    return str(deep)


class StrictOs:
    path = os.path
    replace = staticmethod(strict(os.replace))


def test_strict_functions_refuse_long_paths(root: str) -> None:
    with pytest.raises(FileNotFoundError):
        strict(os.stat)(root)
    strict(os.stat)(PREFIX + root)


def test_directories_with_long_paths(root: str) -> None:
    assert host.exists(root) and host.is_directory(root)
    host.make_directories(f"{root}/a/b")
    assert os.path.isdir(f"{root}/a/b")


def test_exit_record_with_long_path(root: str) -> None:
    exit_record.write(root, 3, 5, 7, 11)
    assert exit_record.read(root) == (3, 5, 7, 11)


def test_ledger_with_long_path(root: str) -> None:
    book = ledger.Ledger(root)
    book.enter("layer", path=root)
    entries, _ = ledger.read_entries(root)
    assert [entry.kind for entry in entries] == ["layer"]


def test_image_version_with_long_path(root: str) -> None:
    path = f"{root}/version"
    Path(path).write_text("10.0.20348.1")
    assert image_version._from_version_file(path) == 20348


def test_boot_files_with_long_path(root: str) -> None:
    for name in ("Files", "SystemTemplate.vhdx"):
        path = Path(root, boot_files.UTILITY_VM, name)
        path.parent.mkdir(exist_ok=True)
        path.write_text("disk") if "." in name else path.mkdir()
    found = boot_files.find([root], f"{root}/scratch")
    found.prepare()
    assert Path(found.scratch).read_text() == "disk"


@pytest.fixture
def windows_files(root: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """shim/platform/windows/files.py on strict functions: every file of a bundle is read and written through it."""

    class Nt(ModuleType):
        O_BINARY = O_NOINHERIT = 0
        _getfullpathname = staticmethod(lambda path: path)

        def __getattr__(self, name: str) -> Any:
            function = getattr(os, name)
            return strict(function) if callable(function) else function

    def create_file(path: str, *_: int) -> int:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)

    winapi: Any = ModuleType("_winapi")
    winapi.CreateFile, winapi.CloseHandle = strict(create_file), os.close
    monkeypatch.setitem(sys.modules, "_winapi", winapi)
    monkeypatch.setitem(sys.modules, "nt", Nt("nt"))
    monkeypatch.delitem(sys.modules, "shim.platform.windows.files", raising=False)
    import shim.platform.windows as package
    from shim.platform.windows import files as loaded

    yield loaded
    sys.modules.pop("shim.platform.windows.files", None)
    del package.files


def test_files_of_a_bundle_with_long_path(root: str, windows_files: Any) -> None:
    bundle = f"{root}/bundle"
    windows_files.make_directory(bundle)
    windows_files.make_directory(bundle)
    for name in ("config.json", "address", "shim.pid"):
        windows_files.write_atomic(f"{bundle}/{name}", name.encode())
        assert windows_files.read(f"{bundle}/{name}", 100) == name.encode()
    windows_files.close(windows_files.create(f"{bundle}/panic.log"))
    assert windows_files.size(f"{bundle}/address") == len("address")
    assert sorted(windows_files.listing(bundle)) == ["address", "config.json", "panic.log", "shim.pid"]
    windows_files.remove(f"{bundle}/panic.log")
    assert not os.path.exists(f"{bundle}/panic.log")

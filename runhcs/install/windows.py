"""The files of the zip on a Windows node: two programs, their folder, and the licence.

The calls into Windows are in `windows_system`; this module runs on Linux as well, for the tests.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from runhcs.install import options
from runhcs.install.files import version_name as name_of_version
from runhcs.install.interfaces import InstallError, System
from runhcs.installation import LIBRARY, NAME

PROGRAM = f"{NAME}.exe"
TOOL = "runhcs.exe"
# What the zip contains beside its two programs and their folder.
DOCUMENTS = ("LICENSE*", "NOTICE*", "licenses/*", "*.cdx.json")
CONFIG = r"C:\Program Files\containerd\config.toml"


def configure(parser: argparse.ArgumentParser) -> None:
    programs = os.environ.get("ProgramFiles", r"C:\Program Files")  # noqa: SIM112  # Windows' own spelling
    options.configure(parser, rf"{programs}\{LIBRARY}", CONFIG, default_directory=True)


def run(args: argparse.Namespace, system: System, source: Path | None = None) -> int:
    return options.run(args, system, WindowsLayout(), source or Path(sys.executable).resolve().parent)


def files_of(source: Path) -> list[Path]:
    """The files of the zip below this directory, by relative path. Other files, such as containerd's, are ignored."""
    folder = source / LIBRARY
    found = {path for path in folder.rglob("*") if path.is_file()}
    found |= {path for pattern in DOCUMENTS for path in source.glob(pattern) if path.is_file()}
    found |= {source / name for name in (PROGRAM, TOOL)}
    return sorted(path.relative_to(source) for path in found)


def version_name(source: Path) -> str:
    return name_of_version(source, files_of(source))


class WindowsLayout:
    wrapper = "runhcs.cmd"
    emulator = False

    def check_source(self, source: Path) -> None:
        if not (source / PROGRAM).is_file() or not (source / LIBRARY).is_dir():
            raise InstallError(f"{source} does not contain {PROGRAM} and its folder: run runhcs.exe of the zip")

    def files(self, source: Path) -> list[Path]:
        return files_of(source)

    def program(self, version: Path) -> Path:
        return version / PROGRAM

    def tool(self, version: Path) -> list[str]:
        return [str(version / TOOL)]

    def wrapper_text(self, version: Path) -> str:
        return f'@"%~dp0versions\\{version.name}\\{TOOL}" %*\r\n'

    def finish(self, version: Path) -> None:
        """The programs work in any directory."""

    def is_damaged(self, version: Path) -> bool:
        """Also if files were added: a DLL beside a program is loaded by it."""
        found = {path.relative_to(version) for path in version.rglob("*") if path.is_file()}
        is_whole = (version / PROGRAM).is_file() and found == {*files_of(version)}
        return not is_whole or version_name(version) != version.name

    def used_file(self, version: Path) -> Path:
        return version / LIBRARY / "lib" / "modules.bin"

"""The C compilers of the Windows launchers, by architecture: MinGW for amd64, Zig for arm64.

Debian has no MinGW for arm64. Zig is a C compiler (Clang) with the headers and import libraries of MinGW for every
architecture, and the package index has it (scripts/windows_packages.py).
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

FLAGS = ["-std=c11", "-Os", "-s", "-Wall", "-Wextra", "-Werror", "-municode", "-D__USE_MINGW_ANSI_STDIO=1"]


class BuildError(Exception):
    """A launcher cannot be built. The message has the next step."""


class Mingw:
    """GCC and binutils for amd64, from the distribution."""

    PREFIX = "x86_64-w64-mingw32"
    # Two builds give the same bytes.
    FLAGS = (*FLAGS, "-Wl,--no-insert-timestamp")

    def __init__(self) -> None:
        if shutil.which(f"{self.PREFIX}-gcc") is None or shutil.which(f"{self.PREFIX}-windres") is None:
            raise BuildError(f"no {self.PREFIX}-gcc and {self.PREFIX}-windres: install gcc-mingw-w64-x86-64")

    def compile_resources(self, script: Path, include: Path) -> Path:
        output = script.with_suffix(".o")
        _run([f"{self.PREFIX}-windres", f"-I{include}", str(script), str(output)])
        return output

    def compile_program(self, arguments: list[str]) -> None:
        _run([f"{self.PREFIX}-gcc", *self.FLAGS, *arguments])


class Zig:
    """For arm64. The linker derives the timestamp from the content."""

    FLAGS = ("-target", "aarch64-windows-gnu", *FLAGS)

    def __init__(self, program: Path, cache: Path) -> None:
        """`cache`: where Zig keeps the libraries that it compiles."""
        self._program = str(program)
        self._environment = {**os.environ, "ZIG_GLOBAL_CACHE_DIR": str(cache), "ZIG_LOCAL_CACHE_DIR": str(cache)}

    def compile_resources(self, script: Path, include: Path) -> Path:
        output = script.with_suffix(".res")
        options = ["/:auto-includes", "gnu", f"/i{include}", "/fo", str(output)]
        _run([self._program, "rc", *options, "--", str(script)], self._environment)
        return output

    def compile_program(self, arguments: list[str]) -> None:
        _run([self._program, "cc", *self.FLAGS, *arguments], self._environment)


Compiler = Mingw | Zig


def _run(command: list[str], environment: dict[str, str] | None = None) -> None:
    try:
        subprocess.run(command, env=environment, check=True)
    except (subprocess.CalledProcessError, OSError) as error:
        raise BuildError(f"a launcher cannot be compiled: {error}") from error

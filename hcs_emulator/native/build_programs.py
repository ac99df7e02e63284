"""Builds the two programs that silos run: `silo`, pid 1 of a compute system, and `cmd`, the stand-in Windows commands.

Both are static: they run inside root file systems that hold nothing of the host. Compiled only when a source is newer.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

SOURCES = Path(__file__).resolve().parent
BUILD = SOURCES / "build"
_FLAGS = ["-static", "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-Wshadow", "-Wvla"]
# What each program is made of; silo_path.c knows Windows' names for both.
_PROGRAMS = {"silo": ["silo*.c"], "cmd": ["cmd*.c", "silo_path.c"]}


def build_programs(directory: Path = BUILD, compiler: str | None = None) -> None:
    """Bring both programs up to date in `directory`."""
    directory.mkdir(parents=True, exist_ok=True)
    headers = [*SOURCES.glob("silo*.h"), *SOURCES.glob("cmd*.h")]
    for name, patterns in _PROGRAMS.items():
        sources = sorted(source for pattern in patterns for source in SOURCES.glob(pattern))
        program = directory / name
        newest = max(path.stat().st_mtime for path in [*sources, *headers])
        if program.exists() and program.stat().st_mtime >= newest:
            continue
        # Renamed into place, so that a service that is running never meets half a program.
        unfinished = directory / f"{name}.{os.getpid()}"
        command = [compiler or os.environ.get("CC", "cc"), *_FLAGS, "-o", str(unfinished), *map(str, sources)]
        subprocess.run(command, check=True)
        unfinished.rename(program)


if __name__ == "__main__":
    build_programs()

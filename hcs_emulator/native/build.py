"""Building the native library with the machine's C compiler.

The output directory gets `libcomputecore.so`, which stands in for all of Windows' HCS DLLs, the emulator's C programs,
and the script by which the library starts the service when nothing listens.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

from hcs_emulator.native.build_programs import build_programs

SOURCES = Path(__file__).parent
PROGRAMS = ("silo", "cmd")  # what their sources begin with; not part of the library
WARNINGS = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-Wshadow", "-Wvla"]
LIBRARY_FLAGS = ["-fPIC", "-shared", "-pthread", "-fvisibility=hidden", "-Wl,-z,nodelete", "-Wl,-z,defs"]


def library_sources() -> list[Path]:
    windows = ("_windows", "wine_run")  # build_windows.py has use for them
    return sorted(
        path for path in SOURCES.glob("*.c") if not path.name.startswith(PROGRAMS) and not path.stem.endswith(windows)
    )


def run_compiler(arguments: list[str], output: Path) -> None:
    """Compile into output, which appears whole or not at all: other processes may be using the old one."""
    compiler = shlex.split(os.environ.get("CC", "cc"))
    temporary = output.with_name(f".{output.name}.{os.getpid()}")
    try:
        subprocess.run([*compiler, *arguments, "-o", str(temporary)], check=True)
        temporary.replace(output)
    finally:
        temporary.unlink(missing_ok=True)


def build_library(output: Path, extra: list[str] | None = None) -> Path:
    sources = [str(path) for path in library_sources()]
    run_compiler([*WARNINGS, "-O2", "-g", *LIBRARY_FLAGS, *(extra or []), *sources, "-ldl"], output)
    return output


def write_launcher(output: Path) -> Path:
    root = SOURCES.parents[1]
    temporary = output.with_name(f".{output.name}.{os.getpid()}")
    temporary.write_text(
        "#!/bin/sh\n# Starts the HCS emulator's service; libcomputecore.so runs it when nothing listens.\n"
        f"PYTHONPATH={shlex.quote(str(root))} exec {shlex.quote(sys.executable)} -P -m hcs_emulator.service \"$@\"\n"
    )
    temporary.chmod(0o755)
    return temporary.replace(output)


def build(output_dir: Path = SOURCES / "build") -> list[Path]:
    """Build what is older than its sources; give all that was wanted."""
    output_dir.mkdir(parents=True, exist_ok=True)
    library = output_dir / "libcomputecore.so"
    headers = [path for path in SOURCES.glob("*.h") if not path.name.startswith(PROGRAMS)]
    inputs = [*library_sources(), *headers, *SOURCES.glob("*.def"), Path(__file__)]
    if not library.exists() or library.stat().st_mtime < max(path.stat().st_mtime for path in inputs):
        build_library(library)
    build_programs(output_dir)
    programs = [output_dir / name for name in PROGRAMS]
    return [library, *programs, write_launcher(output_dir / "hcs-emulator-service")]

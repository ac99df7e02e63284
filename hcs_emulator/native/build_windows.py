"""Building the native library for Windows, with mingw: the DLLs that stand in for HCS's own.

`computecore.dll` is the library; the others only forward to it, so that all share one connection and one table of
handles, whichever of them a program loads first. They belong into System32, where programs look for them.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

SOURCES = Path(__file__).parent
PROGRAMS = ("silo", "cmd", "wine_run")
COMPILER = "x86_64-w64-mingw32-gcc"
WARNINGS = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-Wshadow", "-Wvla"]
FLAGS = ["-O2", "-s", "-shared", "-static-libgcc", "-Wl,--no-insert-timestamp"]
FLAGS += ["-include", str(SOURCES / "memory_windows.h")]
FORWARDERS = ("vmcompute", "computestorage", "computenetwork", "cimfs")


def sources() -> list[Path]:
    return sorted(
        path for path in SOURCES.glob("*.c") if not path.name.startswith(PROGRAMS) and not path.stem.endswith("_posix")
    )


def build(output: Path) -> list[Path]:
    """Build all DLLs, and the program that runs container processes, into the directory `output`."""
    output.mkdir(parents=True, exist_ok=True)
    library = output / "computecore.dll"
    definitions = output / "computecore.def"
    link = [f"-Wl,--output-def,{definitions}", "-lws2_32"]
    subprocess.run([COMPILER, *WARNINGS, *FLAGS, *map(str, sources()), "-o", str(library), *link], check=True)
    names = re.findall(r"^\s+(\w+) @\d+", definitions.read_text(), re.MULTILINE)
    built = [library]
    for name in FORWARDERS:
        exports = output / f"{name}.def"
        exports.write_text("EXPORTS\n" + "".join(f"{export} = computecore.{export}\n" for export in names))
        target = output / f"{name}.dll"
        command = [COMPILER, "-s", "-shared", "-nostdlib", "-Wl,--no-insert-timestamp", "-Wl,-e,0"]
        subprocess.run([*command, str(exports), "-o", str(target)], check=True)
        built.append(target)
    program = output / "wine-run.exe"
    strict = [*WARNINGS, "-O2", "-s", "-municode", "-Wl,--no-insert-timestamp"]
    subprocess.run([COMPILER, *strict, str(SOURCES / "wine_run.c"), "-o", str(program), "-lws2_32"], check=True)
    return [*built, program]

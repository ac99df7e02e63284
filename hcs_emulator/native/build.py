"""Build the emulator's native programs: on Linux with the C compiler of the machine, for Windows with mingw.

The Linux build (`build`) produces `libcomputecore.so`, which implements the exports of all HCS DLLs, the programs
`silo` and `cmd`, and the script that the library runs to start the service on demand. It compiles only what is older
than its sources. The Windows build (`build_windows`) produces the DLLs and `wine-run.exe` for programs that run under
Wine. README.md describes the source directories.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

NATIVE = Path(__file__).resolve().parent
LIBRARY = NATIVE / "library"
OUTPUT = NATIVE / "build"
# A file beside the programs of a wheel that contains them: pip does not preserve the times of files.
PREBUILT = "prebuilt"

_WARNINGS = ["-Wall", "-Wextra", "-Werror", "-Wshadow", "-Wvla"]
WARNINGS = ["-std=c11", *_WARNINGS]

# Linux
_LIBRARY_FLAGS = ["-fPIC", "-shared", "-pthread", "-fvisibility=hidden", "-Wl,-z,nodelete", "-Wl,-z,defs"]
# Static: both programs run inside root file systems that hold none of the host's libraries.
_PROGRAM_FLAGS = ["-static", "-std=gnu11", "-O2", *_WARNINGS]
_PROGRAMS = {"silo": ("silo", "common"), "cmd": ("commands", "common")}  # program: its source directories

# Windows
_MINGW = "x86_64-w64-mingw32-gcc"
_REPRODUCIBLE = "-Wl,--no-insert-timestamp"
_DLL_FLAGS = ["-O2", "-s", "-shared", "-static-libgcc", _REPRODUCIBLE, "-include", str(LIBRARY / "memory_windows.h")]
# These DLLs only forward to computecore.dll, so that all share one connection and one handle table, whichever of them a
# program loads first.
_FORWARDERS = ("vmcompute", "computestorage", "computenetwork", "cimfs", "virtdisk")


def library_sources(system: str = "posix") -> list[Path]:
    """The library's C files for `system`, "posix" or "windows"."""
    other = "_windows" if system == "posix" else "_posix"
    return sorted(path for path in LIBRARY.glob("*.c") if not path.stem.endswith(other))


def run_compiler(arguments: list[str], output: Path) -> None:
    """Compile and rename into place: a running service or shim never finds a partial file."""
    compiler = shlex.split(os.environ.get("CC", "cc"))
    temporary = output.with_name(f".{output.name}.{os.getpid()}")
    try:
        subprocess.run([*compiler, *arguments, "-o", str(temporary)], check=True)
        temporary.replace(output)
    finally:
        temporary.unlink(missing_ok=True)


def _is_current(output: Path, inputs: list[Path]) -> bool:
    if output.exists() and (output.parent / PREBUILT).exists():
        return True
    newest = max(path.stat().st_mtime for path in [*inputs, Path(__file__)])
    return output.exists() and output.stat().st_mtime >= newest


def build_library(directory: Path = OUTPUT) -> Path:
    """Build `libcomputecore.so` in `directory` if a source is newer."""
    library = directory / "libcomputecore.so"
    sources = library_sources()
    if not _is_current(library, [*sources, *LIBRARY.glob("*.h"), *LIBRARY.glob("*.def")]):
        run_compiler([*WARNINGS, "-O2", "-g", *_LIBRARY_FLAGS, *map(str, sources), "-ldl"], library)
    return library


def build_programs(directory: Path = OUTPUT) -> list[Path]:
    """Build `silo` and `cmd` in `directory` if a source is newer."""
    directory.mkdir(parents=True, exist_ok=True)
    programs = []
    for name, source_directories in _PROGRAMS.items():
        program = directory / name
        sources = sorted(path for part in source_directories for path in (NATIVE / part).glob("*.c"))
        headers = [path for part in source_directories for path in (NATIVE / part).glob("*.h")]
        if not _is_current(program, [*sources, *headers]):
            run_compiler([*_PROGRAM_FLAGS, *map(str, sources)], program)
        programs.append(program)
    return programs


def write_launcher(directory: Path = OUTPUT) -> Path:
    """Write the script that `libcomputecore.so` runs when no service listens."""
    output = directory / "hcs-emulator-service"
    temporary = output.with_name(f".{output.name}.{os.getpid()}")
    temporary.write_text(
        "#!/bin/sh\n# Starts the HCS emulator's service; libcomputecore.so runs this when no service listens.\n"
        f"PYTHONPATH={shlex.quote(str(NATIVE.parents[1]))} "
        f"exec {shlex.quote(sys.executable)} -P -m hcs_emulator.service \"$@\"\n"
    )
    temporary.chmod(0o755)
    return temporary.replace(output)


def build(directory: Path = OUTPUT) -> list[Path]:
    """Build everything for Linux in `directory`; the library is first in the list of files."""
    directory.mkdir(parents=True, exist_ok=True)
    return [build_library(directory), *build_programs(directory), write_launcher(directory)]


def build_windows(directory: Path) -> list[Path]:
    """Build the DLLs and `wine-run.exe` in `directory`. They belong in System32, where Windows programs find them."""
    directory.mkdir(parents=True, exist_ok=True)
    library = directory / "computecore.dll"
    definitions = directory / "computecore.def"
    system = ["ws2_32", "ole32", "oleaut32", "rpcrt4", "user32", "advapi32"]
    link = [f"-Wl,--output-def,{definitions}", *(f"-l{name}" for name in system)]
    sources = map(str, library_sources("windows"))
    subprocess.run([_MINGW, *WARNINGS, *_DLL_FLAGS, *sources, "-o", str(library), *link], check=True)
    names = re.findall(r"^\s+(\w+) @\d+", definitions.read_text(), re.MULTILINE)
    built = [library]
    for name in _FORWARDERS:
        exports = directory / f"{name}.def"
        exports.write_text("EXPORTS\n" + "".join(f"{export} = computecore.{export}\n" for export in names))
        target = directory / f"{name}.dll"
        command = [_MINGW, "-s", "-shared", "-nostdlib", _REPRODUCIBLE, "-Wl,-e,0", str(exports), "-o", str(target)]
        subprocess.run(command, check=True)
        built.append(target)
    program = directory / "wine-run.exe"
    flags = [*WARNINGS, "-O2", "-s", "-municode", _REPRODUCIBLE]
    source = str(NATIVE / "wine" / "wine_run.c")
    subprocess.run([_MINGW, *flags, source, "-o", str(program), "-lws2_32"], check=True)
    return [*built, program]


if __name__ == "__main__":
    build()

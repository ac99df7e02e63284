"""Compile the Windows launchers with MinGW.

A launcher contains boot.py and the modules that Python imports before boot.py runs. The launcher of the shim also
contains the commands in C.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

HERE = Path(__file__).parent
COMMON = HERE.parent / "common"
SHIM = "containerd-shim-runhcs-v1.exe"
#: What each launcher imports and calls.
PROGRAMS = {
    SHIM: "from shim.__main__ import command\ncommand()\n",
    "runhcs.exe": "from runhcs.__main__ import main\nsys.exit(main())\n",
}
#: Modules that Python imports before boot.py, by path.
EARLY_MODULES = ("encodings/__init__", "encodings/aliases", "encodings/utf_8", "linecache")
PYTHON_DLL = "python313.dll"
PYC_HEADER = 16
COMPILER = "x86_64-w64-mingw32-gcc"
FLAGS = ["-std=c11", "-Os", "-s", "-Wall", "-Wextra", "-Werror", "-municode", "-D__USE_MINGW_ANSI_STDIO=1"]
# Two builds give the same bytes.
FLAGS += ["-Wl,--no-insert-timestamp"]
# Wine maps a section only if it starts at a page of the file, and copies it into private memory otherwise.
FLAGS += ["-Wl,--file-alignment,4096"]


def module_name(path: str) -> str:
    return path.removesuffix("/__init__").replace("/", ".")


def build_launcher(program: str, early: dict[str, bytes], work: Path) -> bytes:
    """`early`: the .pyc files of EARLY_MODULES by path."""
    header, output = work / "program.h", work / program
    header.write_text(_header(PROGRAMS[program], early))
    command = [COMPILER, *FLAGS, "-include", str(header), f'-DPYTHON_DLL=L"{PYTHON_DLL}"']
    sources = [HERE / "launcher.c"]
    if program == SHIM:
        command += ["-DWITH_COMMANDS", f"-I{COMMON}"]
        sources = sorted([*HERE.glob("*.c"), *COMMON.glob("*.c")])
    subprocess.run([*command, *map(str, sources), "-lntdll", "-o", str(output)], check=True)
    return output.read_bytes()


def _header(call: str, early: dict[str, bytes]) -> str:
    """PROGRAM, the text that Python runs, and EARLY_MODULES, the entries of a table of frozen modules, as C."""
    text = ((HERE / "boot.py").read_text() + call).replace("\\", "\\\\").replace('"', '\\"')
    lines, entries = ["#define PROGRAM " + " ".join(f'L"{line}\\n"' for line in text.splitlines())], ""
    for number, (path, data) in enumerate(sorted(early.items())):
        code, is_package = data[PYC_HEADER:], path.endswith("/__init__")
        lines.append(f"static const unsigned char early{number}[] = {{{','.join(map(str, code))}}};")
        entries += f'{{"{module_name(path)}", early{number}, {len(code)}, {int(is_package)}}}, '
    return "\n".join([*lines, f"#define EARLY_MODULES {entries}"]) + "\n"

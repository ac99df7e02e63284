"""Compile the Windows launchers.

A launcher contains boot.py, with the hash of the module bundle, the modules that Python imports before boot.py runs,
and as resources a manifest and its version. The launcher of the shim also contains the commands in C.
"""

from __future__ import annotations

from pathlib import Path

from launcher.windows.compilers import Compiler

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
PYC_HEADER = 16
#: What Explorer shows as the description of each program.
DESCRIPTIONS = {SHIM: "containerd shim for Windows containers", "runhcs.exe": "Tool for containerd-shim-runhcs-v1"}


def module_name(path: str) -> str:
    return path.removesuffix("/__init__").replace("/", ".")


def build_launcher(
    program: str, early: dict[str, bytes], digest: str, version: str, dll: str, compiler: Compiler, work: Path
) -> bytes:
    """`early`: the .pyc files of EARLY_MODULES by path. `digest`: of the module bundle's index. `dll`: Python's. Raises
    BuildError."""
    header, script, output = work / "program.h", work / "program.rc", work / program
    header.write_text(_header(PROGRAMS[program], early, digest))
    script.write_text(_resources(program, version))
    resources = compiler.compile_resources(script, HERE)
    arguments = ["-include", str(header), f'-DPYTHON_DLL=L"{dll}"']
    arguments += ["-DPYTHON_3_12"] if dll == "python312.dll" else []
    sources = [HERE / "launcher.c"]
    if program == SHIM:
        arguments += ["-DWITH_COMMANDS", f"-I{COMMON}"]
        sources = sorted([*HERE.glob("*.c"), *COMMON.glob("*.c")])
    compiler.compile_program([*arguments, *map(str, sources), str(resources), "-lntdll", "-o", str(output)])
    return output.read_bytes()


def _resources(program: str, version: str) -> str:
    """The manifest and the version, as a resource script."""
    numbers = ",".join([*(version.split(".")), "0", "0", "0", "0"][:4])
    strings = {
        "CompanyName": "The containerd-shim-runhcs authors",
        "FileDescription": DESCRIPTIONS[program],
        "FileVersion": version,
        "InternalName": program.removesuffix(".exe"),
        "LegalCopyright": "Apache License 2.0",
        "OriginalFilename": program,
        "ProductName": "containerd-shim-runhcs",
        "ProductVersion": version,
    }
    values = "\n".join(f'VALUE "{name}", "{value}"' for name, value in strings.items())
    return f"""#include <winver.h>
1 24 "program.manifest"
1 VERSIONINFO
FILEVERSION {numbers}
PRODUCTVERSION {numbers}
FILEFLAGSMASK VS_FFI_FILEFLAGSMASK
FILEOS VOS_NT_WINDOWS32
FILETYPE VFT_APP
BEGIN
BLOCK "StringFileInfo"
BEGIN
BLOCK "040904B0"
BEGIN
{values}
END
END
BLOCK "VarFileInfo"
BEGIN
VALUE "Translation", 0x409, 1200
END
END
"""


def _header(call: str, early: dict[str, bytes], digest: str) -> str:
    """PROGRAM, the text that Python runs, and EARLY_MODULES, the entries of a table of frozen modules, as C."""
    text = (HERE / "boot.py").read_text().replace("@INDEX_DIGEST@", digest) + call
    text = text.replace("\\", "\\\\").replace('"', '\\"')
    lines, entries = ["#define PROGRAM " + " ".join(f'L"{line}\\n"' for line in text.splitlines())], ""
    for number, (path, data) in enumerate(sorted(early.items())):
        code, is_package = data[PYC_HEADER:], path.endswith("/__init__")
        lines.append(f"static const unsigned char early{number}[] = {{{','.join(map(str, code))}}};")
        entries += f'{{.name = "{module_name(path)}", .code = early{number}, '
        entries += f".size = {len(code)}, .is_package = {int(is_package)}}}, "
    return "\n".join([*lines, f"#define EARLY_MODULES {entries}"]) + "\n"

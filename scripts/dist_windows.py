"""`make dist-windows`: the distribution for Windows nodes, built on Linux.

dist/containerd-shim-runhcs-<version>-windows-amd64.zip holds two programs and a folder. It works when it is unpacked
beside containerd.exe; the node needs no Python.

    containerd-shim-runhcs-v1.exe, runhcs.exe     launchers (launcher/windows)
    containerd-shim-runhcs/python313.dll …        files of the embeddable CPython, as python.org signed them
    containerd-shim-runhcs/lib/*.pyd              extension modules of CPython, cffi and pywin32, as published
    containerd-shim-runhcs/lib/modules.bin        bytecode of our modules and of those of the standard library, attrs
                                                  and cattrs that they import

Two builds give the same bytes: inputs are pinned by hash, members are sorted, all times are fixed.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT))

from windows_modules import WindowsPython, index_digest, pack_modules  # noqa: E402
from windows_packages import PYWIN32_LIBRARY, cffi_backend, python_files, pywin32_files, sha256  # noqa: E402

from launcher.windows.build import EARLY_MODULES, PROGRAMS, PYTHON_DLL, build_launcher  # noqa: E402

FOLDER = "containerd-shim-runhcs"
PYTHON_FILES = (PYTHON_DLL, "vcruntime140.dll", "vcruntime140_1.dll", "LICENSE.txt")
EXTENSIONS = ("_queue.pyd", "_socket.pyd", "select.pyd", "unicodedata.pyd")  # attrs imports the last one
MEMBER_TIME = (2020, 1, 1, 0, 0, 0)


def log(text: str) -> None:
    print(f"dist-windows: {text}", flush=True)


def contents(work: Path) -> dict[str, bytes]:
    """The members of the zip by name."""
    files = python_files()
    log("resolving imports and compiling modules with Python for Windows")
    with WindowsPython(files, work) as python:
        ours, library = python.modules()
    early = {path: library.pop(path) for path in EARLY_MODULES}
    members = {"LICENSE": (ROOT / "LICENSE").read_bytes()}
    members |= {f"{FOLDER}/{name}": files[name] for name in PYTHON_FILES}
    members[f"{FOLDER}/python313._pth"] = b"lib\r\n"
    backend, data = cffi_backend()
    extensions = {name: files[name] for name in EXTENSIONS} | {backend: data} | pywin32_files()
    members |= {f"{FOLDER}/lib/{name}": extension for name, extension in extensions.items()}
    modules = [name for name in extensions if name != PYWIN32_LIBRARY]
    bundle = members[f"{FOLDER}/lib/modules.bin"] = pack_modules(ours | library, modules)
    for program in PROGRAMS:
        log(f"building {program}")
        members[program] = build_launcher(program, early, index_digest(bundle), version(), work)
    return members


def pack(target: Path, members: dict[str, bytes]) -> None:
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name in sorted(members):
            entry = zipfile.ZipInfo(name, MEMBER_TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3
            # Only the owner may write. Tools that unpack on Unix apply it; on Windows the folder's ACL is inherited.
            entry.external_attr = (0o100755 if name.endswith((".exe", ".dll", ".pyd")) else 0o100644) << 16
            archive.writestr(entry, members[name])


def version() -> str:
    return str(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"])


def output() -> Path:
    """The path of the zip."""
    return ROOT / "dist" / f"containerd-shim-runhcs-{version()}-windows-amd64.zip"


def build(target: Path) -> None:
    work = Path(tempfile.mkdtemp(prefix="dist-windows-"))
    try:
        members = contents(work)
        target.parent.mkdir(exist_ok=True)
        temporary = target.with_suffix(".partial")
        pack(temporary, members)
        temporary.replace(target)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def main() -> int:
    target = output()
    build(target)
    log(f"{target.relative_to(ROOT)}: {target.stat().st_size / 1e6:.1f} MB, sha256 {sha256(target)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

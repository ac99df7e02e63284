"""The Python modules of the Windows distribution: which are needed, their bytecode, and the file that holds them.

The Python that runs on the node resolves the imports and compiles, under Wine.
"""

from __future__ import annotations

import hashlib
import io
import marshal
import sys
import zipfile
from pathlib import Path

from windows_packages import Python, build_python, unpack_pure_python
from wine_prefix import Prefix

from launcher.windows.build import PYC_HEADER, module_name

ROOT = Path(__file__).resolve().parents[1]
SCRIPTS = ROOT / "launcher" / "windows"
# The roots: all of the shim, since the ledger imports modules by name, and the commands of runhcs that Windows has.
ROOTS = ("shim.*", "runhcs.__main__", "runhcs.config.command", "runhcs.doctor.command", "runhcs.events",
         "runhcs.explain", "runhcs.gc", "runhcs.inspect", "runhcs.install.command", "runhcs.ps",
         "runhcs.recording.command", "runhcs.scratch.command", "runhcs.selftest.command", "runhcs.soak.command",
         "runhcs.stacks", "runhcs.timeline.command", "runhcs.top.command", "traceback")  # fmt: skip
# Imports that are not followed: Linux only, interactive use only, or replacements for C modules.
EXCLUDED = (
    "shim.commands.standby.prefork", "shim.platform.linux", "shim.platform._libc_cffi", "runhcs.bench",
    "runhcs.demo", "runhcs.doctor.linux", "runhcs.install.linux", "runhcs.replay", "runhcs.selftest.linux",
    "hcs_emulator", "_pydecimal", "_pydatetime", "_pyio", "_pyrepl",
    "_strptime", "_aix_support", "_ios_support", "_osx_support", "asyncio", "bdb", "bz2", "cmd", "code", "csv",
    "ctypes", "doctest", "email", "fractions", "gzip", "http", "importlib.metadata", "importlib.readers",
    "importlib.resources", "lzma", "multiprocessing", "pdb", "pickle", "pkgutil", "plistlib", "pydoc",
    "pydoc_data", "rlcompleter", "runpy", "site", "ssl", "statistics", "tarfile", "test", "unittest", "xml",
    "xmlrpc", "zipfile",
)  # fmt: skip
# Python imports codecs by name.
CODECS = ("aliases", "ascii", "cp1252", "cp437", "idna", "latin_1", "mbcs", "oem", "utf_16", "utf_16_le", "utf_8",
          "utf_8_sig")  # fmt: skip
# How compile.py compiles a package: the commands of runhcs show their docstrings as help.
KINDS = {"shim": "stripped", "runhcs": "whole"}
# Third-party packages, see windows_packages.py. attrs and cattrs read annotations.
PACKAGES = dict.fromkeys(("attr", "attrs", "cattrs", "typing_extensions"), "whole")
RUN_TIMEOUT = 300.0


class WindowsPython:
    """The embeddable Python under Wine."""

    def __init__(self, python: Python, work: Path) -> None:
        """`python`: the one of the distribution, whose standard library is used."""
        self._work = work
        self._library = work / "library"
        self._packages = work / "packages"
        unpack_pure_python(self._packages)
        directory = work / "python"
        directory.mkdir()
        runs = build_python(python)
        runtime = ("python.exe", runs.dll, "vcruntime140.dll", "vcruntime140_1.dll", runs.path_file)
        runtime += ("_socket.pyd", "select.pyd")  # Python 3.12 imports email, and with it socket, to find modules
        for name in (*runtime, runs.standard_library):
            (directory / name).write_bytes(runs.files[name])
        with zipfile.ZipFile(io.BytesIO(python.files[python.standard_library])) as archive:
            archive.extractall(self._library)
        self._program = str(directory / "python.exe")
        self._wine = Prefix(work / "prefix")
        self._wine.create()

    def __enter__(self) -> WindowsPython:
        self._wine.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._wine.stop()

    def modules(self) -> tuple[dict[str, bytes], dict[str, bytes]]:
        """The .pyc files of our modules and third-party packages, and of the standard library's, by path without the
        suffix."""
        libraries = f"{self._packages};{self._library}"
        found = self._run("closure.py", libraries, str(ROOT), ",".join(EXCLUDED), *ROOTS).split()
        names = sorted({*found, *(f"encodings.{name}" for name in CODECS)})
        compiled = self._compile(names, ROOT, KINDS) | self._compile(names, self._packages, PACKAGES)
        library = [path for name in names if (path := _path(name, self._library, ".pyc"))]
        return compiled, {path: (self._library / f"{path}.pyc").read_bytes() for path in library}

    def _compile(self, names: list[str], root: Path, kinds: dict[str, str]) -> dict[str, bytes]:
        """The .pyc files of the modules of these packages."""
        ours = [name for name in names if name.partition(".")[0] in kinds]
        sources = {name: path for name in ours if (path := _path(name, root, ".py"))}
        listing, target = self._work / "sources", self._work / "lib"
        listing.write_text("".join(f"{kinds[name.partition('.')[0]]} {path}.py\n" for name, path in sources.items()))
        self._run("compile.py", str(root), str(target), str(listing))
        return {path: (target / f"{path}.pyc").read_bytes() for path in sources.values()}

    def _run(self, script: str, *arguments: str) -> str:
        command = [self._program, "-IX", "no_debug_ranges", str(SCRIPTS / script), *arguments]
        done = self._wine.run(*command, timeout=RUN_TIMEOUT)
        text = done.stdout.decode("utf-8", "replace")
        if done.returncode:
            sys.exit(f"{script} failed under Wine ({done.returncode}):\n{text}")
        return text


def _path(name: str, directory: Path, suffix: str) -> str:
    """The path of a module in the directory, without the suffix; "" if it is not there."""
    path = name.replace(".", "/")
    return next((one for one in (path, f"{path}/__init__") if (directory / f"{one}{suffix}").exists()), "")


def pack_modules(modules: dict[str, bytes], extensions: list[str]) -> bytes:
    """modules.bin as boot.py reads it, from .pyc files by path and the file names of extension modules."""
    index: dict[str, str | tuple[int, int, bool, bytes]] = {name.partition(".")[0]: name for name in sorted(extensions)}
    codes = bytearray()
    for path in sorted(modules):
        code = modules[path][PYC_HEADER:]
        index[module_name(path)] = (len(codes), len(code), path.endswith("/__init__"), hashlib.sha256(code).digest())
        codes += code
    head = marshal.dumps(index, 2)  # in this version the bytes depend on the values only
    return len(head).to_bytes(4, "little") + head + bytes(codes)


def index_digest(bundle: bytes) -> str:
    """The SHA-256 of the index of modules.bin, which the launchers verify."""
    return hashlib.sha256(bundle[4 : 4 + int.from_bytes(bundle[:4], "little")]).hexdigest()

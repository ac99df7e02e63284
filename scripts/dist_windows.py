"""`make dist-windows`: the distribution for Windows nodes, built on Linux, and a second zip with the agent
(windows_agent.py).

dist/containerd-shim-runhcs-<version>-windows-<architecture>.zip holds two programs and a folder. It works when it is
unpacked beside containerd.exe; the node needs no Python.

    containerd-shim-runhcs-v1.exe, runhcs.exe     launchers (launcher/windows)
    containerd-shim-runhcs/python313.dll …        files of the embeddable CPython, as python.org signed them
    containerd-shim-runhcs/lib/*.pyd              extension modules of CPython, cffi and pywin32, as published
    containerd-shim-runhcs/lib/modules.bin        bytecode of our modules and of those of the standard library, attrs
                                                  and cattrs that they import
    containerd-shim-runhcs/sbom.cdx.json          all components with versions, licences and hashes
    containerd-shim-runhcs/licenses/*             the licences of the components

Two builds give the same bytes: inputs are pinned by hash, members are sorted, all times are fixed. The signatures of
CPython's files are verified. With a certificate, what nobody has signed is signed: our programs, cffi and pywin32.
Variables:

    PYTHON_EMBED, PYTHON_EMBED_SHA256         another CPython, see windows_packages.py
    SIGN_PFX, SIGN_PASSWORD, SIGN_TIMESTAMP   a PKCS #12 file, its password, the URL of a timestamp server
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT))

import windows_agent  # noqa: E402
import windows_sbom  # noqa: E402
import windows_signing  # noqa: E402
from windows_modules import WindowsPython, index_digest, pack_modules  # noqa: E402
from windows_packages import PackageError, Python, requested_python, root_certificates, sha256, zig  # noqa: E402

from launcher.windows.build import EARLY_MODULES, PROGRAMS, build_launcher  # noqa: E402
from launcher.windows.compilers import BuildError, Compiler, Mingw, Zig  # noqa: E402

FOLDER = "containerd-shim-runhcs"
RUNTIME = ("vcruntime140.dll", "vcruntime140_1.dll")
EXTENSIONS = ("_queue.pyd", "_socket.pyd", "select.pyd", "unicodedata.pyd")  # attrs imports the last one
BINARIES = (".exe", ".dll", ".pyd")
MEMBER_TIME = (2020, 1, 1, 0, 0, 0)


def log(text: str) -> None:
    print(f"dist-windows: {text}", flush=True)


class Signing:
    """The certificate for our own signatures, from the environment."""

    def __init__(self) -> None:
        self.certificate = os.environ.get("SIGN_PFX", "")
        self._password = os.environ.get("SIGN_PASSWORD", "")
        self._timestamp = os.environ.get("SIGN_TIMESTAMP", "")

    def apply(self, members: dict[str, bytes], work: Path) -> None:
        """Sign each binary that has no signature."""
        if not self.certificate:
            return
        for name in [name for name in members if name.endswith(BINARIES)]:
            file = work / name.rpartition("/")[2]
            file.write_bytes(members[name])
            if not windows_signing.is_signed(file):
                log(f"signing {name}")
                signed = windows_signing.sign(file, Path(self.certificate), self._password, self._timestamp)
                members[name] = signed


def verify_signatures(python: Python, names: tuple[str, ...], work: Path) -> None:
    """Of the files of CPython that are packed."""
    roots = root_certificates(work)
    for name in names:
        file = work / name
        file.write_bytes(python.files[name])
        windows_signing.verify(file, roots, windows_signing.PYTHON_SIGNERS)
    log(f"verified the signatures of {len(names)} files of CPython {python.version}")


def compiler(architecture: str) -> Compiler:
    return Mingw() if architecture == "amd64" else Zig(*zig())


def contents(work: Path, python: Python) -> dict[str, bytes]:
    """The members of the zip by name."""
    verify_signatures(python, (python.dll, *RUNTIME, *EXTENSIONS), work)
    log("resolving imports and compiling modules with Python for Windows")
    with WindowsPython(python, work) as runs:
        ours, library = runs.modules()
    early = {path: library.pop(path) for path in EARLY_MODULES}
    members = {"LICENSE": (ROOT / "LICENSE").read_bytes()}
    members |= {f"{FOLDER}/{name}": python.files[name] for name in (python.dll, *RUNTIME)}
    members[f"{FOLDER}/{python.path_file}"] = b"lib\r\n"
    backend, data = python.cffi_backend()
    extensions = {name: python.files[name] for name in EXTENSIONS} | {backend: data} | python.pywin32_files()
    members |= {f"{FOLDER}/lib/{name}": extension for name, extension in extensions.items()}
    modules = [name for name in extensions if name != python.pywin32_library]
    bundle = members[f"{FOLDER}/lib/modules.bin"] = pack_modules(ours | library, modules)
    for program in PROGRAMS:
        log(f"building {program}")
        digest = index_digest(bundle)
        members[program] = build_launcher(
            program, early, digest, version(), python.dll, compiler(python.architecture), work
        )
    members |= {f"{FOLDER}/licenses/{name}.txt": text for name, text in python.licences().items()}
    Signing().apply(members, work)
    members[f"{FOLDER}/sbom.cdx.json"] = windows_sbom.document(version(), python, members)
    return members


def pack(target: Path, members: dict[str, bytes]) -> None:
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name in sorted(members):
            entry = zipfile.ZipInfo(name, MEMBER_TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3
            # Only the owner may write. Tools that unpack on Unix apply it; on Windows the folder's ACL is inherited.
            entry.external_attr = (0o100755 if name.endswith(BINARIES) else 0o100644) << 16
            archive.writestr(entry, members[name])


def version() -> str:
    return str(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"])


def output(architecture: str = "amd64") -> Path:
    """The path of the zip."""
    return ROOT / "dist" / f"containerd-shim-runhcs-{version()}-windows-{architecture}.zip"


def agent_output(architecture: str = "amd64") -> Path:
    """The path of the zip with the agent."""
    return ROOT / "dist" / f"containerd-shim-runhcs-{version()}-windows-{architecture}-agent.zip"


def agent_contents(work: Path, python: Python) -> dict[str, bytes]:
    verify_signatures(python, windows_agent.binaries(python), work)
    members = windows_agent.contents(python, version())
    Signing().apply(members, work)
    return members


def build(target: Path, python: Python, members_of: Callable[[Path, Python], dict[str, bytes]] = contents) -> None:
    work = Path(tempfile.mkdtemp(prefix="dist-windows-"))
    try:
        members = members_of(work, python)
        target.parent.mkdir(exist_ok=True)
        temporary = target.with_suffix(".partial")
        pack(temporary, members)
        temporary.replace(target)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def main() -> int:
    try:
        python = requested_python(os.environ.get("PYTHON_EMBED", ""), os.environ.get("PYTHON_EMBED_SHA256", ""))
        log(f"CPython {python.version} for {python.architecture}")
        built = [output(python.architecture)]
        build(built[0], python)
        if python.architecture in windows_agent.ARCHITECTURES:
            built.append(agent_output(python.architecture))
            build(built[1], python, agent_contents)
        else:
            log(f"no zip with the agent: gRPC is not published for Windows on {python.architecture}")
    except (PackageError, BuildError, windows_signing.SignatureError) as error:
        print(f"dist-windows: {error}", file=sys.stderr)
        return 1
    for path in built:
        log(f"{path.relative_to(ROOT)}: {path.stat().st_size / 1e6:.1f} MB, sha256 {sha256(path)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

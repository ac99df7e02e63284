"""How the zip is built: which Python, verified signatures, our own signatures, the SBOM and the licences."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import dist_windows
import pytest
import windows_packages
import windows_signing
from windows_packages import PackageError, Python, requested_python

from launcher.windows.build import EARLY_MODULES, PROGRAMS, PYC_HEADER, build_launcher
from launcher.windows.compilers import BuildError
from tests.wine.conftest import Machine, distribution

FOLDER = dist_windows.FOLDER


@pytest.fixture(scope="module")
def roots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return windows_packages.root_certificates(tmp_path_factory.mktemp("roots"))


@pytest.fixture(scope="module")
def python() -> Python:
    return requested_python()


# -- which Python


@pytest.mark.parametrize(("choice", "version"), [("", "3.13.2"), ("3.12", "3.12.9"), ("3.13", "3.13.2")])
def test_python_from_the_package_index(choice: str, version: str) -> None:
    found = requested_python(choice)
    assert (found.version, found.architecture, found.dll) == (version, "amd64", f"python{found.tag}.dll")
    assert found.cffi_backend()[0] == f"_cffi_backend.cp{found.tag}-win_amd64.pyd"
    assert f"pywintypes{found.tag}.dll" in found.pywin32_files()


def embeddable(python: Python, directory: Path, machine: int = 0x8664, version: bytes = b"") -> Path:
    """An embeddable zip as python.org publishes it, for another machine or of another version if given."""
    dll = bytearray(python.files[python.dll])
    at = int.from_bytes(dll[0x3C:0x40], "little") + 4
    dll[at : at + 2] = machine.to_bytes(2, "little")
    if version:
        at = dll.index(b"\xbd\x04\xef\xfe") + 8
        dll[at : at + 8] = version
    path = directory / "python-embed.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in python.files.items():
            archive.writestr(name, bytes(dll) if name == python.dll else data)
    return path


def test_python_by_path_and_hash(python: Python, tmp_path: Path) -> None:
    path = embeddable(python, tmp_path)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    found = requested_python(str(path), digest)
    assert found.files == python.files and found.version == python.version
    for wrong in ("", "0" * 64):
        with pytest.raises(PackageError, match=f"SHA-256 {digest}.*PYTHON_EMBED_SHA256"):
            requested_python(str(path), wrong)


def test_python_for_arm64_uses_wheels_for_arm64(python: Python, tmp_path: Path) -> None:
    path = embeddable(python, tmp_path, machine=0xAA64)
    found = requested_python(str(path), hashlib.sha256(path.read_bytes()).hexdigest())
    assert found.architecture == "arm64"
    assert found.cffi_backend()[0].endswith("-win_arm64.pyd")
    assert windows_packages.build_python(found).architecture == "amd64", "it compiles under Wine"
    assert dist_windows.output(found.architecture).name.endswith("-windows-arm64.zip")


def test_python_of_unsupported_version_is_refused(python: Python, tmp_path: Path) -> None:
    path = embeddable(python, tmp_path, version=bytes.fromhex("0b000300 0000be23"))
    with pytest.raises(PackageError, match=r"3.11.* is not supported: use 3.12 to 3.14"):
        requested_python(str(path), hashlib.sha256(path.read_bytes()).hexdigest())


def test_missing_python_names_the_choices() -> None:
    with pytest.raises(PackageError, match=r"neither a file nor one of 3.12, 3.13"):
        requested_python("3.99")


def test_missing_compiler_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BuildError, match="install gcc-mingw-w64-x86-64"):
        dist_windows.compiler("amd64")


@pytest.mark.timeout(900)  # on a new machine Zig compiles its libraries first
@pytest.mark.parametrize("program", PROGRAMS)
def test_launcher_for_arm64(program: str, tmp_path: Path) -> None:
    """It is compiled without warnings, twice with the same bytes, and has the resources of the other architecture."""
    compiler = dist_windows.compiler("arm64")
    early = {path: bytes(PYC_HEADER) + path.encode() for path in EARLY_MODULES}
    built = []
    for name in ("one", "another"):
        (tmp_path / name).mkdir()
        built.append(build_launcher(program, early, "ab" * 32, "1.2.3", "python314.dll", compiler, tmp_path / name))
    assert built[0] == built[1]
    assert windows_packages._architecture(built[0]) == "arm64"
    assert b"longPathAware" in built[0] and "OriginalFilename".encode("utf-16-le") in built[0]
    assert b"ab" * 32 in built[0].replace(b"\0", b"") and "python314.dll".encode("utf-16-le") in built[0]
    assert str(tmp_path).encode() not in built[0] and str(Path.home()).encode() not in built[0]


def test_distribution_with_another_python_runs(machine: Machine, tmp_path: Path) -> None:
    """CPython 3.12: both programs, and a container by the launcher's start."""
    target = tmp_path / "other.zip"
    dist_windows.build(target, requested_python("3.12"))
    with zipfile.ZipFile(target) as archive:
        archive.extractall(machine.drive / "python312")
        assert f"{FOLDER}/python312.dll" in archive.namelist()
    done = machine.run(r"C:\python312\runhcs.exe", "explain", "0x80370109")
    assert done.returncode == 0 and b"0x80370109" in done.stdout.lower()
    native, by_python = machine.drive_shim(
        "launcher_equals_python", r"C:\python312\containerd-shim-runhcs-v1.exe", script="start_driver.py"
    )
    assert native["same"] and native["exited"] and by_python["same"] and by_python["exited"]


# -- published signatures


def test_files_of_python_have_valid_signatures(roots: Path) -> None:
    """Those in the zip: digest, chain, timestamp and signer."""
    with zipfile.ZipFile(distribution()) as archive:
        archive.extractall(roots.parent / "unpacked")
    folder = roots.parent / "unpacked" / FOLDER
    for name in ("python313.dll", "lib/_socket.pyd", "lib/select.pyd"):
        assert "/O=Python Software Foundation/" in windows_signing.verify(folder / name, roots)
    assert "/O=Microsoft Corporation/" in windows_signing.verify(folder / "vcruntime140.dll", roots)


def test_changed_file_of_python_is_refused(python: Python, tmp_path: Path, roots: Path) -> None:
    data = bytearray(python.files["select.pyd"])
    data[2000] ^= 1
    changed = Python(python.files | {"select.pyd": bytes(data)})
    with pytest.raises(windows_signing.SignatureError, match=r"select.pyd: an invalid signature"):
        dist_windows.verify_signatures(changed, ("select.pyd",), tmp_path)


def test_unsigned_file_of_python_is_refused(python: Python, tmp_path: Path) -> None:
    unsigned = Python(python.files | {"select.pyd": python.cffi_backend()[1]})
    with pytest.raises(windows_signing.SignatureError, match=r"select.pyd: not signed"):
        dist_windows.verify_signatures(unsigned, ("select.pyd",), tmp_path)


def test_file_of_another_signer_is_refused(python: Python, tmp_path: Path, roots: Path) -> None:
    file = tmp_path / "python313.dll"
    file.write_bytes(python.files["python313.dll"])
    with pytest.raises(windows_signing.SignatureError, match=r"signed by .*Python Software Foundation, not by Example"):
        windows_signing.verify(file, roots, ("Example",))


# -- our signatures


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A self-made certificate for code signing: as PKCS #12 with a password, and as a root."""
    directory = tmp_path_factory.mktemp("certificate")
    key, root, pfx = directory / "key.pem", directory / "root.pem", directory / "test.pfx"
    openssl = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30", "-subj", "/O=Example/CN=Test"]
    usage = ["-addext", "keyUsage=digitalSignature", "-addext", "extendedKeyUsage=codeSigning"]
    files = ["-keyout", str(key), "-out", str(root)]
    subprocess.run([*openssl, *usage, *files], check=True, capture_output=True)
    export = ["openssl", "pkcs12", "-export", "-inkey", str(key), "-in", str(root), "-passout", "pass:a secret"]
    subprocess.run([*export, "-out", str(pfx)], check=True, capture_output=True)
    return pfx, root


def test_certificate_signs_all_unsigned_binaries(
    certificate: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, roots: Path
) -> None:
    pfx, root = certificate
    monkeypatch.setenv("SIGN_PFX", str(pfx))
    monkeypatch.setenv("SIGN_PASSWORD", "a secret")
    with zipfile.ZipFile(distribution()) as archive:
        published = {name: archive.read(name) for name in archive.namelist()}
    members = dict(published)
    dist_windows.Signing().apply(members, tmp_path)
    signed = {name for name in members if members[name] != published[name]}
    binaries = {name for name in members if name.endswith((".exe", ".dll", ".pyd"))}
    assert {"containerd-shim-runhcs-v1.exe", "runhcs.exe", f"{FOLDER}/lib/win32api.pyd"} <= signed <= binaries
    for name in binaries:
        file = tmp_path / "check"
        file.write_bytes(members[name])
        if name in signed:
            assert windows_signing.verify(file, root, ("Example",))
        else:
            assert windows_signing.verify(file, roots, windows_signing.PYTHON_SIGNERS), "signed by its publisher"
    assert not list(tmp_path.glob("*.password"))


def test_wrong_password_fails_the_build(
    certificate: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, python: Python
) -> None:
    monkeypatch.setenv("SIGN_PFX", str(certificate[0]))
    monkeypatch.setenv("SIGN_PASSWORD", "wrong")
    with pytest.raises(windows_signing.SignatureError, match="cannot be signed"):
        dist_windows.Signing().apply({"x.pyd": python.cffi_backend()[1]}, tmp_path)


# -- SBOM and licences


@pytest.fixture(scope="module")
def members() -> dict[str, bytes]:
    with zipfile.ZipFile(distribution()) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def nested(component: dict[str, Any]) -> list[dict[str, Any]]:
    return [component, *(inner for child in component.get("components", []) for inner in nested(child))]


def test_sbom_lists_every_file_once(members: dict[str, bytes]) -> None:
    sbom = json.loads(members[f"{FOLDER}/sbom.cdx.json"])
    components = [one for top in (sbom["metadata"]["component"], *sbom["components"]) for one in nested(top)]
    files = [one for one in components if one["type"] == "file"]
    assert sorted(one["name"] for one in files) == sorted(set(members) - {f"{FOLDER}/sbom.cdx.json"})
    for one in files:
        assert one["hashes"] == [{"alg": "SHA-256", "content": hashlib.sha256(members[one["name"]]).hexdigest()}]


def test_sbom_follows_the_structure_of_cyclonedx(members: dict[str, bytes]) -> None:
    """The required properties and patterns of bom-1.6.schema.json, as far as the document uses them."""
    sbom = json.loads(members[f"{FOLDER}/sbom.cdx.json"])
    assert (sbom["bomFormat"], sbom["specVersion"], sbom["version"]) == ("CycloneDX", "1.6", 1)
    assert re.fullmatch(r"urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}", sbom["serialNumber"])
    known = {"bomFormat", "specVersion", "serialNumber", "version", "metadata", "components", "dependencies"}
    assert set(sbom) == known
    components = [one for top in (sbom["metadata"]["component"], *sbom["components"]) for one in nested(top)]
    allowed = {
        "type", "bom-ref", "name", "version", "cpe", "purl", "licenses", "hashes", "components", "externalReferences",
    }  # fmt: skip
    for one in components:
        assert {"type", "name"} <= set(one) <= allowed
        assert one["type"] in ("application", "library", "platform", "file")
        for entry in one.get("licenses", []):
            assert set(entry) == {"license"} and set(entry["license"]) == {"id"}
    references = [one["bom-ref"] for one in components]
    assert len(set(references)) == len(references)
    for dependency in sbom["dependencies"]:
        assert {dependency["ref"], *dependency["dependsOn"]} <= set(references)


def test_sbom_has_the_versions_of_the_packages(members: dict[str, bytes], python: Python) -> None:
    sbom = json.loads(members[f"{FOLDER}/sbom.cdx.json"])
    found = {one["name"]: one for one in sbom["components"]}
    assert found["CPython"]["version"] == python.version and f":python:{python.version}:" in found["CPython"]["cpe"]
    assert found["cffi"]["purl"] == "pkg:pypi/cffi@2.1.1"
    names = {requirement.partition("==")[0] for requirement, _ in windows_packages.PURE_PYTHON}
    assert set(found) == {"CPython", "cffi", "pywin32"} | names


def test_every_component_has_its_licence(members: dict[str, bytes]) -> None:
    sbom = json.loads(members[f"{FOLDER}/sbom.cdx.json"])
    for one in sbom["components"]:
        text = members[f"{FOLDER}/licenses/{one['name']}.txt"].decode("utf-8", "replace")
        assert "copyright" in text.lower() or "permission" in text.lower(), one["name"]
    assert b"Apache License" in members["LICENSE"]

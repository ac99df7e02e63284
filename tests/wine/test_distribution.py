"""The zip for Windows nodes and its members."""

from __future__ import annotations

import hashlib
import json
import marshal
import shutil
import struct
import zipfile
from pathlib import Path
from xml.etree import ElementTree

import dist_windows
import pytest
import windows_packages

from tests.wine.conftest import ROOT, Machine, distribution

FOLDER = "containerd-shim-runhcs"
RT_VERSION, RT_MANIFEST = 16, 24


def test_members_are_writable_by_owner_only() -> None:
    with zipfile.ZipFile(distribution()) as archive:
        for entry in archive.infolist():
            assert not (entry.external_attr >> 16) & 0o022, entry.filename
            assert not entry.filename.startswith(("/", "..")), entry.filename


def test_members_include_programs_and_python() -> None:
    with zipfile.ZipFile(distribution()) as archive:
        names = set(archive.namelist())
    assert {"containerd-shim-runhcs-v1.exe", "runhcs.exe", "LICENSE"} <= names
    assert f"{FOLDER}/python313.dll" in names
    assert not [name for name in names if name.endswith(".py")]


def test_third_party_binaries_are_unchanged() -> None:
    """Operators compare them with the published files by hash and signature."""
    python = windows_packages.requested_python()
    published = python.files | dict([python.cffi_backend()]) | python.pywin32_files()
    with zipfile.ZipFile(distribution()) as archive:
        binaries = [name for name in archive.namelist() if name.endswith((".dll", ".pyd"))]
        for name in binaries:
            digest = hashlib.sha256(archive.read(name)).hexdigest()
            assert digest == hashlib.sha256(published[name.rpartition("/")[2]]).hexdigest(), name
        programs = {name for name in archive.namelist() if name.endswith(".exe")}
    assert len(binaries) == 13
    assert programs == {"containerd-shim-runhcs-v1.exe", "runhcs.exe"}, "the only binaries that are built here"


def test_build_is_reproducible(tmp_path: Path) -> None:
    again = tmp_path / "again.zip"
    dist_windows.build(again, windows_packages.requested_python())
    assert again.read_bytes() == distribution().read_bytes(), "differs, or run make dist-windows first"


def test_bundle_excludes_unused_modules() -> None:
    """Of Linux only what a Linux container in a VM needs, no emulator, no tests; of the standard library only what is
    imported."""
    with zipfile.ZipFile(distribution()) as archive:
        data = archive.read(f"{FOLDER}/lib/modules.bin")
    names = set(marshal.loads(data[4 : 4 + int.from_bytes(data[:4], "little")]))
    needed = {name for name in names if name.startswith(("shim.uvm.", "shim.task.", "shim.oci."))}
    for word in (".linux", "_linux", "hcs_emulator", "launcher", "runhcs.containerd", "runhcs.demo", ".test"):
        assert not [name for name in names - needed if word in name]
    for word in ("unittest", "asyncio", "email", "multiprocessing", "pydoc", "tkinter", "xml"):
        assert not [name for name in names if name.startswith(word)]
    assert {"argparse", "shim.commands.serve", "runhcs.doctor.command"} <= names


def test_every_bundled_module_imports(machine: Machine) -> None:
    """Python for Windows imports them with nothing but the distribution in its path."""
    script = "Z:" + str(ROOT / "tests" / "wine" / "import_all.py").replace("/", "\\")
    done = machine.run(r"C:\python\python.exe", "-I", "-S", script, rf"C:\node\{FOLDER}")
    assert done.returncode == 0, done.stdout.decode(errors="replace")
    failed, loaded = json.loads(done.stdout.splitlines()[-1])
    assert failed == {}
    assert loaded > 100


def resources(program: bytes) -> dict[tuple[int, int], bytes]:
    """The resources of a PE file by type and id."""
    header = struct.unpack_from("<I", program, 0x3C)[0]
    sections, optional = (struct.unpack_from("<H", program, header + at)[0] for at in (6, 20))
    address = struct.unpack_from("<I", program, header + 24 + 112 + 2 * 8)[0]
    for number in range(sections):
        entry = header + 24 + optional + 40 * number
        virtual, _, offset = struct.unpack_from("<III", program, entry + 12)
        if virtual == address:
            break
    else:
        return {}

    def entries(directory: int) -> list[tuple[int, int]]:
        named, numbered = struct.unpack_from("<HH", program, offset + directory + 12)
        at = offset + directory + 16
        return [struct.unpack_from("<II", program, at + 8 * number) for number in range(named + numbered)]

    found = {}
    for kind, names in entries(0):
        for name, languages in entries(names & 0x7FFFFFFF):
            data = entries(languages & 0x7FFFFFFF)[0][1]
            begin, size = struct.unpack_from("<II", program, offset + data)
            found[kind, name] = program[offset + begin - virtual :][:size]
    return found


@pytest.mark.parametrize("program", ["containerd-shim-runhcs-v1.exe", "runhcs.exe"])
def test_programs_have_manifest_and_version(program: str) -> None:
    with zipfile.ZipFile(distribution()) as archive:
        found = resources(archive.read(program))
    manifest = ElementTree.fromstring(found[RT_MANIFEST, 1])
    values = {element.tag.rpartition("}")[2]: element for element in manifest.iter()}
    assert values["supportedOS"].get("Id") == "{8e0f7a12-bfb3-4fe8-b9a5-48fd50a15a9a}", "Windows 10 and later"
    assert values["longPathAware"].text == "true"
    assert values["requestedExecutionLevel"].get("level") == "asInvoker"
    version = found[RT_VERSION, 1]
    assert version[6:36].decode("utf-16-le") == "VS_VERSION_INFO"
    numbers = [int(part) for part in dist_windows.version().split(".")]
    signature, _, most, least = struct.unpack_from("<IIII", version, 40)
    assert signature == 0xFEEF04BD
    assert [most >> 16, most & 0xFFFF, least >> 16] == numbers
    texts = version.decode("utf-16-le", "replace")
    for text in (program, dist_windows.version(), "containerd-shim-runhcs", "FileDescription"):
        assert text in texts


def test_shim_exports_the_crash_filter() -> None:
    with zipfile.ZipFile(distribution()) as archive:
        assert b"report_unhandled_exceptions_only\0" in archive.read("containerd-shim-runhcs-v1.exe")


@pytest.mark.parametrize("part", ["index", "module"])
def test_changed_module_bundle_is_refused(machine: Machine, part: str) -> None:
    """One changed bit: of the index at the start of the program, of a module when it is loaded."""
    directory = machine.drive / f"changed-{part}"
    machine.unpack(directory)
    file = directory / FOLDER / "lib" / "modules.bin"
    data = bytearray(file.read_bytes())
    length = int.from_bytes(data[:4], "little")
    offset, size = marshal.loads(data[4 : 4 + length])["runhcs.explain"][:2]
    data[100 if part == "index" else 4 + length + offset + size // 2] ^= 1
    file.write_bytes(data)
    done = machine.run(rf"C:\{directory.name}\runhcs.exe", "explain", "0x80370109")
    text = done.stdout.decode(errors="replace")
    assert done.returncode == 1
    assert ("its index" if part == "index" else "runhcs.explain") in text
    assert "unpack the whole distribution again" in text and "Traceback" not in text
    done = machine.run(rf"C:\{directory.name}\containerd-shim-runhcs-v1.exe", "-version")
    assert (done.returncode == 0) == (part == "module"), "a module that is not loaded is not verified"
    shutil.rmtree(directory)


def test_runhcs_commands_run(machine: Machine) -> None:
    def run(*arguments: str) -> tuple[int, str]:
        done = machine.run(r"C:\node\runhcs.exe", *arguments)
        return done.returncode, done.stdout.decode(errors="replace")

    code, text = run("--help")
    assert code == 0 and "doctor" in text and "emulator" not in text
    code, text = run("explain", "0x80370109")
    assert code == 0 and "0x80370109" in text.lower()
    code, text = run("ps", "--state", r"C:\nowhere")
    assert code == 0 and "no shims" in text
    code, text = run("demo")
    assert code == 2 and "only on Linux" in text

    code, text = run("config", "containerd")
    assert code == 0 and 'runtime_type = "io.containerd.runhcs.v1"' in text


def test_doctor_checks_the_machine(machine: Machine) -> None:
    done = machine.run(r"C:\node\runhcs.exe", "doctor", "--json")
    report = json.loads(done.stdout[done.stdout.index(b"{") :])  # Wine may print a warning first
    checks = {check["name"]: check for check in report["checks"]}
    assert checks["libraries"]["outcome"] == "ok"
    assert checks["rights"]["outcome"] == "ok"
    assert checks["hcs"]["outcome"] == "ok", checks["hcs"]
    assert checks["vmcompute"]["outcome"] == "fail", "Wine has no such service"
    # By the pywin32 modules and the registry.
    assert checks["administrator"]["outcome"] == "ok" and "Administrators" in checks["administrator"]["finding"]
    assert checks["privileges"]["outcome"] == "ok"
    # The newest embeddable CPython of the package index is of February 2025.
    assert checks["python"]["outcome"] == "warn" and "built in 2025-02" in checks["python"]["finding"]
    # Wine reports build 9200 to a program without a manifest, as Windows does.
    assert checks["build"]["outcome"] == "ok", checks["build"]
    assert {"hns", "hyper-v", "event log", "shim", "config"} <= set(checks)
    assert not [check for check in checks.values() if "the check itself failed" in check["finding"]]
    assert done.returncode == 1

"""The zip for Windows nodes and its members."""

from __future__ import annotations

import hashlib
import json
import marshal
import zipfile
from pathlib import Path

import dist_windows
import windows_packages

from tests.wine.conftest import ROOT, Machine, distribution

FOLDER = "containerd-shim-runhcs"


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
    published = windows_packages.python_files() | dict([windows_packages.cffi_backend()])
    published |= windows_packages.pywin32_files()
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
    dist_windows.build(again)
    assert again.read_bytes() == distribution().read_bytes(), "differs, or run make dist-windows first"


def test_bundle_excludes_unused_modules() -> None:
    """No Linux modules, no emulator, no tests; of the standard library only what is imported."""
    with zipfile.ZipFile(distribution()) as archive:
        data = archive.read(f"{FOLDER}/lib/modules.bin")
    names = set(marshal.loads(data[4 : 4 + int.from_bytes(data[:4], "little")]))
    for word in (".linux", "_linux", "hcs_emulator", "launcher", "runhcs.containerd", "runhcs.demo", ".test"):
        assert not [name for name in names if word in name]
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
    assert checks["privileges"]["outcome"] == "ok" and checks["build"]["finding"].startswith("build ")
    assert {"hns", "hyper-v", "event log", "shim", "config"} <= set(checks)
    assert not [check for check in checks.values() if "the check itself failed" in check["finding"]]
    assert done.returncode == 1

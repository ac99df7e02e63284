"""The zip itself, and what is in it."""

from __future__ import annotations

import json
import marshal
import zipfile
from pathlib import Path

import dist_windows

from tests.wine.conftest import ROOT, Machine, distribution

FOLDER = "containerd-shim-runhcs"


def test_nothing_in_it_is_writable_by_others() -> None:
    with zipfile.ZipFile(distribution()) as archive:
        for entry in archive.infolist():
            assert not (entry.external_attr >> 16) & 0o022, entry.filename
            assert not entry.filename.startswith(("/", "..")), entry.filename


def test_it_holds_what_a_node_needs() -> None:
    with zipfile.ZipFile(distribution()) as archive:
        names = set(archive.namelist())
    assert {"containerd-shim-runhcs-v1.exe", "runhcs.exe", "LICENSE"} <= names
    assert f"{FOLDER}/python313.dll" in names
    assert not [name for name in names if name.endswith(".py")]


def test_two_builds_give_the_same_bytes(tmp_path: Path) -> None:
    again = tmp_path / "again.zip"
    dist_windows.build(again)
    assert again.read_bytes() == distribution().read_bytes(), "not the same, or dist/ is old: make dist-windows"


def test_only_modules_that_can_be_used() -> None:
    """Nothing of Linux, of the emulator, of tests, and of Python's library only what is imported somewhere."""
    with zipfile.ZipFile(distribution()) as archive:
        data = archive.read(f"{FOLDER}/lib/modules.bin")
    names = set(marshal.loads(data[4 : 4 + int.from_bytes(data[:4], "little")]))
    for word in (".linux", "_linux", "hcs_emulator", "containerd_api", "runhcs.demo", ".test"):
        assert not [name for name in names if word in name]
    for word in ("unittest", "asyncio", "email", "multiprocessing", "pydoc", "tkinter", "xml"):
        assert not [name for name in names if name.startswith(word)]
    assert {"argparse", "shim.commands.serve", "runhcs.doctor"} <= names


def test_every_module_finds_what_it_imports(machine: Machine) -> None:
    """All of them are loaded by Python for Windows with nothing on its path but the distribution."""
    script = "Z:" + str(ROOT / "tests" / "wine" / "import_all.py").replace("/", "\\")
    done = machine.run(r"C:\python\python.exe", "-I", "-S", script, rf"C:\node\{FOLDER}")
    assert done.returncode == 0, done.stdout.decode(errors="replace")
    failed, loaded = json.loads(done.stdout.splitlines()[-1])
    assert failed == {}
    assert loaded > 100


def test_tools_run(machine: Machine) -> None:
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
    assert code == 2 and "for Linux" in text
    code, text = run("config", "containerd")
    assert code == 0 and 'runtime_type = "io.containerd.runhcs.v1"' in text


def test_doctor_looks_at_the_machine(machine: Machine) -> None:
    done = machine.run(r"C:\node\runhcs.exe", "doctor", "--json")
    report = json.loads(done.stdout[done.stdout.index(b"{") :])  # Wine may have a word of its own first
    checks = {check["name"]: check for check in report["checks"]}
    assert checks["libraries"]["outcome"] == "ok"
    assert checks["rights"]["outcome"] == "ok"
    assert checks["hcs"]["outcome"] == "ok", checks["hcs"]
    assert checks["vmcompute"]["outcome"] == "fail", "Wine has no such service"
    assert done.returncode == 1

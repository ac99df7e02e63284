"""The zip itself, and what is in it."""

from __future__ import annotations

import json
import marshal
import zipfile
from pathlib import Path

import dist_windows
import pe_image

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


def test_libraries_are_mapped_page_by_page_and_load_no_others() -> None:
    """What Wine can only read takes memory to its last byte; bcrypt.dll and user32.dll bring half a system along."""
    with zipfile.ZipFile(distribution()) as archive:
        images = {name: archive.read(name) for name in archive.namelist() if name.endswith((".dll", ".pyd", ".exe"))}
    whole = {name for name, data in images.items() if all(place % 4096 == 0 for place, _ in sections(data))}
    backend = next(name for name in images if "_cffi_backend" in name)
    assert {f"{FOLDER}/python313.dll", backend, "containerd-shim-runhcs-v1.exe", "runhcs.exe"} <= whole
    imported = {name: imports(data) for name, data in images.items()}
    assert "py-rng.dll" in imported[f"{FOLDER}/python313.dll"] and "no-msg.dll" in imported[backend]
    assert not {"bcrypt.dll", "user32.dll"} & set().union(*imported.values())
    notes = zipfile.ZipFile(distribution()).read(f"{FOLDER}/CHANGES.txt").decode()
    assert "python313.dll" in notes and "_cffi_backend" in notes


def test_a_changed_image_is_the_same_in_memory() -> None:
    before = dist_windows.python_files()["python313.dll"]
    after = pe_image.with_whole_pages(before)
    assert len(sections(before)) == len(sections(after)) == 7
    differing = 0
    for (old, size), (new, _) in zip(sections(before), sections(after), strict=True):
        pairs = zip(before[old : old + size], after[new : new + size], strict=True)
        differing += sum(one != other for one, other in pairs)
    assert differing <= 4 * 3  # where in the file the three entries of the debug directory lead
    assert imports(before) == imports(after) and "bcrypt.dll" in imports(before)
    assert "py-rng.dll" in imports(pe_image.with_import_renamed(after, "bcrypt.dll", "py-rng.dll"))


def sections(data: bytes) -> list[tuple[int, int]]:
    """Where each is in the file, and how long it is in memory or in the file, whichever is less."""
    image = pe_image.Image(data)
    return [
        (image.number(one + 20), min(image.number(one + 8), image.number(one + 16)))
        for one in image.sections
        if image.number(one + 16)
    ]


def imports(data: bytes) -> set[str]:
    return {name.lower() for name in pe_image.Image(data).imports()}


def test_two_builds_give_the_same_bytes(tmp_path: Path) -> None:
    again = tmp_path / "again.zip"
    dist_windows.build(again)
    assert again.read_bytes() == distribution().read_bytes(), "not the same, or dist/ is old: make dist-windows"


def test_only_modules_that_can_be_used() -> None:
    """Nothing of Linux, of the emulator, of tests, and of Python's library only what is imported somewhere."""
    with zipfile.ZipFile(distribution()) as archive:
        data = archive.read(f"{FOLDER}/lib/modules.bin")
    names = set(marshal.loads(data[4 : 4 + int.from_bytes(data[:4], "little")]))
    for word in (".linux", "_linux", "hcs_emulator", "runhcs.containerd", "runhcs.demo", ".test"):
        assert not [name for name in names if word in name]
    for word in ("unittest", "asyncio", "email", "multiprocessing", "pydoc", "tkinter", "xml"):
        assert not [name for name in names if name.startswith(word)]
    assert {"argparse", "shim.commands.serve", "runhcs.doctor.command"} <= names


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

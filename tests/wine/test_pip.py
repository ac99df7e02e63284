"""`pip install` on Windows: the wheel, installed by pip itself into a Python for Windows, and its console scripts."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import windows_packages

from tests.wine.conftest import ROOT, Machine

# What pip would fetch by itself; here it may not, and finds them in a folder.
PIP = ("pip==25.3", "9655943313a94722b7774661c21049070f6bbb0a1516bf02f7c8d5d9201514cd")
PYCPARSER = ("pycparser==3.12", "a076f3f489b39b43ed13563a1dafe42447445bec2e294154ec5c57fcdda4c85e")
SCRIPTS = r"C:\installed\Scripts"


def build_wheel(directory: Path) -> Path:
    """From a copy: setuptools leaves things behind where it builds."""
    source = directory / "source"
    source.mkdir()
    for name in ("shim", "runhcs", "hcs_emulator", "bench"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__", "build"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    pip = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", directory, source]
    done = subprocess.run(pip, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300)
    assert done.returncode == 0, done.stdout.decode()
    return next(directory.glob("*.whl"))


@pytest.fixture(scope="module")
def installed(machine: Machine, tmp_path_factory: pytest.TempPathFactory) -> Machine:
    """A machine with our wheel, as pip has installed it."""
    python = machine.drive / "installed"
    python.mkdir()
    for name, data in windows_packages.python_files().items():
        if name != "_wmi.pyd":  # Wine 8 lacks a function of WMI's; Python does without it
            (python / name).write_bytes(data)
    # The embeddable Python looks for packages only when told; an installed one does by itself.
    (python / "python313._pth").write_text("python313.zip\n.\nLib\\site-packages\nimport site\n")
    wheels = machine.drive / "wheels"
    wheels.mkdir()
    shutil.copy(build_wheel(tmp_path_factory.mktemp("wheel")), wheels)
    for requirement in (PIP, PYCPARSER):
        shutil.copy(windows_packages.download(*requirement), wheels)
    shutil.copy(windows_packages.cffi_wheel(), wheels)
    with zipfile.ZipFile(next(wheels.glob("pip-*.whl"))) as archive:
        archive.extractall(python / "Lib" / "site-packages")
    options = ("--no-index", "--find-links", r"C:\wheels", "--no-warn-script-location", "--no-cache-dir")
    program = r"C:\installed\python.exe"
    done = machine.run(program, "-m", "pip", "install", *options, "containerd-shim-runhcs", timeout=300)
    assert done.returncode == 0, done.stdout.decode(errors="replace")
    return machine


def test_console_scripts_run(installed: Machine) -> None:
    done = installed.run(rf"{SCRIPTS}\containerd-shim-runhcs-v1.exe", "-version")
    assert done.returncode == 0, done.stdout
    assert b"containerd-shim-runhcs-v1" in done.stdout
    done = installed.run(rf"{SCRIPTS}\runhcs.exe", "explain", "0xc0370106")
    assert done.returncode == 0, done.stdout
    assert b"HCS_E_UNEXPECTED_EXIT" in done.stdout


def test_container_lifecycle(installed: Machine) -> None:
    result = installed.drive_shim("life", rf"{SCRIPTS}\containerd-shim-runhcs-v1.exe")
    assert result["text"] == "hello from windows\r\n"
    assert result["status"] == 70000
    assert result["gone"]

"""`pip install` on Windows: the wheel, installed by pip itself into a Python for Windows, and its console scripts."""

from __future__ import annotations

import json
import shutil
import zipfile

import pytest
import windows_packages

from tests.support.wheel import build_wheel
from tests.wine.conftest import Machine

# The packages that pip would download; here it finds them in a directory.
PIP = ("pip==25.3", "9655943313a94722b7774661c21049070f6bbb0a1516bf02f7c8d5d9201514cd")
PYCPARSER = ("pycparser==3.12", "a076f3f489b39b43ed13563a1dafe42447445bec2e294154ec5c57fcdda4c85e")
# Of the extra `runhcs`, beside those of the zip.
RICH = (
    ("rich==15.0.0", "33bd4ef74232fb73fe9279a257718407f169c09b78a87ad3d296f548e27de0bb"),
    ("markdown-it-py==4.3.0", "7aa1511a46c39138de78d9eba92ce47e63124d8003fc98b3a351909e04239efa"),
    ("mdurl==0.1.2", "84008a41e51615a49fc9966191ff91509e3c40b939176e643fd50a5c2196b8f8"),
    ("pygments==2.21.0", "2363c69b61c4a97c838da3b130dcd6468f4848992b21a82f2a63ec34377137d9"),
)
PYTHON = windows_packages.requested_python()
SCRIPTS = r"C:\installed\Scripts"


@pytest.fixture(scope="module")
def installed(machine: Machine, tmp_path_factory: pytest.TempPathFactory) -> Machine:
    """A machine with our wheel, installed by pip."""
    python = machine.drive / "installed"
    python.mkdir()
    for name, data in PYTHON.files.items():
        if name != "_wmi.pyd":  # Wine 8 lacks a function of WMI that it imports; Python works without it
            (python / name).write_bytes(data)
    # The embeddable Python searches site-packages only if its ._pth file says so; an installed one always does.
    (python / "python313._pth").write_text("python313.zip\n.\nLib\\site-packages\nimport site\n")
    wheels = machine.drive / "wheels"
    wheels.mkdir()
    shutil.copy(build_wheel(tmp_path_factory.mktemp("wheel")), wheels)
    for requirement in (PIP, PYCPARSER, *windows_packages.PURE_PYTHON, *RICH):
        shutil.copy(windows_packages.download(*requirement), wheels)
    shutil.copy(PYTHON.cffi_wheel(), wheels)
    shutil.copy(PYTHON.pywin32_wheel(), wheels)
    with zipfile.ZipFile(next(wheels.glob("pip-*.whl"))) as archive:
        archive.extractall(python / "Lib" / "site-packages")
    options = ("--no-index", "--find-links", r"C:\wheels", "--no-warn-script-location", "--no-cache-dir")
    program = r"C:\installed\python.exe"
    done = machine.run(program, "-m", "pip", "install", *options, "containerd-shim-runhcs[runhcs]", timeout=300)
    assert done.returncode == 0, done.stdout.decode(errors="replace")
    return machine


def test_console_scripts_run(installed: Machine) -> None:
    done = installed.run(rf"{SCRIPTS}\containerd-shim-runhcs-v1.exe", "-version")
    assert done.returncode == 0, done.stdout
    assert b"containerd-shim-runhcs-v1" in done.stdout
    done = installed.run(rf"{SCRIPTS}\runhcs.exe", "explain", "0xc0370106")
    assert done.returncode == 0, done.stdout
    assert b"HCS_E_UNEXPECTED_EXIT" in done.stdout


def test_doctor_uses_pywin32(installed: Machine) -> None:
    done = installed.run(rf"{SCRIPTS}\runhcs.exe", "doctor", "--json")
    report = json.loads(done.stdout[done.stdout.index(b"{") :])  # Wine may print a warning first
    checks = {check["name"]: check for check in report["checks"]}
    assert "pywin32" not in checks and checks["administrator"]["outcome"] == "ok"
    assert checks["vmcompute"]["outcome"] == "fail", "Wine has no such service"
    assert not [check for check in report["checks"] if "the check itself failed" in check["finding"]]


def test_container_lifecycle(installed: Machine) -> None:
    result = installed.drive_shim("lifecycle", rf"{SCRIPTS}\containerd-shim-runhcs-v1.exe")
    assert result["text"] == "hello from windows\r\n"
    assert result["status"] == 70000
    assert result["exited"]

"""`pip install` on Windows: the wheel, installed by pip itself into a Python for Windows, and its console scripts."""

from __future__ import annotations

import json
import shutil
import zipfile

import pytest
import windows_packages

from tests.support.wheel import build_wheel
from tests.wine.agent_checks import check_observed
from tests.wine.conftest import Machine

PIP = ("pip==25.3", "9655943313a94722b7774661c21049070f6bbb0a1516bf02f7c8d5d9201514cd")
PYTHON = windows_packages.requested_python()
SCRIPTS = r"C:\installed\Scripts"
# Downloads what the lock file has, and pip writes some thousand files under Wine.
INSTALL_TIMEOUT = 900
pytestmark = pytest.mark.timeout(INSTALL_TIMEOUT)


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
    shutil.copytree(windows_packages.locked_wheels(PYTHON), wheels)
    shutil.copy(build_wheel(tmp_path_factory.mktemp("wheel")), wheels)
    shutil.copy(windows_packages.download(*PIP), wheels)
    with zipfile.ZipFile(next(wheels.glob("pip-*.whl"))) as archive:
        archive.extractall(python / "Lib" / "site-packages")
    options = ("--no-index", "--find-links", r"C:\wheels", "--no-warn-script-location", "--no-cache-dir")
    program = r"C:\installed\python.exe"
    done = machine.run(program, "-m", "pip", "install", *options, "containerd-shim-runhcs[agent]", timeout=600)
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


def test_agent_serves_metrics_of_the_shims_of_the_zip(installed: Machine) -> None:
    check_observed(installed.drive_shim("installed", script="agent_driver.py"))

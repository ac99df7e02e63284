"""`pip install` on Windows: the wheel, installed by pip itself into a Python for Windows, and its console scripts."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import pytest
import windows_packages

from tests.support.wheel import build_wheel
from tests.wine.conftest import ROOT, Machine

PIP = ("pip==25.3", "9655943313a94722b7774661c21049070f6bbb0a1516bf02f7c8d5d9201514cd")
PYTHON = windows_packages.requested_python()
SCRIPTS = r"C:\installed\Scripts"
LOCK = ROOT / "requirements" / "windows.lock"
# Downloads what the lock file has, and pip writes some thousand files under Wine.
INSTALL_TIMEOUT = 900
pytestmark = pytest.mark.timeout(INSTALL_TIMEOUT)


def locked_wheels() -> Path:
    """The packages that pip would download, here from a directory: those of the lock file, in the cache."""
    directory = windows_packages.CACHE / "windows" / f"wheels-{windows_packages.sha256(LOCK)[:16]}"
    if not directory.exists():
        directory.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=directory.parent) as partial:
            wheels = Path(partial) / "wheels"
            pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--require-hashes", "-r", LOCK]
            platform = ["--only-binary=:all:", "--platform=win_amd64", f"--python-version={PYTHON.minor}"]
            subprocess.run([*pip, *platform, "-d", wheels], check=True, stdout=sys.stderr, timeout=INSTALL_TIMEOUT)
            wheels.rename(directory)
    return directory


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
    shutil.copytree(locked_wheels(), wheels)
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
    result = installed.drive_shim("lifecycle", script="agent_driver.py")
    assert result["exited"]

    def sample(scrape: str, name: str, **labels: str) -> float:
        """The sum of the samples with these labels."""
        lines = [line for line in result[scrape].splitlines() if re.match(rf"{name}[{{ ]", line)]
        wanted = [f'{key}="{value}"' for key, value in labels.items()]
        return sum(float(line.rpartition(" ")[2]) for line in lines if all(one in line for one in wanted))

    assert sample("running", "runhcs_shims", state="ok") == 1
    assert sample("running", "runhcs_tasks", state="running", isolation="process") == 1
    assert sample("running", "runhcs_shim_resident_memory_bytes", id="observed") > 1 << 20
    assert sample("running", "runhcs_shim_cpu_seconds_total", id="observed") > 0
    assert "runhcs_shim_handles{" in result["running"], "Wine reports 0 handles"
    for method in ("Create", "Start", "Kill", "Wait", "Delete"):
        assert sample("ended", "runhcs_rpc_duration_seconds_count", method=method) == 1, method
    assert sample("ended", "runhcs_hcs_call_duration_seconds_count", call="HcsCreateComputeSystem") == 1
    assert sample("ended", "runhcs_telemetry_dropped_total") == 0
    assert [line.split()[3] for line in result["events"].splitlines()] == ["create", "start", "exit", "delete"]
    assert "Create" in result["trace"] and "HcsCreateComputeSystem" in result["trace"]
    assert "no agent" not in result["top"]

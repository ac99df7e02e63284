"""Linux containers in utility VMs under Wine: our shim of the zip and Microsoft's, with either Linux guest."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.lcow_image import make_base_layer, make_boot_files, make_scratch
from tests.wine.conftest import Machine, go_programs

RUNNING = 2
UNKNOWN = 2
PROGRAM = "containerd-shim-runhcs-v1.exe"


@pytest.fixture(params=["ours", "go"])
def shim(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["emulated", "gcs"])
def drive(request: pytest.FixtureRequest, shim: str, machine: Machine) -> Callable[[str], Any]:
    """Runs a scenario of lcow_driver.py with either shim and either guest."""
    if not (machine.drive / "lcow").exists():
        make_base_layer(machine.drive / "lcow" / "base")
        make_scratch(machine.drive / "lcow")
    directory = machine.drive / ("node" if shim == "ours" else "hcsshim")
    if not directory.exists():
        directory.mkdir()
        shutil.copy(go_programs("hcsshim") / PROGRAM, directory)
    make_boot_files(directory / "LinuxBootFiles", guest=request.param)
    return lambda scenario: machine.drive_shim(scenario, rf"C:\{directory.name}\{PROGRAM}", "lcow_driver.py")


def test_container(drive: Callable[[str], Any], shim: str) -> None:
    result = drive("container")
    assert result["lines"] == ["through the VM"] * 1000 and result["stderr"] == "end\n"
    assert result["status"] == result["deleted"] == 7
    assert result["second"] == [5, "0\n"] and result["killed"] == 143
    assert result["pid"] in result["pids"]
    # Microsoft's shim looks for the process vmmem of the VM, which Wine does not have.
    assert result["stats"] == (0 if shim == "ours" else UNKNOWN)
    names = ["create", "start"] + ["exec-added", "exec-started", "exit", "delete"] * 2 + ["exit", "delete"]
    assert result["events"] == [f"/tasks/{name}" for name in names]
    assert result["exited"]


def test_mounts(drive: Callable[[str], Any]) -> None:
    result = drive("mounts")
    assert result["text"] == "of the host\nof the host\nread-only\n" and result["status"] == 0
    assert result["written"] == "of the guest\n" and result["exited"]


def test_pod(drive: Callable[[str], Any]) -> None:
    result = drive("pod")
    assert result["outputs"] == ["from 1", "from 2"] and result["statuses"] == [1, 2]
    assert result["same"], "the pod's containers are served by its sandbox's shim"
    assert (result["state"], result["status"]) == (RUNNING, 137)
    assert result["events"] == [f"/tasks/{topic}" for topic in ("create", "delete", "exit", "start") for _ in range(3)]
    assert result["exited"]


def test_missing_scratch_disk(drive: Callable[[str], Any]) -> None:
    assert drive("missing_layer") == {"code": UNKNOWN, "exited": True}


@pytest.mark.parametrize("shim", ["ours"])  # Microsoft's has no Sandbox service
def test_sandbox_service(drive: Callable[[str], Any]) -> None:
    result = drive("sandbox_service")
    assert result["platform"] == ["linux", "amd64"]
    assert result["pid"] > 0 and result["status"] == 0
    assert result["init"] == "/pause"

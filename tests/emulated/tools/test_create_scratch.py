"""`runhcs create-scratch` with a utility VM of the emulator."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.emulator import Emulator
from tests.support.eventually import eventually

TIMEOUT = 100.0
VM = "createscratch-uvm"


@pytest.fixture(params=["emulated", "gcs"])
def emulator(request: pytest.FixtureRequest, start_emulator: Callable[..., Emulator]) -> Emulator:
    """With either Linux guest."""
    return start_emulator("--linux-guest", request.param)


def command(disk: Path, *arguments: str, options: tuple[str, ...] = ()) -> list[str]:
    return [sys.executable, "-m", "runhcs", *options, "create-scratch", "--destpath", str(disk), *arguments]


def create(emulator: Emulator, disk: Path, *arguments: str, options: tuple[str, ...] = ()) -> tuple[int, str]:
    done = subprocess.run(
        command(disk, *arguments, options=options), env=emulator.env, capture_output=True, text=True, timeout=TIMEOUT,
        check=False,
    )  # fmt: skip
    assert not done.stdout, done.stdout
    return done.returncode, done.stderr


def is_clean(emulator: Emulator) -> bool:
    return not emulator.control("status")["systems"]


def guest_messages(emulator: Emulator) -> list[tuple[str, Any]]:
    found = []
    for entry in emulator.journal():
        name = entry.get("call", "")
        if name == "guest:ModifySettings":
            request = entry["arguments"]["Request"]
            found.append((f"{request['RequestType']} {request['ResourceType']}", request["Settings"]))
        elif name.startswith("guest:"):
            found.append((name.removeprefix("guest:"), entry["arguments"]))
    return found


def test_disk_is_formatted_as_the_snapshotter_requests(emulator: Emulator, tmp_path: Path) -> None:
    disk, log = tmp_path / "scratch-tmp.vhdx", tmp_path / "runhcs-scratch.log"
    options = ("--debug", "--log", str(log), "--log-format", "json", "--owner", "containerd")
    assert create(emulator, disk, "--sizeGB", "1", options=options) == (0, "")
    assert disk.stat().st_size == 1 << 30 and disk.stat().st_blocks * 512 < 256 << 20
    features = subprocess.run(["dumpe2fs", "-h", str(disk)], capture_output=True, text=True, check=True).stdout
    assert "sparse_super2" in features and "has_journal" not in features and "resize_inode" not in features
    assert is_clean(emulator)
    messages = [json.loads(line)["msg"] for line in log.read_text().splitlines()]
    assert "lcow::CreateScratch opts" in messages and "lcow::CreateScratch created (non-cache)" in messages
    assert sorted(path.name for path in tmp_path.iterdir()) == [log.name, disk.name]


def test_vm_and_messages_are_those_of_hcsshim(emulator: Emulator, tmp_path: Path) -> None:
    disk = tmp_path / "s.vhdx"
    assert create(emulator, disk, "--sizeGB=1", options=("--owner", "containerd")) == (0, "")
    (created,) = emulator.journal("HcsCreateComputeSystem")
    document = created["arguments"]["configuration"]
    machine = document["VirtualMachine"]
    assert (created["arguments"]["id"], document["Owner"]) == (VM, "containerd")
    assert machine["ComputeTopology"]["Memory"] == {"SizeInMB": 512}
    assert "VirtualPMem" not in machine["Devices"] and len(machine["Devices"]["Scsi"]) == 4
    messages = dict(guest_messages(emulator))
    assert messages["Add MappedVirtualDisk"] == {"MountPath": "/run/mounts/scsi/m0", "BlockDev": True}
    parameters = messages["ExecuteProcess"]["Settings"]["ProcessParameters"]
    parameters = json.loads(parameters) if isinstance(parameters, str) else parameters
    assert parameters["CommandArgs"] == [
        "mkfs.ext4", "-q", "-E", "lazy_itable_init=0,nodiscard", "-O", "^has_journal,sparse_super2,^resize_inode",
        "/run/mounts/scsi/m0",
    ]  # fmt: skip
    assert messages["Remove MappedVirtualDisk"] and "Remove SCSIDevice" in messages


def test_virtual_memory_has_one_memory_device(emulator: Emulator, tmp_path: Path) -> None:
    assert create(emulator, tmp_path / "s.vhdx", "--sizeGB=1", "--use-virtual-memory") == (0, "")
    machine = emulator.journal("HcsCreateComputeSystem")[0]["arguments"]["configuration"]["VirtualMachine"]
    assert machine["Devices"]["VirtualPMem"]["MaximumCount"] == 1 and len(machine["Devices"]["Scsi"]) == 1
    assert machine["ComputeTopology"]["Memory"] == {"SizeInMB": 512, "AllowOvercommit": True}


def test_two_at_once_both_succeed(emulator: Emulator, tmp_path: Path) -> None:
    disks = [tmp_path / f"{number}.vhdx" for number in range(2)]
    started = [
        subprocess.Popen(command(disk, "--sizeGB=1"), env=emulator.env, stderr=subprocess.PIPE) for disk in disks
    ]
    outputs = [one.communicate(timeout=TIMEOUT)[1] for one in started]
    assert outputs == [b"", b""] and all(disk.exists() for disk in disks) and is_clean(emulator)


@pytest.mark.parametrize(
    "call",
    [
        "HcsCreateComputeSystem", "HcsStartComputeSystem", "CreateVirtualDisk", "GrantVmAccess",
        "HcsModifyComputeSystem", "guest:NegotiateProtocol", "guest:ModifySettings", "guest:ExecuteProcess",
    ],
)  # fmt: skip
def test_failure_leaves_nothing(emulator: Emulator, tmp_path: Path, call: str) -> None:
    disk = tmp_path / "s.vhdx"
    emulator.fault(call, error=0x80070005)
    code, error = create(emulator, disk, "--sizeGB=1")
    assert code == 1 and error.startswith("runhcs create-scratch: ") and len(error.splitlines()) == 1, error
    assert not disk.exists() and is_clean(emulator)


@pytest.mark.parametrize("call", ["guest:ModifySettings", "guest:ExecuteProcess", "guest:WaitForProcess"])
def test_crash_of_the_vm_leaves_nothing(emulator: Emulator, tmp_path: Path, call: str) -> None:
    disk = tmp_path / "s.vhdx"
    emulator.fault(call, crash_vm=True)
    code, error = create(emulator, disk, "--sizeGB=1")
    assert code == 1 and len(error.splitlines()) == 1, error
    assert not disk.exists() and is_clean(emulator)


def test_missing_boot_files_are_named(emulator: Emulator, tmp_path: Path) -> None:
    for name in ("vmlinux", "kernel"):
        (emulator.directory / "LinuxBootFiles" / name).unlink()
    code, error = create(emulator, tmp_path / "s.vhdx")
    assert code == 1 and "kernel: '" in error and "not found" in error
    assert not emulator.journal("HcsCreateComputeSystem")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_killed_command_leaves_no_vm(emulator: Emulator, tmp_path: Path, number: signal.Signals) -> None:
    emulator.fault("HcsModifyComputeSystem", delay=30.0)
    # A process that is killed leaves its temporary directory.
    env = emulator.env | {"TMPDIR": str(tmp_path)}
    started = subprocess.Popen(command(tmp_path / "s.vhdx", "--sizeGB=1"), env=env)
    eventually(lambda: bool(emulator.control("status")["systems"]), "the VM")
    started.send_signal(number)
    started.wait(TIMEOUT)
    eventually(lambda: is_clean(emulator), "the end of the VM", 60)

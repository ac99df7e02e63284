"""The shim of the Windows distribution, over named pipes, on the emulator's DLLs."""

from __future__ import annotations

import subprocess

from tests.wine.conftest import Machine

RUNNING = 2


def test_version(machine: Machine) -> None:
    done = machine.run(r"C:\node\containerd-shim-runhcs-v1.exe", "-version")
    assert done.returncode == 0
    assert b"containerd-shim-runhcs-v1" in done.stdout


def test_container_lifecycle(machine: Machine) -> None:
    result = machine.drive_shim("life")
    assert result["address"] == r"\\.\pipe\ProtectedPrefix\Administrators\containerd-shim-wine-life-pipe"
    assert result["text"] == "hello from windows\r\n"
    assert result["stderr"] == ""
    assert result["status"] == result["deleted"] == 70000
    assert result["pid"] > 0
    assert result["gone"]
    assert result["answer"] > 0
    assert result["events"] == ["/tasks/create", "/tasks/start", "/tasks/exit", "/tasks/delete"]


def test_stdin(machine: Machine) -> None:
    result = machine.drive_shim("stdin")
    assert result["status"] == 0
    assert result["lines"] == 1000
    assert result["last"] == ["line 000999 of many that go in and must come out"]
    assert result["stderr"] == f"{result['size']}\r\n"
    assert result["gone"]


def test_exec_and_kill(machine: Machine) -> None:
    result = machine.drive_shim("execs_and_kill")
    assert result["second"] == 5
    assert result["text"] == "second\r\n"
    assert result["running"] == RUNNING
    assert result["status"] != 0
    assert "nobody" in result["missing"]
    assert result["gone"]


def test_bundle_is_removable_after_shutdown(machine: Machine) -> None:
    """An open file in it would keep it: Windows removes no folder of a file that somebody has open."""
    result = machine.drive_shim("bundle_removed")
    assert result["problem"] == ""
    assert result["gone"]


def test_squatted_pipe_name_is_reported(machine: Machine) -> None:
    result = machine.drive_shim("squatted")
    assert "is taken" in result["error"]
    assert result["left"] == ["config.json"]


def test_pipe_security_descriptor(machine: Machine) -> None:
    result = machine.drive_shim("descriptor")
    assert result["text"] == "D:P(A;;GA;;;BA)(A;;GA;;;SY)"
    assert result["gone"]


def test_emulator_dll_imports_the_system_dlls_of_the_real_one(machine: Machine) -> None:
    """Otherwise the memory of a shim under Wine would look smaller than on Windows."""
    library = machine.drive / "windows" / "system32" / "computecore.dll"
    command = ["x86_64-w64-mingw32-objdump", "-p", str(library)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    imported = {line.split()[-1].lower() for line in done.stdout.splitlines() if "DLL Name:" in line}
    assert {"ole32.dll", "oleaut32.dll", "rpcrt4.dll", "user32.dll"} <= imported

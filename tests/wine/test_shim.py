"""The shim of the Windows distribution, over named pipes, with the emulator's DLLs."""

from __future__ import annotations

import subprocess

from tests.wine.conftest import Machine

RUNNING = 2


def test_version(machine: Machine) -> None:
    done = machine.run(r"C:\node\containerd-shim-runhcs-v1.exe", "-version")
    assert done.returncode == 0
    assert b"containerd-shim-runhcs-v1" in done.stdout


def test_container_lifecycle(machine: Machine) -> None:
    result = machine.drive_shim("lifecycle")
    assert result["address"] == r"\\.\pipe\ProtectedPrefix\Administrators\containerd-shim-wine-lifecycle-pipe"
    assert result["text"] == "hello from windows\r\n"
    assert result["stderr"] == ""
    assert result["status"] == result["deleted"] == 70000
    assert result["pid"] > 0
    assert result["exited"]
    assert result["response"] > 0
    assert result["events"] == ["/tasks/create", "/tasks/start", "/tasks/exit", "/tasks/delete"]


def test_stdin(machine: Machine) -> None:
    result = machine.drive_shim("stdin")
    assert result["status"] == 0
    assert result["lines"] == 1000
    assert result["last"] == ["line 000999 of many that go in and must come out"]
    assert result["stderr"] == f"{result['size']}\r\n"
    assert result["exited"]


def test_exec_and_kill(machine: Machine) -> None:
    result = machine.drive_shim("execs_and_kill")
    assert result["second"] == 5
    assert result["text"] == "second\r\n"
    assert result["running"] == RUNNING
    assert result["status"] != 0
    assert "missing" in result["missing"]
    assert result["exited"]


def test_bundle_is_removable_after_shutdown(machine: Machine) -> None:
    """Windows does not remove a directory with an open file."""
    result = machine.drive_shim("bundle_removed")
    assert result["problem"] == ""
    assert result["exited"]


def test_squatted_pipe_name_is_reported(machine: Machine) -> None:
    result = machine.drive_shim("squatted")
    assert "is taken" in result["error"]
    assert result["remaining"] == ["config.json"]


def test_pipe_security_descriptor(machine: Machine) -> None:
    result = machine.drive_shim("descriptor")
    assert result["text"] == "D:P(A;;GA;;;BA)(A;;GA;;;SY)"
    assert result["exited"]


def test_emulator_dll_imports_the_system_dlls_of_the_real_one(machine: Machine) -> None:
    """Otherwise the memory of a shim under Wine would look smaller than on Windows."""
    library = machine.drive / "windows" / "system32" / "computecore.dll"
    command = ["x86_64-w64-mingw32-objdump", "-p", str(library)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    imported = {line.split()[-1].lower() for line in done.stdout.splitlines() if "DLL Name:" in line}
    assert {"ole32.dll", "oleaut32.dll", "rpcrt4.dll", "user32.dll"} <= imported

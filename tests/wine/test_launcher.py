"""The commands of the Windows launcher without Python, compared with Python."""

from __future__ import annotations

import itertools
import os
import pwd
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shim.api.task import DeleteResponse
from tests.wine.conftest import Machine

SHIM = "containerd-shim-runhcs-v1.exe"
INSTALLED = rf"C:\node\{SHIM}"
# No Python beside it.
ALONE = rf"C:\alone\{SHIM}"
# An account that Wine has: the one of this process.
USER = pwd.getpwuid(os.getuid()).pw_name
FLAGS = ("-namespace", "wine", "-address", r"\\.\pipe\none", "-publish-binary", "none")

numbers = itertools.count(1)


@pytest.fixture(autouse=True, scope="module")
def alone(machine: Machine) -> Iterator[None]:
    directory = machine.drive / "alone"
    directory.mkdir()
    shutil.copy(machine.drive / "node" / SHIM, directory)
    yield
    shutil.rmtree(directory)


@pytest.fixture
def bundle(machine: Machine) -> Path:
    directory = machine.drive / "work" / f"launcher-{next(numbers)}"
    directory.mkdir(parents=True)
    return directory


def delete(machine: Machine, program: str, bundle: Path, *more: str, name: str = "") -> tuple[int, bytes]:
    path = name or rf"C:\work\{bundle.name}"
    done = machine.run(program, *FLAGS, "-id", "c1", "-bundle", path, *more, "delete")
    return done.returncode, done.stdout


# delete


def test_delete_ignores_a_forged_crash_log(machine: Machine, bundle: Path) -> None:
    """Of a shared daemon: the file has the path of the log."""
    for content in (b"\xff\xfe", b"C:\\work\0x"):
        (bundle / "daemon-panic.log").write_bytes(content)
        assert delete(machine, INSTALLED, bundle)[0] == 0


def test_delete_after_regular_exit_runs_without_python(
    machine: Machine, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (bundle / "panic.log").touch()
    (bundle / "address").write_text(r"\\.\pipe\whatever")
    lines = '{"n":"0","hcs":"/run/hcs"}\n{"n":"1","enter":"layer","path":"C:\\\\x"}\n{"n":"1","strike":"layer"}\n'
    (bundle / "ledger.jsonl").write_bytes(lines.encode())
    (bundle / "exit").write_bytes(b"70000 1700000000 5 4711\n")
    output = delete(machine, ALONE, bundle, "-debug")
    assert output == delete(machine, ALONE, bundle, name=f"c:/{bundle.parent.name}/{bundle.name}")
    monkeypatch.setitem(machine.environment, "RUNHCS_NATIVE", "0")
    assert output == delete(machine, INSTALLED, bundle)
    response = DeleteResponse.decode(output[1])
    assert (output[0], response.exit_status, response.pid) == (0, 70000, 4711)
    moment = response.exited_at
    assert moment is not None and (moment.seconds, moment.nanos) == (1_700_000_000, 5)


def test_delete_of_missing_bundle_runs_without_python(machine: Machine, bundle: Path) -> None:
    bundle.rmdir()
    code, output = delete(machine, ALONE, bundle)
    response = DeleteResponse.decode(output)
    assert (code, response.exit_status, response.pid) == (0, 255, 0)
    assert response.exited_at is not None and abs(response.exited_at.seconds - time.time()) < 600


def test_delete_without_ledger_leaves_an_existing_user_to_python(machine: Machine, bundle: Path) -> None:
    """It may be of this container. Python sees that it is not, and keeps it."""
    flags = (*FLAGS, "-id", USER, "-bundle", rf"C:\work\{bundle.name}", "delete")
    done = machine.run(ALONE, *flags)
    assert done.returncode == 1 and b"cannot run" in done.stdout
    done = machine.run(INSTALLED, *flags)
    assert done.returncode == 0 and DeleteResponse.decode(done.stdout).exit_status == 255
    (bundle / "ledger.jsonl").write_bytes(b'{"n":"0","hcs":"/run/hcs"}\n')
    assert machine.run(ALONE, *flags).returncode == 0, "the ledger lists every user"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("panic.log", "panic"),
        ("ledger.jsonl", '{"n":"1","enter":"layer","path":"C:\\\\x"}\n'),
        ("ledger.jsonl", '{"n":"1","enter":"layer","path":"C:\\\\x"}\n{"n":"1","strike":"lay'),
        ("exit", "7 1700000000 5 4711"),
    ],
)
def test_delete_with_remaining_resources_falls_back_to_python(
    machine: Machine, bundle: Path, name: str, text: str
) -> None:
    (bundle / name).write_bytes(text.encode())
    code, output = delete(machine, ALONE, bundle)
    assert code == 1 and b"cannot run" in output


@pytest.mark.parametrize("name", ["work", r"\\?\C:\work", r"C:\io.containerd.sandbox.controller.v1.shim\ns\c1", "C:x"])
def test_delete_with_other_bundle_paths_falls_back_to_python(machine: Machine, bundle: Path, name: str) -> None:
    code, output = delete(machine, ALONE, bundle, name=name)
    assert code == 1 and b"cannot run" in output


def test_native_commands_switched_off_fall_back_to_python(
    machine: Machine, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(machine.environment, "RUNHCS_NATIVE", "0")
    code, output = delete(machine, ALONE, bundle)
    assert code == 1 and b"cannot run" in output


# start


def drive(machine: Machine, scenario: str) -> Any:
    return machine.drive_shim(scenario, script="start_driver.py")


def test_start_equals_python(machine: Machine) -> None:
    native, by_python = drive(machine, "launcher_equals_python")
    assert native.pop("native") == [True] and by_python.pop("native") == [False]
    for number, one in enumerate((native, by_python)):
        name = rf"\\.\pipe\ProtectedPrefix\Administrators\containerd-shim-wine-equal{1 - number}-pipe"
        assert one.pop("output") == [0, name] and one.pop("address") == name
    assert native == by_python
    assert native["files"] == ["address", "config.json", "panic.log", "shim.pid"]
    assert native["same"] and native["exited"] and native["debug"] == [True]


def test_log_pipe_exists_before_start_returns(machine: Machine) -> None:
    """containerd connects to it while `start` runs and gives up after 5 seconds without it."""
    native, by_python = drive(machine, "log_pipe")
    assert int(native.pop("handle")) > 0, "created by the launcher, before the daemon's process"
    assert by_python.pop("handle") == ""
    for one in (native, by_python):
        assert "starting containerd-shim-runhcs-v1" in one.pop("line")
        assert one == {"code": 0, "there": True, "exited": True}


def test_start_options_on_stdin(machine: Machine) -> None:
    result = drive(machine, "options")
    assert result["usual"] == result["generic"] == [0, [True], True]
    assert result["long"] == [0, [False], True]
    assert result["scope"] == result["default scope"] == [0, [True], True], "the first pod starts a shared daemon"
    refused = {"refused": "debug_type", "foreign": "runc", "too long": "10 MiB"}
    for name, words in refused.items():
        code, output, remaining = result[name]
        assert code == 1 and words in output and remaining == ["config.json"], name


def test_start_with_pipe_in_use_falls_back_with_stdin(machine: Machine) -> None:
    code, output, remaining, other_code, other_output = drive(machine, "taken_pipe_name")
    assert code == 1 and "is taken" in output and remaining == ["config.json"]
    assert other_code == 1 and "debug_type" in other_output


def test_closed_stdout_reader_undoes_start_and_reports(machine: Machine) -> None:
    code, output, remaining, exited = drive(machine, "closed_stdout")
    assert code == 1 and "cannot print the address" in output and remaining == ["config.json"] and exited


def test_daemon_exits_when_start_is_terminated(machine: Machine) -> None:
    assert drive(machine, "killed_start") == [True, 0, True]


def test_start_for_sandbox_service_equals_python(machine: Machine) -> None:
    native, by_python = drive(machine, "service")
    assert native == by_python
    assert native[0] == 0 and native[1].startswith('{"version":3,"address":"\\\\\\\\.\\\\pipe\\\\')
    assert native[2:] == [[True], True]


def test_join_pod_runs_without_python(machine: Machine) -> None:
    result = drive(machine, "pod_member")
    assert result["output"] == [0, result["address"]]
    assert result["files"] == ["address", "config.json", "shim.pid"]
    assert result["same"] and result["exited"]
    assert result["late"][0] == 1 and "remove the pod and make it again" in result["late"][1]

"""The native commands of the shim's launcher: what they do without Python, and that Python does the same."""

from __future__ import annotations

import itertools
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
# Nothing beside it: there is no Python that could have done it.
ALONE = rf"C:\alone\{SHIM}"
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


def test_delete_after_an_orderly_end_needs_no_python(
    machine: Machine, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (bundle / "panic.log").touch()
    (bundle / "address").write_text(r"\\.\pipe\whatever")
    lines = '{"n":"0","hcs":"/run/hcs"}\n{"n":"1","enter":"layer","path":"C:\\\\x"}\n{"n":"1","strike":"layer"}\n'
    (bundle / "ledger.jsonl").write_bytes(lines.encode())
    (bundle / "exit").write_bytes(b"70000 1700000000 5 4711\n")
    said = delete(machine, ALONE, bundle, "-debug")
    assert said == delete(machine, ALONE, bundle, name=f"c:/work/{bundle.name}")
    monkeypatch.setitem(machine.environment, "RUNHCS_NATIVE", "0")
    assert said == delete(machine, INSTALLED, bundle)
    answer = DeleteResponse.decode(said[1])
    assert (said[0], answer.exit_status, answer.pid) == (0, 70000, 4711)
    assert answer.exited_at is not None and (answer.exited_at.seconds, answer.exited_at.nanos) == (1_700_000_000, 5)


def test_delete_of_what_is_not_there_needs_no_python(machine: Machine, bundle: Path) -> None:
    bundle.rmdir()
    code, said = delete(machine, ALONE, bundle)
    answer = DeleteResponse.decode(said)
    assert (code, answer.exit_status, answer.pid) == (0, 255, 0)
    assert answer.exited_at is not None and abs(answer.exited_at.seconds - time.time()) < 600


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("panic.log", "last words"),
        ("ledger.jsonl", '{"n":"1","enter":"layer","path":"C:\\\\x"}\n'),
        ("ledger.jsonl", '{"n":"1","enter":"layer","path":"C:\\\\x"}\n{"n":"1","strike":"lay'),
        ("exit", "7 1700000000 5 4711"),
    ],
)
def test_delete_with_anything_left_is_left_to_python(machine: Machine, bundle: Path, name: str, text: str) -> None:
    (bundle / name).write_bytes(text.encode())
    code, said = delete(machine, ALONE, bundle)
    assert code == 1 and b"cannot run" in said


@pytest.mark.parametrize("name", ["work", r"\\?\C:\work", r"C:\io.containerd.sandbox.controller.v1.shim\ns\c1", "C:x"])
def test_delete_of_other_bundles_is_left_to_python(machine: Machine, bundle: Path, name: str) -> None:
    code, said = delete(machine, ALONE, bundle, name=name)
    assert code == 1 and b"cannot run" in said


def test_switched_off(machine: Machine, bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(machine.environment, "RUNHCS_NATIVE", "0")
    code, said = delete(machine, ALONE, bundle)
    assert code == 1 and b"cannot run" in said


# start


def drive(machine: Machine, scenario: str) -> Any:
    return machine.drive_shim(scenario, script="start_driver.py")


def test_start_by_the_launcher_and_by_python_are_alike(machine: Machine) -> None:
    natively, by_python = drive(machine, "alike")
    assert natively.pop("native") == [True] and by_python.pop("native") == [False]
    for number, one in enumerate((natively, by_python)):
        name = rf"\\.\pipe\ProtectedPrefix\Administrators\containerd-shim-wine-alike{1 - number}-pipe"
        assert one.pop("said") == [0, name] and one.pop("address") == name
    assert natively == by_python
    assert natively["files"] == ["address", "config.json", "panic.log", "shim.pid"]
    assert natively["same"] and natively["gone"] and natively["debug"] == [True]


def test_options_on_stdin(machine: Machine) -> None:
    result = drive(machine, "options")
    assert result["usual"] == [0, [True], True]
    assert result["generic"] == result["long"] == [0, [False], True]
    for name, words in (("refused", "debug_type"), ("foreign", "runc"), ("too long", "10 MiB")):
        code, said, left = result[name]
        assert code == 1 and words in said and left == ["config.json"], name


def test_a_taken_name_is_told_by_python_which_gets_what_came_on_stdin(machine: Machine) -> None:
    code, said, left, other_code, other_said = drive(machine, "taken")
    assert code == 1 and "is taken" in said and left == ["config.json"]
    assert other_code == 1 and "debug_type" in other_said


def test_a_reader_that_is_gone(machine: Machine) -> None:
    code, said, left, gone = drive(machine, "unheard")
    assert code == 1 and "cannot print the address" in said and left == ["config.json"] and gone


def test_a_start_that_dies_takes_its_daemon_with_it(machine: Machine) -> None:
    assert drive(machine, "orphaned") == [True, 0, True]


def test_a_sandbox_of_the_sandbox_service(machine: Machine) -> None:
    natively, by_python = drive(machine, "service")
    assert natively == by_python
    assert natively[0] == 0 and natively[1].startswith('{"version":3,"address":"\\\\\\\\.\\\\pipe\\\\')
    assert natively[2:] == [[True], True]


def test_joining_a_pod_needs_no_python(machine: Machine) -> None:
    result = drive(machine, "join")
    assert result["said"] == [0, result["address"]]
    assert result["files"] == ["address", "config.json", "shim.pid"]
    assert result["same"] and result["gone"]
    assert result["late"][0] == 1 and "remove the pod and make it again" in result["late"][1]

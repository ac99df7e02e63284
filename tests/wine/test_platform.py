"""Logs, long paths, and what a restarted containerd finds again: the Windows half of the shim's platform layer."""

from __future__ import annotations

from typing import Any

from tests.wine.conftest import Machine


def drive(machine: Machine, scenario: str) -> Any:
    return machine.drive_shim(scenario, script="platform_scenarios.py")


def test_logs_to_files(machine: Machine) -> None:
    result = drive(machine, "file_log")
    assert result["status"] == 0
    assert result["out"] == "to the output\n"
    assert result["err"].strip() == "to the errors"
    assert result["gone"]


def test_logs_to_a_program(machine: Machine) -> None:
    result = drive(machine, "binary_log")
    assert result["status"] == 0
    assert result["written"]
    assert result["out"].strip() == "to the output"
    assert result["err"].strip() == "to the errors"
    assert result["gone"]


def test_logs_to_a_program_that_cannot_take_them(machine: Machine) -> None:
    missing, gone, mute, gone_too = drive(machine, "binary_log_missing")
    assert "logger" in missing and "nowhere" in missing
    assert "ended before it had opened its pipes" in mute
    assert gone == gone_too == "True"


def test_long_paths(machine: Machine) -> None:
    result = drive(machine, "long_paths")
    assert result["length"] > 300
    assert result["status"] == 0
    assert result["out"].strip() == "to the output"
    assert result["gone"]


def test_the_log_is_read_again_after_a_restart(machine: Machine) -> None:
    result = drive(machine, "log_pipe")
    assert "starting containerd-shim-runhcs-v1" in result["before"]
    assert "shim is ending" in result["after"]
    assert "starting" not in result["after"], "told once, to the first reader"
    assert all(line.startswith("time=") for line in result["after"].splitlines())
    assert result["gone"]


def test_output_is_dialled_again_after_a_restart(machine: Machine) -> None:
    """No line of those that the first reader did not get is lost or torn."""
    result = drive(machine, "redialled")
    assert result["heard"] and result["again"]
    second = result["second"].splitlines()
    assert len(second) >= 3
    numbers = [int(line.split()[1]) for line in second]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    assert numbers[0] > 1
    assert result["gone"]


def test_a_squatted_log_stops_nothing(machine: Machine) -> None:
    result = drive(machine, "squatted_log")
    assert result["status"] == 4
    assert result["gone"]


def test_variables_are_found_in_any_spelling(machine: Machine) -> None:
    """`SystemRoot`, say, without which many programs do not start."""
    result = drive(machine, "variables")
    assert result["found"] == [result["system"], "found"]

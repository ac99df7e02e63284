"""Logs, long paths, and what a restarted containerd finds again: the Windows half of the shim's platform layer."""

from __future__ import annotations

from typing import Any

from tests.wine.conftest import Machine


def drive(machine: Machine, scenario: str) -> Any:
    return machine.drive_shim(scenario, script="platform_scenarios.py")


def test_file_log_uri(machine: Machine) -> None:
    result = drive(machine, "file_log")
    assert result["status"] == 0
    assert result["out"] == "to the output\n"
    assert result["err"].strip() == "to the errors"
    assert result["gone"]


def test_binary_log_uri(machine: Machine) -> None:
    result = drive(machine, "binary_log")
    assert result["status"] == 0
    assert result["written"]
    assert result["out"].strip() == "to the output"
    assert result["err"].strip() == "to the errors"
    assert result["gone"]


def test_failing_binary_logger_is_reported(machine: Machine) -> None:
    missing, gone, mute, gone_too = drive(machine, "binary_log_missing")
    assert "logger" in missing and "nowhere" in missing
    assert "ended before it had opened its pipes" in mute
    assert gone == gone_too == "True"


def test_bundle_with_long_path(machine: Machine) -> None:
    result = drive(machine, "long_paths")
    assert result["length"] > 300
    assert result["status"] == 0
    assert result["out"].strip() == "to the output"
    assert result["gone"]


def test_log_pipe_reconnects_after_containerd_restart(machine: Machine) -> None:
    result = drive(machine, "log_pipe")
    assert "starting containerd-shim-runhcs-v1" in result["before"]
    assert "shim is ending" in result["after"]
    assert "starting" not in result["after"], "told once, to the first reader"
    assert all(line.startswith("time=") for line in result["after"].splitlines())
    assert result["gone"]


def test_stdio_pipes_reconnect_after_containerd_restart(machine: Machine) -> None:
    """No line of those that the first reader did not get is lost or torn."""
    result = drive(machine, "redialled")
    assert result["heard"] and result["again"]
    second = result["second"].splitlines()
    assert len(second) >= 3
    numbers = [int(line.split()[1]) for line in second]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    assert numbers[0] > 1
    assert result["gone"]


def test_squatted_log_pipe_does_not_stop_the_shim(machine: Machine) -> None:
    result = drive(machine, "squatted_log")
    assert result["status"] == 4
    assert result["gone"]


def test_environment_lookup_ignores_case(machine: Machine) -> None:
    """`SystemRoot`, say, without which many programs do not start."""
    result = drive(machine, "variables")
    assert result["found"] == [result["system"], "found"]

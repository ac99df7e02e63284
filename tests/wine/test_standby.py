"""The standby on Windows: its daemons equal those of a cold start, and a faulty standby falls back to a cold start."""

from __future__ import annotations

from typing import Any

import pytest

from tests.wine.conftest import Machine


@pytest.fixture
def drive(machine: Machine) -> Any:
    return lambda scenario: machine.drive_shim(scenario, script="standby_driver.py")


def test_daemon_from_spare_equals_cold_start(drive: Any) -> None:
    cold, warm = drive("equals_cold_start")
    assert (cold.pop("by_spare"), warm.pop("by_spare")) == (False, True)
    assert cold == warm
    assert cold["events"] == ["/tasks/create", "/tasks/start", "/tasks/exit", "/tasks/delete"]
    assert (cold["first"], cold["shown"], cold["last"]) == (True, [True, True], "serve")
    assert (cold["status"], cold["exited"], cold["deleted"]) == (7, True, True)


def test_standby_is_off_by_default(drive: Any) -> None:
    assert drive("disabled_by_default") == {"without": [False], "by_spare": True}


def test_dead_standby_falls_back_to_cold_start(drive: Any) -> None:
    """The start is cold and creates another standby, which the next start uses."""
    assert drive("dead_standby") == [True, True]


def test_connecting_client_does_not_consume_spare(drive: Any) -> None:
    assert drive("connect_without_claim") == ["A", "", True, True]


def test_any_process_at_the_standby_pipe_falls_back(drive: Any) -> None:
    """It hangs before or after the claim, sends a wrong byte, crashes, or refuses the claim."""
    assert set(map(tuple, drive("wrong_servers").values())) == {(True, True)}


def test_standby_of_other_version_is_not_used(drive: Any) -> None:
    assert drive("upgraded") == [True, True, True]


def test_standby_of_other_environment_is_not_used(drive: Any) -> None:
    assert drive("other_environment") == [True, True]


def test_idle_standby_exits(drive: Any) -> None:
    assert drive("idle") is True


def test_concurrent_starts(drive: Any) -> None:
    result = drive("concurrent_starts")
    assert result["codes"] == [0] * 5 and result["pids"] == 5 and result["spares"] <= 1
    assert result["exited"] == [True] * 5


def test_killed_start_terminates_its_daemon(drive: Any) -> None:
    assert drive("killed_start") == ["A", "R", True, True, True]


def test_pipe_security_descriptor(drive: Any) -> None:
    assert drive("protected") == [r"\\.\pipe\ProtectedPrefix\Administrators", "D:P(A;;GA;;;BA)(A;;GA;;;SY)"]

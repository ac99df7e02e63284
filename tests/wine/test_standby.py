"""The standby on Windows: its daemons are like cold ones, and whatever is wrong with it, a start succeeds cold."""

from __future__ import annotations

from typing import Any

import pytest

from tests.wine.conftest import Machine


@pytest.fixture
def drive(machine: Machine) -> Any:
    return lambda scenario: machine.drive_shim(scenario, script="standby_driver.py")


def test_a_spares_daemon_is_like_a_cold_one(drive: Any) -> None:
    cold, warm = drive("alike")
    assert (cold.pop("by_spare"), warm.pop("by_spare")) == (False, True)
    assert cold == warm
    assert cold["events"] == ["/tasks/create", "/tasks/start", "/tasks/exit", "/tasks/delete"]
    assert (cold["first"], cold["shown"], cold["last"]) == (True, [True, True], "serve")
    assert (cold["status"], cold["gone"], cold["deleted"]) == (7, True, True)


def test_off_unless_asked_for(drive: Any) -> None:
    assert drive("switched") == {"without": [False], "by_spare": True}


def test_a_dead_standby(drive: Any) -> None:
    """The start is cold and leaves another, which is used."""
    assert drive("dead") == [True, True]


def test_who_only_looks_does_no_harm(drive: Any) -> None:
    assert drive("looked_at") == ["A", "", True, True]


def test_whatever_is_in_its_place(drive: Any) -> None:
    """One that hangs before it is awake, or when it is given all; says the wrong thing; dies of it; refuses."""
    assert set(map(tuple, drive("obstacles").values())) == {(True, True)}


def test_another_version_is_never_used(drive: Any) -> None:
    assert drive("upgraded") == [True, True, True]


def test_another_callers_start_is_cold(drive: Any) -> None:
    assert drive("others") == [True, True]


def test_it_goes_when_nobody_needs_it(drive: Any) -> None:
    assert drive("idle") is True


def test_many_at_once(drive: Any) -> None:
    result = drive("crowd")
    assert result["codes"] == [0] * 5 and result["pids"] == 5 and result["spares"] <= 1
    assert result["gone"] == [True] * 5


def test_a_start_that_dies_takes_its_daemon_with_it(drive: Any) -> None:
    assert drive("orphaned") == ["A", "R", True, True, True]


def test_who_may_use_it(drive: Any) -> None:
    assert drive("protected") == [r"\\.\pipe\ProtectedPrefix\Administrators", "D:P(A;;GA;;;BA)(A;;GA;;;SY)"]

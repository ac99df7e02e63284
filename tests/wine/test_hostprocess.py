"""Host process containers of the Windows distribution: real job objects, as far as Wine has them.

Wine shows a named job, processes that are born in it, its end with the last handle, pids, exit codes, streams, console
events. It does not have silos and the bind filter (so the way of Server 2019 is taken), mount points for volumes (so
the container's own files are not at its place), logons, limits of processor and affinity, nor memory that
is really limited; its consoles run programs but show nothing of them.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.wine.conftest import Machine

pytestmark = pytest.mark.xdist_group("wine")
KILLED = 0xFFFFFFFF


def drive(machine: Machine, scenario: str) -> Any:
    return machine.drive_shim(scenario, script="hostprocess_driver.py")


def test_lifecycle(machine: Machine) -> None:
    result = drive(machine, "life")
    place = result["place"] + r"\joblife"
    assert result["text"].split("\r\n")[:2] == [place, place]  # from the variable, and as the working directory
    assert result["text"].lower().endswith("c:\\windows\r\n")  # a variable of the user's own
    assert result["stderr"] == ""
    assert result["status"] == result["deleted"] == 70000
    assert result["events"] == ["/tasks/create", "/tasks/start", "/tasks/exit", "/tasks/delete"]
    assert result["gone"] and not result["left"]


def test_exec_stats_and_kill(machine: Machine) -> None:
    result = drive(machine, "execs")
    assert result["second"] == 0 and result["text"] == "through\r\n"
    assert {result["pid"], result["second_pid"]} <= set(result["listed"])
    assert result["shim"] not in result["listed"]
    assert result["uptime"] > 0
    assert result["status"] == KILLED
    assert result["gone"] and result["over"]


def test_kill_with_sigterm_reaches_the_program(machine: Machine) -> None:
    result = drive(machine, "asked")
    assert result["members"] >= 3 and result["gone"]


def test_terminal(machine: Machine) -> None:
    assert drive(machine, "console")["status"] == 0


def test_invalid_requests_are_refused(machine: Machine) -> None:
    result = drive(machine, "failures")
    assert "no-such-program.exe" in result["program"] and "ERROR_FILE_NOT_FOUND" in result["program"]
    assert "needs a user" in result["user"]
    assert "use it directly" in result["pipe"]


def test_killed_shim_terminates_its_job(machine: Machine) -> None:
    result = drive(machine, "crash")
    assert result["before"] and result["pid"] in result["members"]
    assert result["gone"]
    assert result["answer"] > 0


def test_diag_exec_in_host(machine: Machine) -> None:
    result = drive(machine, "diagnose")
    assert result["code"] == 6 and result["text"] == "from the host\r\n"
    assert "no-such-program.exe" in result["said"]
    assert result["gone"]

"""Host process containers of the Windows distribution, with the job objects of Wine.

Wine implements named jobs, creation of processes in a job, termination with the last handle, pids, exit codes, streams
and console events. It lacks silos and the bind filter (so the shim works as on Server 2019), volume mount points (so
the files of the container are not in its root directory), logons, limits of processor and affinity, and effective
limits of memory. Its consoles run programs but do not show their output.
"""

from __future__ import annotations

from typing import Any

from tests.wine.conftest import Machine

KILLED = 0xFFFFFFFF


def drive(machine: Machine, scenario: str) -> Any:
    return machine.drive_shim(scenario, script="hostprocess_driver.py")


def test_lifecycle(machine: Machine) -> None:
    result = drive(machine, "lifecycle")
    place = result["place"] + r"\joblifecycle"
    assert result["text"].split("\r\n")[:2] == [place, place]  # from the variable, and as the working directory
    assert result["text"].lower().endswith("c:\\windows\r\n")  # a variable of the user
    assert result["stderr"] == ""
    assert result["status"] == result["deleted"] == 70000
    assert result["events"] == ["/tasks/create", "/tasks/start", "/tasks/exit", "/tasks/delete"]
    assert result["exited"] and not result["remaining"]


def test_exec_stats_and_kill(machine: Machine) -> None:
    result = drive(machine, "execs")
    assert result["second"] == 0 and result["text"] == "through\r\n"
    assert {result["pid"], result["second_pid"]} <= set(result["listed"])
    assert result["shim"] not in result["listed"]
    assert result["uptime"] > 0
    assert result["status"] == KILLED
    assert result["exited"] and result["shim_exited"]


def test_kill_with_sigterm_reaches_the_program(machine: Machine) -> None:
    result = drive(machine, "kill_with_sigterm")
    assert result["members"] >= 3 and result["exited"]


def test_terminal(machine: Machine) -> None:
    assert drive(machine, "console")["status"] == 0


def test_invalid_requests_are_refused(machine: Machine) -> None:
    result = drive(machine, "failures")
    assert "no-such-program.exe" in result["program"] and "ERROR_FILE_NOT_FOUND" in result["program"]
    assert "failed to find executable" in result["program"] and "xyzzy" not in result["program"]
    assert "needs a user" in result["user"]
    assert "use it directly" in result["pipe"]


def test_killed_shim_terminates_its_job(machine: Machine) -> None:
    result = drive(machine, "crash")
    assert result["before"] and result["pid"] in result["members"]
    assert result["exited"]
    assert result["response"] > 0


def test_diag_exec_in_host(machine: Machine) -> None:
    result = drive(machine, "diagnose")
    assert result["code"] == 6 and result["text"] == "from the host\r\n"
    assert "no-such-program.exe" in result["error"]
    assert result["exited"]

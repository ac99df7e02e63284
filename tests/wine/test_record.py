"""A recording of the shim of the zip, made by `runhcs.exe record` under Wine, is replayed on Linux."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from shim.version import VERSION
from tests.wine.conftest import ROOT, Machine

# In the environment of an exec, see record_driver.py.
SECRET = "correct-horse-battery"
REPLAY_SECONDS = 120
AGENT_ZIP = f"containerd-shim-runhcs-{VERSION}-windows-amd64-agent.zip"


def record(machine: Machine, scenario: str) -> tuple[Any, Path]:
    result = machine.drive_shim(scenario, script="record_driver.py")
    (path,) = machine.drive.glob(f"work/{scenario}-*/recording.jsonl")
    return result, path


def replay(path: Path) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "runhcs", "replay", "--json", str(path)],
        cwd=ROOT, capture_output=True, text=True, timeout=REPLAY_SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    only: dict[str, Any] = json.loads(done.stdout)[0]
    return only


def test_lifecycle_is_replayed_on_linux(machine: Machine) -> None:
    result, path = record(machine, "lifecycle")
    assert result["exited"] and "1 shims" in result["output"]
    text = path.read_text()
    assert '"system":"windows"' in text and SECRET not in text and "ping" not in text
    found = replay(path)
    assert found["differences"] == []
    waits = [one["response"]["exit_status"] for one in found["requests"] if one["method"] == "Wait"]
    assert waits == [result["exec_status"], result["status"]]


def test_failure_of_hcs_is_replayed_on_linux(machine: Machine) -> None:
    result, path = record(machine, "missing_program")
    failed = next(one for one in replay(path)["requests"] if one["method"] == "Start")
    assert failed["error"][0] == result["code"] and "0x80070002" in failed["error"][1]


def test_host_process_container_is_replayed_on_linux(machine: Machine) -> None:
    """Its job is a job object of Windows, without a bind filter."""
    result, path = record(machine, "host_process")
    assert SECRET not in path.read_text()
    found = replay(path)
    assert found["differences"] == []
    waited = next(one for one in found["requests"] if one["method"] == "Wait")
    assert waited["response"]["exit_status"] == result["status"] == 9


def test_commands_without_an_agent_say_what_to_do(machine: Machine) -> None:
    """The zip of the shim has no agent."""
    for arguments, problem in (
        (("events",), b"no agent listens on"),
        (("trace", "web"), b"no agent listens on"),
        (("agent",), f"unpack {AGENT_ZIP} of the same release into C:\\node,".encode()),
        (("record", "web", "-o", r"C:\web.jsonl"), b"no shim serves 'web'"),
    ):
        done = machine.run(r"C:\node\runhcs.exe", *arguments)
        assert done.returncode == 1 and problem in done.stdout, done.stdout.decode(errors="replace")
    done = machine.run(r"C:\node\runhcs.exe", "top", "--count", "1")
    assert done.returncode == 0 and b"no agent" in done.stdout, done.stdout.decode(errors="replace")

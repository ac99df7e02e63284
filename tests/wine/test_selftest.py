"""`runhcs.exe selftest` from the unpacked zip."""

from __future__ import annotations

import json
import os
import shutil
from typing import Any

import pytest

from runhcs.selftest.steps import STEPS
from tests.wine.conftest import Machine, go_programs

TIMEOUT = 380
PROGRAM = "containerd-shim-runhcs-v1.exe"
HOST_PROCESS = ("hostprocess-read-only", "hostprocess-terminal", "hostprocess-cleanup")


@pytest.fixture
def selftest(machine: Machine) -> Any:
    base = machine.drive / "selftest-base"
    (base / "Files").mkdir(parents=True, exist_ok=True)
    (base / "UtilityVM" / "Files").mkdir(parents=True, exist_ok=True)
    (base / "UtilityVM" / "SystemTemplate.vhdx").touch()

    def run(*arguments: str) -> tuple[int, dict[str, Any]]:
        done = machine.run(
            r"C:\node\runhcs.exe", "selftest", "--json", "--layers", r"C:\selftest-base", *arguments, timeout=TIMEOUT
        )
        text = done.stdout.decode(errors="replace")
        start = text.find("{\r\n")
        assert start >= 0, text
        report = json.loads(text[start : text.rindex("}") + 1])
        return done.returncode, {step["name"]: step for step in report["steps"]}

    return run


def test_every_step(selftest: Any, machine: Machine) -> None:
    """Wine has no compute services, and no access control lists, bind filter and terminals as Windows has them."""
    _, steps = selftest()
    assert list(steps) == [step.name for step in STEPS]
    skipped = {name for name, step in steps.items() if step["outcome"] == "skip"}
    assert skipped == {"crash-calls", "hostprocess-accounts", "hostprocess-smb"}
    failed = {name: step["finding"] for name, step in steps.items() if step["outcome"] == "fail"}
    assert set(failed) <= {"environment", "files", *HOST_PROCESS}, failed
    assert "the Host Compute Service is not installed" in failed["environment"]
    assert steps["endpoint-access"]["details"]["descriptor"] == "D:P(A;;GA;;;BA)(A;;GA;;;SY)"
    assert "selftest" not in " ".join(os.listdir(machine.drive / "users" / "root" / "Temp"))


def test_comparison_with_microsofts_shim(selftest: Any, machine: Machine) -> None:
    directory = machine.drive / "rival"
    directory.mkdir(exist_ok=True)
    shutil.copy(go_programs("hcsshim") / PROGRAM, directory)
    scenarios = [f"against-{name}" for name in ("lifecycle", "large-output", "execs", "signals", "failures")]
    chosen = [word for name in scenarios for word in ("--step", name)]
    code, steps = selftest("--against", rf"C:\rival\{PROGRAM}", *chosen)
    assert code == 0, {name: step["finding"] for name, step in steps.items()}
    assert list(steps) == scenarios
    assert "second create" in steps["against-failures"]["details"]["known differences"]

"""`runhcs selftest` on the emulator: a healthy node passes, a broken one fails at the right step."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from runhcs.selftest.layer_calls import SEQUENCES, run_sequence
from runhcs.selftest.steps import STEPS
from tests.support.emulator import Emulator

TIMEOUT = 280
RECORDINGS = Path(__file__).resolve().parents[2] / "parity" / "selftest"
ACCESS_DENIED = 0x80070005


def run(emulator: Emulator, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "runhcs", "selftest", *arguments],
        env=emulator.env, capture_output=True, text=True, timeout=TIMEOUT, check=False,
    )  # fmt: skip


def selftest(emulator: Emulator, *arguments: str) -> tuple[int, dict[str, Any]]:
    done = run(emulator, "--json", *arguments)
    assert not done.stderr, done.stderr
    report = json.loads(done.stdout)
    assert report["passed"] == (done.returncode == 0)
    for step in report["steps"]:
        assert step["outcome"] in ("ok", "fail", "skip") and step["verifies"] and step["finding"], step
    return done.returncode, {step["name"]: step for step in report["steps"]}


@pytest.mark.timeout(TIMEOUT + 20)
def test_healthy_node_passes_every_step_and_leaves_nothing(emulator: Emulator, tmp_path: Path) -> None:
    code, steps = selftest(emulator, "--record", str(tmp_path))
    assert code == 0, [step for step in steps.values() if step["outcome"] == "fail"]
    assert list(steps) == [step.name for step in STEPS]
    skipped = [name for name, step in steps.items() if step["outcome"] == "skip"]
    assert skipped == ["hostprocess-accounts", "hostprocess-smb"]
    status = emulator.control("status")
    assert (status["systems"], status["handles"], status["faults"]) == ([], 0, [])
    recorded = json.loads((tmp_path / "selftest-20348.json").read_text())
    assert recorded["emulated"] and recorded["build"] == 20348
    assert [entry["sequence"] for entry in recorded["layers"]] == list(SEQUENCES)
    assert recorded["scenarios"]["lifecycle"]["events"] == ["create", "start", "exit", "delete"]
    assert {query["call"] for query in recorded["queries"]} >= {"HcsGetServiceProperties", "HcnEnumerateNetworks"}


@pytest.mark.parametrize(
    ("call", "step", "text"),
    [
        ("HcsGetServiceProperties", "hcs", "hcs::GetServiceProperties: Basic"),
        ("HcnEnumerateNetworks", "hcn", "Networks"),
        ("PrepareLayer", "layers", "PrepareLayer in the right order fails with 0x80070005"),
        ("HcsCreateProcess", "container-lifecycle", "hcs::System::CreateProcess"),
    ],
)
def test_fault_of_the_host_fails_the_step_that_needs_it(emulator: Emulator, call: str, step: str, text: str) -> None:
    emulator.control("fault-add", call=call, error=ACCESS_DENIED)
    code, steps = selftest(emulator, "--step", "build", "--step", step)
    assert code == 1 and steps["build"]["outcome"] == "ok"
    assert steps[step]["outcome"] == "fail" and text in steps[step]["finding"], steps[step]


def test_leaked_layer_fails_the_step(emulator: Emulator) -> None:
    emulator.control("fault-add", call="DeactivateLayer", error=ACCESS_DENIED)
    code, steps = selftest(emulator, "--step", "container-lifecycle")
    emulator.control("fault-clear")
    found = steps["container-lifecycle"]
    assert code == 1 and found["outcome"] == "fail", found


def test_list_names_every_step(emulator: Emulator) -> None:
    done = run(emulator, "--list")
    assert done.returncode == 0
    assert [line.split()[0] for line in done.stdout.splitlines()[1:]] == [step.name for step in STEPS]


def test_unknown_step_is_refused(emulator: Emulator) -> None:
    done = run(emulator, "--step", "nonsense")
    assert done.returncode == 1 and "no step is named nonsense" in done.stderr


def test_as_system_is_refused_on_linux(emulator: Emulator) -> None:
    done = run(emulator, "--as-system")
    assert done.returncode == 1 and "--as-system is for Windows" in done.stderr


def test_comparison_with_the_same_shim_finds_no_difference(emulator: Emulator, tmp_path: Path) -> None:
    from runhcs.install.linux import write_launcher

    other = write_launcher(tmp_path / "bin")
    code, steps = selftest(emulator, "--against", str(other), "--step", "against-lifecycle", "--step",
                           "against-failures")  # fmt: skip
    assert code == 0, steps


def test_comparison_with_another_shim_reports_differences(emulator: Emulator, tmp_path: Path) -> None:
    from runhcs.install.linux import write_launcher

    launcher = write_launcher(tmp_path / "bin")
    other = tmp_path / "other"
    other.write_text(f'#!/bin/sh\nsed -i "s/exit 3/exit 4/" config.json 2>/dev/null\nexec {launcher} "$@"\n')
    other.chmod(0o755)
    code, steps = selftest(emulator, "--against", str(other), "--step", "against-lifecycle")
    assert code == 1
    assert "exit status: 3, the other 4" in steps["against-lifecycle"]["finding"]


def test_text_output_has_a_line_for_each_step(emulator: Emulator) -> None:
    done = run(emulator, "--step", "build", "--step", "hostprocess-accounts")
    lines = done.stdout.splitlines()
    assert lines[0].startswith("ok   build") and lines[1].startswith("skip hostprocess-accounts")
    assert "verifies: host processes run as the service accounts" in lines[2]
    assert lines[-1] == "1 ok, 0 failed, 1 skipped"


recordings = pytest.mark.parametrize("path", sorted(RECORDINGS.glob("*.json")), ids=lambda path: path.stem)


@recordings
def test_emulator_answers_recorded_layer_sequences(hcs: Emulator, tmp_path: Path, path: Path) -> None:
    """Recordings of nodes (`runhcs selftest --record`) are cases for the emulator: the same calls, the same codes."""
    base = tmp_path / "base"
    (base / "Files").mkdir(parents=True)
    for number, entry in enumerate(json.loads(path.read_text())["layers"]):
        calls = [one["call"] for one in entry["calls"]]
        layer = tmp_path / f"layer{number}"
        layer.mkdir()
        codes = run_sequence(calls, str(layer), [str(base)])
        assert list(zip(calls, codes, strict=True)) == [(one["call"], one["result"]) for one in entry["calls"]]


@recordings
def test_emulator_answers_recorded_calls_on_systems(emulator: Emulator, tmp_path: Path, path: Path) -> None:
    expected = json.loads(path.read_text())["systems"]
    code, steps = selftest(emulator, "--step", "systems", "--record", str(tmp_path))
    assert code == 0, steps
    assert json.loads((tmp_path / "selftest-20348.json").read_text())["systems"] == expected

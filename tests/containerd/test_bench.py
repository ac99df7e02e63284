"""The benchmark suite itself, end to end: ours beside Go's, and shims that misbehave. No figure is judged here."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.harness import suite
from bench.harness.candidates import COLD, INSTALLED, STANDBY
from bench.measures import lifecycle, lifecycles
from bench.report.results import Run, load
from tests.support.fake_shim import write_program

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT = 900


def bench(output: Path, *arguments: str, **variables: str) -> tuple[int, str, Run]:
    """Exit code, what was said, and the results."""
    done = subprocess.run(
        [sys.executable, "-m", "bench", "suite", "--quiet", "--output", str(output), *arguments],
        cwd=ROOT, env={**os.environ, **variables}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        timeout=TIMEOUT, check=False,
    )  # fmt: skip
    assert (output / "results.json").exists(), done.stdout
    return done.returncode, done.stdout, load(output / "results.json")


def samples(run: Run, name: str, profile: str = "") -> dict[str, list[float]]:
    found = [one for one in run.measures if (one.name, one.profile) == (name, profile)]
    assert found, f"no measure {name!r} of {profile!r}"
    return found[0].samples


@pytest.mark.timeout(TIMEOUT)
def test_the_quick_suite(tmp_path: Path) -> None:
    code, said, run = bench(tmp_path, "--quick", "--only", "runhcs", "--baseline", INSTALLED)
    assert code == 0 and {one.candidate for one in run.violations} <= {INSTALLED}, said
    everyone = {COLD, STANDBY, INSTALLED}
    assert {one.name for one in run.candidates} == everyone
    for name in ("start", "start to Connect", "start to running", "Create", "Start", "Start to first output", "delete"):
        assert set(samples(run, name)) == everyone
        assert all(len(values) == 3 and min(values) > 0 for values in samples(run, name).values())
    # How a life ends alternates, so both are there; what a shim does not have is not.
    told = {one.name for one in run.measures if not one.profile}
    assert set(lifecycle.MEASURES) - told <= {"Pause", "Resume", "Stats"}
    for name in lifecycles.POD_MEASURES:
        assert set(samples(run, name, "pod")) == everyone
    assert set(samples(run, "Create", "hypervisor")) == {COLD, STANDBY}
    assert set(samples(run, "Create to running", "containerd")) == everyone
    assert set(samples(run, "CPU per life")) == everyone
    assert set(samples(run, "PSS per idle shim of 3")) == everyone
    assert set(samples(run, "exec probe")) == everyone
    assert set(samples(run, "container output")) == set(samples(run, "CPU per GiB of container output"))
    assert set(samples(run, "container output")) == {COLD, INSTALLED}
    for name in ("Create: in HCS", "Create: shim overhead", "Start: shim overhead"):
        assert set(samples(run, name)) == {COLD, STANDBY}
    phases = {line.name: line.rounds for line in run.timelines if not line.profile}
    assert {"spec", "document", "system/HcsCreateComputeSystem"} <= {row[0] for row in phases["Create"][STANDBY][0]}
    assert "launch/HcsStartComputeSystem" in {row[0] for row in phases["Start"][COLD][0]}
    series = {one.name: one.points for one in run.series_}
    for name in ("lives per second", "time per pod", "memory per pod", "RSS per idle shim"):
        assert set(series[name]) == everyone
    assert {one.name for one in run.trends} >= {"RSS of the shim", "descriptors of the shim", "threads of the shim"}
    costs = " ".join(one.name for one in run.harness)
    assert "harness: a command" in costs and "harness: a call" in costs and "spans: one that is kept" in costs
    assert set(suite.MEASURES) >= {"lives", "containerd"}


@pytest.mark.timeout(TIMEOUT)
@pytest.mark.parametrize(
    ("fault", "kind", "text"),
    [
        ("misorder", "event order", "create, exit, start, delete"),
        ("twice", "event order", "create, start, exit, exit, delete"),
        ("socket", "leak", "socket "),
        ("process", "leak", "sleep"),
        ("refuse", "error", "this fake refuses"),
    ],
)
def test_a_shim_that_misbehaves_fails_the_run(tmp_path: Path, fault: str, kind: str, text: str) -> None:
    program = write_program(tmp_path)
    arguments = ["--quick", "--measure", "lives", "--rounds", "1", "--candidate", f"fake={program}"]
    code, said, run = bench(
        tmp_path / "out", *arguments, "--only", "fake", "--baseline", "fake", FAKE_SHIM_FAULT=fault
    )
    assert code == 1, said
    assert [one for one in run.violations if one.kind == kind and text in one.text], said
    assert {one.kind for one in run.violations} == {kind}, said
    assert f"{kind}: " in said


@pytest.mark.timeout(TIMEOUT)
def test_any_other_shim_can_be_measured(tmp_path: Path) -> None:
    program = write_program(tmp_path)
    arguments = ["--quick", "--measure", "lives", "--measure", "rate", "--candidate", f"fake={program}"]
    code, said, run = bench(tmp_path / "out", *arguments, "--only", "fake", "--baseline", "fake")
    assert code == 0 and not run.violations, said
    assert set(samples(run, "start to running")) == {"fake"}
    assert run.about("fake").version == "1.0"

"""The benchmark suite end to end: our shim against the installed runc shim, and fake shims that misbehave.

No result is judged here, only that every measure of the quick suite has results.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from attrs import frozen

from bench import suite
from bench.harness.candidates import COLD, INSTALLED, NAMESPACE, NODE, STANDBY
from bench.measures import call_session, later_calls, lifecycle, lifecycles, loaded_start, pod_calls, start_formats
from bench.report.results import Run
from bench.report.results_json import load
from tests.support.fake_shim import write_program

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT = 900
OURS = {COLD, STANDBY}
ALL = {COLD, STANDBY, INSTALLED}
# Measured with many pods only.
SCOPES = {NAMESPACE, NODE}


@frozen
class Outcome:
    status: int
    output: str
    run: Run

    def samples(self, name: str, profile: str = "") -> dict[str, list[float]]:
        found = [one for one in self.run.measures if (one.name, one.profile) == (name, profile)]
        assert found, f"no measure {name!r} of {profile!r}"
        return found[0].samples

    def series(self, name: str) -> set[str]:
        """The candidates of a series."""
        return {candidate for one in self.run.all_series if one.name == name for candidate in one.points}


def bench(output: Path, *arguments: str, **variables: str) -> Outcome:
    done = subprocess.run(
        [sys.executable, "-m", "bench", "suite", "--quiet", "--output", str(output), *arguments],
        cwd=ROOT, env={**os.environ, **variables}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        timeout=TIMEOUT, check=False,
    )  # fmt: skip
    assert (output / "results.json").exists(), done.stdout
    return Outcome(done.returncode, done.stdout, load(output / "results.json"))


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """One run of the quick suite for all tests of the class."""
    output = tmp_path_factory.mktemp("bench")
    return bench(output, "--quick", "--only", "runhcs", "--baseline", INSTALLED)


@pytest.mark.timeout(TIMEOUT)
class TestQuickSuite:
    def test_passes_without_violations_of_our_shim(self, quick: Outcome) -> None:
        assert quick.status == 0, quick.output
        assert {one.candidate for one in quick.run.violations} <= {INSTALLED}, quick.output

    def test_candidates(self, quick: Outcome) -> None:
        assert {one.name for one in quick.run.candidates} == ALL | SCOPES
        assert quick.run.baseline == INSTALLED

    @pytest.mark.parametrize(
        "name",
        ["start", "start to Connect", "start to running", "Create", "Start", "Start to first output", "delete"],
    )
    def test_lifecycle_step_has_three_samples(self, quick: Outcome, name: str) -> None:
        samples = quick.samples(name)
        assert set(samples) == ALL
        assert all(len(values) == 3 and min(values) > 0 for values in samples.values())

    def test_lifecycle_steps_are_complete(self, quick: Outcome) -> None:
        """Exits by Kill and by itself alternate, so both have results; unimplemented calls have none."""
        measured = {one.name for one in quick.run.measures if not one.profile}
        assert set(lifecycle.MEASURES) - measured <= {"Pause", "Resume", "Stats"}

    @pytest.mark.parametrize("name", lifecycles.POD_MEASURES)
    def test_pod(self, quick: Outcome, name: str) -> None:
        assert set(quick.samples(name, "pod")) == ALL

    def test_hypervisor_isolation_of_our_shim(self, quick: Outcome) -> None:
        assert set(quick.samples("Create", "hypervisor")) == OURS

    def test_containerd(self, quick: Outcome) -> None:
        assert set(quick.samples("Create to running", "containerd")) == ALL

    @pytest.mark.parametrize("name", ["CPU per lifecycle", "PSS per idle shim of 3", "exec probe"])
    def test_measure_of_all_candidates(self, quick: Outcome, name: str) -> None:
        assert set(quick.samples(name)) == ALL

    @pytest.mark.parametrize("name", ["container output", "CPU per GiB of container output"])
    def test_stdout_throughput_without_standby(self, quick: Outcome, name: str) -> None:
        assert set(quick.samples(name)) == {COLD, INSTALLED}

    @pytest.mark.parametrize("name", ["Create: in HCS", "Create: shim overhead", "Start: shim overhead"])
    def test_shim_overhead_of_our_shim(self, quick: Outcome, name: str) -> None:
        assert set(quick.samples(name)) == OURS

    @pytest.mark.parametrize(
        ("call", "candidate", "phases"),
        [
            ("Create", STANDBY, {"spec", "document", "system/HcsCreateComputeSystem"}),
            ("Start", COLD, {"launch/HcsStartComputeSystem"}),
        ],
    )
    def test_timeline_has_phases(self, quick: Outcome, call: str, candidate: str, phases: set[str]) -> None:
        (timeline,) = [one for one in quick.run.timelines if (one.name, one.profile) == (call, "")]
        assert phases <= {phase for phase, _, _ in timeline.rounds[candidate][0]}

    @pytest.mark.parametrize("name", ["lifecycles per second", "RSS per idle shim"])
    def test_series_of_all_candidates(self, quick: Outcome, name: str) -> None:
        assert quick.series(name) == ALL

    @pytest.mark.parametrize("name", ["time per pod", "memory per pod"])
    def test_series_of_pods_with_each_scope(self, quick: Outcome, name: str) -> None:
        assert quick.series(name) == ALL | SCOPES

    @pytest.mark.parametrize("name", ["start", "start to Connect"])
    @pytest.mark.parametrize("form", start_formats.FORMATS, ids=lambda form: form.name)
    def test_start_with_each_form_of_stdin(self, quick: Outcome, form: start_formats.Format, name: str) -> None:
        """The installed runc shim is of containerd 1.6."""
        samples = quick.samples(f"{name}, {form.name}", start_formats.PROFILE)
        assert set(samples) == (OURS if form.has_params else ALL)
        assert all(len(values) == 3 and min(values) > 0 for values in samples.values())

    @pytest.mark.parametrize("name", ["start", "start to Connect"])
    def test_start_under_load(self, quick: Outcome, name: str) -> None:
        assert set(quick.samples(name, loaded_start.PROFILE)) == ALL
        assert "busy processes" in quick.run.environment["load of measure loaded_start"]

    def test_later_calls_are_complete(self, quick: Outcome) -> None:
        """Of both shims, with repeated ones in each round; unimplemented calls have no results."""
        missing = set()
        for name in call_session.CALLS:
            samples = quick.samples(name, later_calls.PROFILE)
            expected = 3 * (call_session.REPEATS if name in call_session.REPEATED else 1)
            assert all(len(values) == expected for values in samples.values()), name
            if set(samples) != {COLD, INSTALLED}:
                missing.add(name)
        assert missing <= {"Pause", "Resume", "Stats"}

    @pytest.mark.parametrize("name", ["Pids", "Start of an exec", "ResizePty", "Kill"])
    def test_later_calls_without_hcs(self, quick: Outcome, name: str) -> None:
        whole = quick.samples(name, later_calls.PROFILE)
        without = quick.samples(f"{name} without HCS", later_calls.PROFILE)
        assert without[INSTALLED] == whole[INSTALLED]
        assert len(without[COLD]) == 3 and min(without[COLD]) > 0

    @pytest.mark.parametrize(
        "name",
        [
            "State, 16 callers over 3 pods", f"CPU of 3 pods with Stats every {pod_calls.INTERVAL:g} s",
            "output of 16 containers", "CPU per GiB of output of 16 containers",
        ],
    )  # fmt: skip
    def test_many_pods_with_each_scope(self, quick: Outcome, name: str) -> None:
        samples = quick.samples(name)
        assert set(samples) == {COLD, INSTALLED} | SCOPES
        assert all(len(values) == 1 and min(values) > 0 for values in samples.values())

    def test_window_of_stats_is_recorded(self, quick: Outcome) -> None:
        name = f"window of CPU of 3 pods with Stats every {pod_calls.INTERVAL:g} s"
        assert quick.run.environment[name] == "1 intervals of 10 s"

    def test_exec_probe_trends(self, quick: Outcome) -> None:
        trends = {one.name: set(one.points) for one in quick.run.trends}
        assert {"RSS of the shim", "descriptors of the shim", "threads of the shim"} <= set(trends)
        assert trends["RSS of the shim"] == ALL

    def test_harness_costs(self, quick: Outcome) -> None:
        names = " ".join(one.name for one in quick.run.harness)
        assert "harness: a command" in names and "harness: a call" in names and "spans: one span, recorded" in names

    def test_no_measure_is_skipped_for_lack_of_a_prerequisite(self, quick: Outcome) -> None:
        """Go and containerd are prerequisites of this test level."""
        assert {one.measure for one in quick.run.skipped} & set(suite.MEASURES) == set(), quick.output


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
def test_misbehaving_shim_fails_run(tmp_path: Path, fault: str, kind: str, text: str) -> None:
    program = write_program(tmp_path)
    arguments = ["--quick", "--measure", "lifecycles", "--rounds", "1", "--candidate", f"fake={program}"]
    outcome = bench(tmp_path / "out", *arguments, "--only", "fake", "--baseline", "fake", FAKE_SHIM_FAULT=fault)
    assert outcome.status == 1, outcome.output
    assert [one for one in outcome.run.violations if one.kind == kind and text in one.text], outcome.output
    assert {one.kind for one in outcome.run.violations} == {kind}, outcome.output
    assert f"{kind}: " in outcome.output


@pytest.mark.timeout(TIMEOUT)
def test_other_shim_as_candidate(tmp_path: Path) -> None:
    program = write_program(tmp_path)
    arguments = ["--quick", "--measure", "lifecycles", "--measure", "lifecycle_rate", "--candidate", f"fake={program}"]
    outcome = bench(tmp_path / "out", *arguments, "--only", "fake", "--baseline", "fake")
    assert outcome.status == 0 and not outcome.run.violations, outcome.output
    assert set(outcome.samples("start to running")) == {"fake"}
    assert outcome.run.candidate("fake").version == "1.0"

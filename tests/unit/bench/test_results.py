"""The results model, the arithmetic on it, the gate and the tables."""

from __future__ import annotations

import json
import random
from pathlib import Path
from statistics import median

import pytest

from bench.report import artifacts, gate, html, statistics, tables
from bench.report.results import SCHEMA, About, Measure, ResultsError, Run, from_document, load, to_document


def full_run() -> Run:
    """Everything a run can hold."""
    chance = random.Random(3)
    run = Run(baseline="runc 2", seconds=3.0, began="2030-01-01T00:00:00Z", environment={"kernel": "6"})
    run.candidates += [About("runc 2", "/usr/bin/true", "2.0"), About("runhcs cold", subject=True)]
    start = run.measure("start", "ms", goals={"runhcs cold": 1.0}, profile="process")
    rate = run.measure("calls", "1/s", kind="rate")
    for _ in range(20):
        start.add("runc 2", 10 + chance.random())
        start.add("runhcs cold", 20 + chance.random())
        rate.add("runhcs cold", 200 + chance.random())
        rate.add("runc 2", 100 + chance.random())
    for x in (1, 4, 16):
        run.series("lives per second", "1/s", "lives at once", kind="rate").add("runc 2", x, 3.0 * x, 3.2 * x)
    create = run.timeline("Create", "process")
    create.add("runhcs cold", [("spec", 0.0, 1.0), ("HCS", 1.0, 4.0), ("HCS/open", 1.5, 1.0)])
    create.add("runhcs cold", [("spec", 0.0, 3.0), ("HCS", 3.0, 4.0)])
    for x in range(40):
        run.trend("RSS", "kB", "probe", limit=1.0).add("runhcs cold", x, 9000 + x % 3)
    run.cost("an empty command", "ms", 1.5, 1.7, note="fork and exec")
    return run


def test_a_run_survives_being_written_and_read(tmp_path: Path) -> None:
    run = full_run()
    run.violation("runhcs cold", "leak", "a mount was left")
    artifacts.write(run, tmp_path)
    assert load(tmp_path / "results.json") == run
    document = json.loads((tmp_path / "results.json").read_text())
    assert document["schema"] == SCHEMA
    found = document["measures"][0]["summary"]["runhcs cold"]
    assert found["n"] == 20 and 1.8 < found["ratio"][0] < 2.1
    assert len(document["measures"][0]["samples"]["runc 2"]) == 20
    assert document["trends"][0]["slope"]["runhcs cold"][0] == 0
    env = json.loads((tmp_path / "env.json").read_text())
    assert env["candidates"][0]["version"] == "2.0" and env["environment"] == {"kernel": "6"}


def test_what_is_no_results_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    with pytest.raises(ResultsError, match="No such file"):
        load(path)
    for text, words in (
        ("{", "no JSON"),
        ("[]", "no results file"),
        ('{"schema": "containerd-shim-bench/9"}', "containerd-shim-bench/9.*measure again"),
        (f'{{"schema": "{SCHEMA}", "measures": [{{"name": "start"}}]}}', "damaged"),
    ):
        path.write_text(text)
        with pytest.raises(ResultsError, match=words):
            load(path)


def test_a_field_that_a_later_version_added_is_passed_over() -> None:
    document = to_document(full_run())
    document["weather"] = "fine"
    document["measures"][0]["colour"] = "blue"
    assert from_document(document) == full_run()


def test_kinds_know_what_is_better() -> None:
    assert Measure("start", "ms").better == "lower"
    assert Measure("calls", "1/s", kind="rate").better == "higher"
    with pytest.raises(ResultsError, match="taste"):
        Measure("start", "ms", kind="taste")
    with pytest.raises(ResultsError, match="rumour"):
        Run().violation("a", "rumour", "")


def test_a_summary_of_samples() -> None:
    figures = statistics.summary([float(value) for value in range(101)])
    assert (figures["n"], figures["min"], figures["p50"], figures["p90"], figures["p99"]) == (101, 0, 50, 90, 99)
    assert figures["mean"] == 50 and 29 < figures["sd"] < 30 and figures["max"] == 100
    assert statistics.summary([7.0])["sd"] == 0


@pytest.mark.parametrize("n", [1, 2, 7, 20])
def test_the_quick_bootstrap_of_a_median_has_the_distribution_of_the_plain_one(n: int) -> None:
    chance = random.Random(11)
    values = sorted(chance.lognormvariate(0, 1) for _ in range(n))
    quick = sorted(statistics.resampled_median(values, chance) for _ in range(20000))
    plain = sorted(median(chance.choices(values, k=n)) for _ in range(20000))
    for share in (0.025, 0.25, 0.5, 0.75, 0.975):
        # where the values of one lie among those of the other, so that steps between few values do not matter
        value = statistics.percentile(plain, share)
        below = sum(one <= value for one in quick) / 20000
        wanted = sum(one <= value for one in plain) / 20000
        assert abs(below - wanted) < 0.02


def test_the_interval_holds_the_true_ratio_as_often_as_it_says() -> None:
    chance = random.Random(5)
    held = 0
    for trial in range(200):
        ours = [chance.lognormvariate(0.0, 0.5) * 2 for _ in range(30)]
        theirs = [chance.lognormvariate(0.0, 0.5) for _ in range(30)]
        found = statistics.ratio(ours, theirs, trial)
        assert found is not None and found[1] <= found[0] <= found[2]
        held += found[1] <= 2.0 <= found[2]
    assert held >= 182  # 95 % of 200 are 190


def test_a_ratio_narrows_with_more_samples_repeats_and_needs_something_to_divide_by() -> None:
    noise = [float(value % 10) for value in range(400)]
    few = statistics.ratio([10 + value for value in noise[:10]], [20 + value for value in noise[:10]])
    many = statistics.ratio([10 + value for value in noise], [20 + value for value in noise])
    assert few is not None and many is not None and many[2] - many[1] < few[2] - few[1]
    for samples, baseline in (([1.0], [0.0]), ([1.0], []), ([], [1.0])):
        assert statistics.ratio(samples, baseline) is None
    assert statistics.ratio(noise, noise, seed=5) == statistics.ratio(noise, noise, seed=5)


def test_a_slope_is_found_through_noise_and_not_in_a_step_or_in_noise_alone() -> None:
    chance = random.Random(2)
    leak = statistics.slope([(x, 9000 + 0.5 * x + chance.gauss(0, 10)) for x in range(1000)])
    assert leak is not None and 0.45 < leak[1] <= leak[0] <= leak[2] < 0.55
    noise = statistics.slope([(x, 9000 + chance.gauss(0, 10)) for x in range(1000)])
    assert noise is not None and abs(noise[0]) < 0.01 and noise[1] < 0.005
    step = statistics.slope([(x, 9000.0 if x < 30 else 9400.0) for x in range(1000)])
    assert step is not None and step[0] == 0
    assert statistics.slope([(1, 2)]) is None


def bound(text: str, most: bool = True) -> gate.Bound:
    return gate._bound(text, most)


def test_only_a_ratio_beyond_a_bound_with_confidence_fails() -> None:
    run = full_run()
    assert gate.failures(run) == []
    (line,) = gate.failures(run, [bound("start=1.2")])
    assert line.startswith("bound: runhcs cold: process: start is 1.9") and line.endswith("of runc 2, above 1.2")
    assert len(gate.failures(run, [bound("process: start=1.2"), bound("start@runhcs cold=1.2")])) == 2
    assert gate.failures(run, [bound("start=2.5")]) == []
    assert gate.failures(run, [bound("calls=1.5", most=False)]) == []
    assert len(gate.failures(run, [bound("calls=3", most=False)])) == 1
    wide = Run(baseline="runc 2", candidates=[About("mine", subject=True)])
    wide.measure("start", "ms").samples = {"runc 2": [10.0, 30.0] * 5, "mine": [14.0, 34.0] * 5}
    assert gate.failures(wide, [bound("start=1.0")]) == []


def test_a_bound_that_cannot_be_judged_does_not_pass() -> None:
    with pytest.raises(gate.GateError, match=r"no measure 'stop'; there are: start, calls"):
        gate.failures(full_run(), [bound("stop=1")])
    with pytest.raises(gate.GateError, match="no candidate 'me'"):
        gate.failures(full_run(), [bound("start@me=1")])
    few = Run(baseline="a", candidates=[About("b", subject=True)])
    few.measure("start", "ms").samples = {"a": [1.0] * 5, "b": [9.0] * 50}
    with pytest.raises(gate.GateError, match="5 samples are too few"):
        gate.failures(few, [bound("start=1")])


def test_a_run_with_a_violation_or_a_leak_fails() -> None:
    run = full_run()
    run.violation("runhcs cold", "event order", "exit before start")
    assert gate.failures(run) == ["event order: runhcs cold: exit before start"]
    run.violation("runhcs cold", "event order", "and again")
    assert gate.failures(run) == ["event order: runhcs cold: exit before start (and 1 more)"]
    leaking = full_run()
    for x in range(40):
        leaking.trend("handles", "", "probe", limit=0.1).add("runhcs cold", x, 10 + x)
    (line,) = gate.failures(leaking)
    assert line.startswith("leak: runhcs cold: handles grows by 1 ")


def test_what_is_wrong_with_a_reference_is_told_and_fails_nothing() -> None:
    run = full_run()
    run.violation("runc 2", "event order", "delete before exit")
    for x in range(40):
        run.trend("handles", "", "probe", limit=0.1).add("runc 2", x, 10 + x)
    assert gate.failures(run) == []
    told = gate.notes(run)
    assert told[0] == "event order: runc 2: delete before exit (a reference: fails nothing)" and len(told) == 2
    run.violation("all", "leak", "a mount was left")  # nobody's in particular
    run.violation("runc 2", "error", "start failed")  # then there is nothing to compare with
    assert gate.failures(run) == ["leak: all: a mount was left", "error: runc 2: start failed"]
    assert "delete before exit" in html.html(run)
    for one in run.candidates:
        one.subject = False  # then all of them are what the run is about
    assert len(gate.failures(run)) == 4 and gate.notes(run) == []


def test_the_tables_show_everything() -> None:
    run = full_run()
    run.violation("runhcs cold", "error", "Create: no such file")
    text = tables.text(run)
    for words in (
        "process: start, ms, lower is better", "calls, 1/s, higher is better", "(goal <= 1)", "ratio to runc 2",
        "lives per second, 1/s, medians by lives at once", "phases of process: Create", "HCS/open",
        "RSS, kB, over every probe", "what measuring costs", "1.60 ms", "Create: no such file",
    ):  # fmt: skip
        assert words in text
    block = tables.measure_table(run, run.measures[1]).splitlines()
    assert [line.split("  ")[1].strip() for line in block[2:]] == ["runc 2", "runhcs cold"]  # the run's order
    assert "[2.0" in block[3] or "2.0" in block[3]


def test_the_overview_has_a_line_per_measure_with_the_ratio_of_each_subject() -> None:
    run = full_run()
    run.measure("Create", "ms", profile="process").samples = {"runc 2": [2.0, 2.0], "runhcs cold": [1.0, 1.0]}
    run.measure("alone", "ms").add("runhcs cold", 7.0)
    run.measure("alone", "ms").add("runc 1", 9.0)
    lines = [line.strip() for line in tables.overview(run).splitlines()]
    assert any(line.startswith("start, ms") and line.endswith("goal <= 1") for line in lines)
    assert any(line.startswith("calls, 1/s, higher is better") for line in lines)
    assert any(line.startswith("Create, ms") and line.endswith("0.50 [0.50, 0.50] ?") for line in lines)
    assert lines[-1].startswith("?: of fewer than 6 samples")
    assert "alone, ms  7.00" in lines  # without a baseline its median, and the subject's only
    assert tables.overview(full_run()).count("?") == 0


def test_without_a_subject_everybody_is_shown() -> None:
    run = Run(baseline="runc 2")
    run.measure("start", "ms").samples = {"runc 2": [2.0] * 9, "runc 1": [4.0] * 9}
    assert "2.00 [2.00, 2.00]" in tables.overview(run)


def test_phases_of_several_rounds_become_one_typical_call() -> None:
    shape = tables.typical([[("a", 0, 1), ("b", 1, 2), ("b", 5, 2)], [("a", 0, 3), ("b", 3, 2)], [("a", 0, 2)]])
    assert shape == {"a": (0, 2), "b": (2, 3)}
    assert list(shape) == ["a", "b"]

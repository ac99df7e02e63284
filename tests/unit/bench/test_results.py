"""The results model, results.json, statistics, the gate and the tables."""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from attrs import evolve

from bench.report import artifacts, gate, html, statistics, tables
from bench.report.results import CandidateInfo, Measure, ResultsError, Run
from bench.report.results_json import SCHEMA, from_document, load, to_document
from runhcs.charts.slope import slope


def full_run() -> Run:
    """A run with results of every kind."""
    chance = random.Random(3)
    run = Run(baseline="runc 2", seconds=3.0, began="2030-01-01T00:00:00Z", environment={"kernel": "6"})
    run.candidates += [CandidateInfo("runc 2", "/usr/bin/true", "2.0"), CandidateInfo("runhcs cold", subject=True)]
    start = run.measure("start", "ms", goals={"runhcs cold": 1.0}, profile="process")
    rate = run.measure("calls", "1/s", kind="rate")
    for _ in range(20):
        start.add("runc 2", 10 + chance.random())
        start.add("runhcs cold", 20 + chance.random())
        rate.add("runhcs cold", 200 + chance.random())
        rate.add("runc 2", 100 + chance.random())
    series = run.series("lifecycles per second", "1/s", "concurrent lifecycles", kind="rate")
    for x in (1, 4, 16):
        series.add("runc 2", x, 3.0 * x, 3.2 * x)
    create = run.timeline("Create", "process")
    create.add("runhcs cold", [("spec", 0.0, 1.0), ("HCS", 1.0, 4.0), ("HCS/open", 1.5, 1.0)])
    create.add("runhcs cold", [("spec", 0.0, 3.0), ("HCS", 3.0, 4.0)])
    for x in range(40):
        run.trend("RSS", "kB", "probe", limit=1.0).add("runhcs cold", x, 9000 + x % 3)
    run.harness_cost("an empty command", "ms", 1.5, 1.7, note="fork and exec")
    return run


def test_results_json_round_trip(tmp_path: Path) -> None:
    run = full_run()
    run.violation("runhcs cold", "leak", "leaked mount")
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


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON"),
        ("[]", "not a results file"),
        ('{"schema": "containerd-shim-bench/9"}', "schema: 'containerd-shim-bench/9' is not supported.*measure again"),
    ],
)
def test_load_other_file_rejected(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(ResultsError, match=message):
        load(path)


def test_load_missing_file_rejected(tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match=r"x\.json: No such file"):
        load(tmp_path / "x.json")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": 3}, r"results.measures\[0\].name: invalid value, expected str"),
        ({"samples": {"a": ["x"]}}, r"results.measures\[0\].samples\['a'\]\[0\]: invalid value, expected float"),
        ({"samples": 3}, r"results.measures\[0\].samples: invalid value"),
        ({"kind": "taste"}, r"results.measures\[0\]: start: unknown kind 'taste'"),
        ({"better": "up"}, r"results.measures\[0\]: 'better' must be in"),
    ],
)
def test_load_invalid_field_named_in_one_line(change: dict[str, Any], message: str) -> None:
    document = json.loads(json.dumps(to_document(full_run())))
    document["measures"][0].update(change)
    with pytest.raises(ResultsError, match=message) as raised:
        from_document(document)
    assert "\n" not in str(raised.value)


def test_load_missing_and_malformed_fields_named() -> None:
    document = json.loads(json.dumps(to_document(full_run())))
    del document["measures"][0]["unit"]
    document["series"][0]["points"]["runc 2"] = [[1]]
    with pytest.raises(ResultsError, match=r"results.measures\[0\].unit: required field is missing \(and 1 more\)"):
        from_document(document)
    del document["measures"]
    with pytest.raises(ResultsError, match=r"results.series\[0\].points: "):
        from_document(document)


def test_load_maps_names_of_older_files() -> None:
    run = full_run()
    run.measure("CPU per lifecycle", "ms", kind="cpu").add("runc 2", 3.0)
    text = json.dumps(to_document(run))
    text = text.replace("CPU per lifecycle", "CPU per life").replace("lifecycles per second", "lives per second")
    assert from_document(json.loads(text.replace("concurrent lifecycles", "lives at once"))) == run


def test_load_file_without_newer_keys() -> None:
    document = to_document(full_run())
    del document["skipped"]
    assert from_document(document) == full_run()


def test_load_unknown_field_ignored() -> None:
    document = to_document(full_run())
    document["weather"] = "fine"
    document["measures"][0]["colour"] = "blue"
    assert from_document(document) == full_run()


def test_measure_kind_sets_direction() -> None:
    assert Measure("start", "ms").better == "lower"
    assert Measure("calls", "1/s", kind="rate").better == "higher"
    with pytest.raises(ResultsError, match="taste"):
        Measure("start", "ms", kind="taste")
    with pytest.raises(ResultsError, match="rumour"):
        Run().violation("a", "rumour", "")


def test_summary_percentiles() -> None:
    stats = statistics.summary([float(value) for value in range(101)])
    assert (stats.n, stats.min, stats.p50, stats.p90, stats.p99) == (101, 0, 50, 90, 99)
    assert stats.mean == 50 and 29 < stats.sd < 30 and stats.max == 100
    assert statistics.summary([7.0]).sd == 0


@pytest.mark.parametrize("n", [1, 2, 7, 20])
def test_resampled_median_has_distribution_of_plain_bootstrap(n: int) -> None:
    chance = random.Random(11)
    values = sorted(chance.lognormvariate(0, 1) for _ in range(n))
    quick = sorted(statistics.resampled_median(values, chance) for _ in range(20000))
    plain = sorted(median(chance.choices(values, k=n)) for _ in range(20000))
    for share in (0.025, 0.25, 0.5, 0.75, 0.975):
        # compares ranks, not values: with few samples the values are discrete
        value = statistics.percentile(plain, share)
        below = sum(one <= value for one in quick) / 20000
        expected = sum(one <= value for one in plain) / 20000
        assert abs(below - expected) < 0.02


def test_ratio_interval_coverage() -> None:
    chance = random.Random(5)
    held = 0
    for trial in range(200):
        ours = [chance.lognormvariate(0.0, 0.5) * 2 for _ in range(30)]
        theirs = [chance.lognormvariate(0.0, 0.5) for _ in range(30)]
        found = statistics.ratio(ours, theirs, trial)
        assert found is not None and found.contains(found.value)
        held += found.contains(2.0)
    assert held >= 182  # 95 % of 200 are 190


def test_ratio_interval_narrows_with_samples_and_is_deterministic() -> None:
    noise = [float(value % 10) for value in range(400)]
    few = statistics.ratio([10 + value for value in noise[:10]], [20 + value for value in noise[:10]])
    many = statistics.ratio([10 + value for value in noise], [20 + value for value in noise])
    assert few is not None and many is not None and many.high - many.low < few.high - few.low
    for samples, baseline in (([1.0], [0.0]), ([1.0], []), ([], [1.0])):
        assert statistics.ratio(samples, baseline) is None
    assert statistics.ratio(noise, noise, seed=5) == statistics.ratio(noise, noise, seed=5)


def test_slope_finds_leak_but_no_step_or_noise() -> None:
    chance = random.Random(2)
    leak = slope([(x, 9000 + 0.5 * x + chance.gauss(0, 10)) for x in range(1000)])
    assert leak is not None and 0.45 < leak.low <= leak.value <= leak.high < 0.55
    noise = slope([(x, 9000 + chance.gauss(0, 10)) for x in range(1000)])
    assert noise is not None and abs(noise.value) < 0.01 and noise.low < 0.005
    step = slope([(x, 9000.0 if x < 30 else 9400.0) for x in range(1000)])
    assert step is not None and step.value == 0
    assert slope([(1, 2)]) is None


def bound(text: str, is_maximum: bool = True) -> gate.Bound:
    return gate.parse_bound(text, is_maximum)


def test_bound_exceeded_only_with_confidence() -> None:
    run = full_run()
    assert gate.failures(run) == []
    (line,) = gate.failures(run, [bound("start=1.2")])
    assert line.startswith("bound: runhcs cold: process: start is 1.9") and line.endswith("of runc 2, above 1.2")
    assert len(gate.failures(run, [bound("process: start=1.2"), bound("start@runhcs cold=1.2")])) == 2
    assert gate.failures(run, [bound("start=2.5")]) == []
    assert gate.failures(run, [bound("calls=1.5", is_maximum=False)]) == []
    assert len(gate.failures(run, [bound("calls=3", is_maximum=False)])) == 1
    wide = Run(baseline="runc 2", candidates=[CandidateInfo("mine", subject=True)])
    wide.measure("start", "ms").samples = {"runc 2": [10.0, 30.0] * 5, "mine": [14.0, 34.0] * 5}
    assert gate.failures(wide, [bound("start=1.0")]) == []


@pytest.mark.parametrize("text", ["start", "start=", "=1.2", "@a=1", "start=nan", "start=0", "start=-1", "start=fast"])
def test_bound_with_invalid_text_rejected(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="give MEASURE=RATIO"):
        bound(text)


def test_bound_of_unknown_measure_or_few_samples_is_an_error() -> None:
    with pytest.raises(gate.BoundError, match=r"no measure 'stop'; measures of this run: start, calls"):
        gate.failures(full_run(), [bound("stop=1")])
    with pytest.raises(gate.BoundError, match="no candidate 'me'"):
        gate.failures(full_run(), [bound("start@me=1")])
    few = Run(baseline="a", candidates=[CandidateInfo("b", subject=True)])
    few.measure("start", "ms").samples = {"a": [1.0] * 5, "b": [9.0] * 50}
    with pytest.raises(gate.BoundError, match="5 samples are too few"):
        gate.failures(few, [bound("start=1")])


def test_violation_or_growth_fails_run() -> None:
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


def test_reference_candidate_problems_are_notes() -> None:
    run = full_run()
    run.violation("runc 2", "event order", "delete before exit")
    for x in range(40):
        run.trend("handles", "", "probe", limit=0.1).add("runc 2", x, 10 + x)
    assert gate.failures(run) == []
    notes = gate.notes(run)
    assert notes[0] == "event order: runc 2: delete before exit (reference candidate: does not fail the run)"
    assert len(notes) == 2
    run.violation("all", "leak", "leaked mount")  # of an unknown candidate
    run.violation("runc 2", "error", "start failed")  # the run then has no baseline
    assert gate.failures(run) == ["leak: all: leaked mount", "error: runc 2: start failed"]
    assert "delete before exit" in html.html(run)
    run.candidates = [evolve(one, subject=False) for one in run.candidates]  # without a subject, all count
    assert len(gate.failures(run)) == 4 and gate.notes(run) == []


def test_all_tables_contain_every_result() -> None:
    run = full_run()
    run.violation("runhcs cold", "error", "Create: no such file")
    text = tables.text(tables.all_tables(run))
    for words in (
        "process: start, ms, lower is better", "calls, 1/s, higher is better", "(goal <= 1)", "ratio to runc 2",
        "lifecycles per second, 1/s, medians by concurrent lifecycles", "phases of process: Create", "HCS/open",
        "RSS, kB, per probe", "harness overhead", "1.60 ms", "Create: no such file",
    ):  # fmt: skip
        assert words in text
    block = tables.measure_table(run, run.measures[1]).text().splitlines()
    assert [line.split("  ")[1].strip() for line in block[2:]] == ["runc 2", "runhcs cold"]  # in the order of the run
    assert "2.0" in block[3]


def test_overview_shows_ratio_of_each_subject() -> None:
    run = full_run()
    run.measure("Create", "ms", profile="process").samples = {"runc 2": [2.0, 2.0], "runhcs cold": [1.0, 1.0]}
    run.measure("alone", "ms").add("runhcs cold", 7.0)
    run.measure("alone", "ms").add("runc 1", 9.0)
    lines = [line.strip() for line in tables.text(tables.overview(run)).splitlines()]
    assert any(line.startswith("start, ms") and line.endswith("goal <= 1") for line in lines)
    assert any(line.startswith("calls, 1/s, higher is better") for line in lines)
    assert any(line.startswith("Create, ms") and line.endswith("0.50 [0.50, 0.50] ?") for line in lines)
    assert lines[-1].startswith("?: fewer than 6 samples")
    assert "alone, ms  7.00" in lines  # without a baseline: the median of the subject
    assert "?" not in tables.text(tables.overview(full_run()))


def test_overview_without_subject_shows_all_candidates() -> None:
    run = Run(baseline="runc 2")
    run.measure("start", "ms").samples = {"runc 2": [2.0] * 9, "runc 1": [4.0] * 9}
    assert "2.00 [2.00, 2.00]" in tables.text(tables.overview(run))


def test_typical_phases_medians_over_rounds() -> None:
    phases = tables.typical_phases([[("a", 0, 1), ("b", 1, 2), ("b", 5, 2)], [("a", 0, 3), ("b", 3, 2)], [("a", 0, 2)]])
    assert phases == {"a": (0, 2), "b": (2, 3)}
    assert list(phases) == ["a", "b"]

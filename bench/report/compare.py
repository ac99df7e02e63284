"""Compare two runs: which measures became faster or slower, and whether that is more than noise.

    python -m bench compare before/results.json after/results.json

Two runs do not share their disturbances. So the table has the plain change of medians (after / before) and, where both
runs measured the same baseline, the change of the *ratio to the baseline*: a busier machine slows the baseline as well,
and the second column cancels that. A change is marked when its 95 % interval does not contain 1.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from attrs import frozen

from bench.report import gate, terminal
from bench.report.results import Measure, Run
from bench.report.results_json import load
from bench.report.statistics import MIN_SAMPLES, ratio, ratio_of_ratios
from bench.report.tables import Table
from runhcs.charts.slope import Interval

COMPARED_ENVIRONMENT = (
    "machine", "processor", "processors", "kernel", "governor", "python", "emulator latency profile",
)  # fmt: skip


@frozen
class Change:
    measure: Measure
    candidate: str
    plain: Interval
    #: Of the ratio to the baseline; None without a common baseline.
    relative: Interval | None
    #: The size of the smallest of the compared sample sets.
    samples: int

    @property
    def judged(self) -> Interval:
        return self.relative or self.plain

    @property
    def verdict(self) -> str:
        """Empty when it may be noise."""
        if self.samples < MIN_SAMPLES:
            return "too few samples"
        if self.judged.contains(1):
            return ""
        return "better" if (self.judged.high < 1) == (self.measure.better == "lower") else "WORSE"


def changes(before: Run, after: Run) -> list[Change]:
    """Of every measure and candidate in both runs, in the order of the later run."""
    earlier = {(one.name, one.profile): one for one in before.measures}
    found = []
    for measure in after.measures:
        old = earlier.get((measure.name, measure.profile))
        if old is None or old.unit != measure.unit:
            continue
        baseline = after.baseline_of(measure)
        has_common_baseline = baseline and baseline == before.baseline_of(old)
        for name in after.in_order(measure.samples):
            new_samples, old_samples = measure.samples[name], old.samples.get(name)
            plain = ratio(new_samples, old_samples or (), after.seed)
            if not old_samples or plain is None:
                continue
            samples = min(len(new_samples), len(old_samples))
            relative = None
            if has_common_baseline and name != baseline:
                bases = measure.samples[baseline], old.samples[baseline]
                relative = ratio_of_ratios(new_samples, bases[0], old_samples, bases[1], after.seed)
                samples = min(samples, *map(len, bases))
            found.append(Change(measure, name, plain, relative, samples))
    return found


def table(found: list[Change], baseline: str) -> Table:
    rows = [[one.measure.title, one.candidate, str(one.plain), str(one.relative or "-"), one.verdict] for one in found]
    return Table("after / before, ratio of medians", ["", "", "plain", f"relative to {baseline}", ""], rows)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("before", type=Path, metavar="BEFORE.json")
    parser.add_argument("after", type=Path, metavar="AFTER.json")
    parser.add_argument("--only", metavar="TEXT", action="append", help="candidates whose name contains this")
    parser.add_argument("--fail-on-worse", action="store_true", help="exit 1 if anything is worse with confidence")
    gate.add_arguments(parser, "after / before, relative to a common baseline if there is one,")


def exceeded(found: list[Change], bounds: list[gate.Bound]) -> list[str]:
    lines = []
    for bound in bounds:
        changed = [one for one in found if bound.applies_to(one.measure) and bound.candidate in ("", one.candidate)]
        if not changed:
            raise gate.BoundError(f"no measure and candidate of both runs matches {bound.text!r}")
        for one in changed:
            if one.samples < MIN_SAMPLES:
                raise gate.BoundError(f"{one.measure.title}: too few samples for a bound: at least {MIN_SAMPLES}")
            if bound.is_exceeded_by(one.judged):
                lines.append(f"bound: {one.candidate}: {one.measure.title} {one.judged}, {bound.exceeded_text}")
    return lines


def main(arguments: argparse.Namespace) -> int:
    before, after = load(arguments.before), load(arguments.after)
    found = [
        one
        for one in changes(before, after)
        if not arguments.only or any(part in one.candidate for part in arguments.only)
    ]
    if not found:
        raise gate.BoundError("the runs have no measure and candidate in common")
    for line in environment_differences(before, after):
        print(f"note: {line}", file=sys.stderr)
    terminal.print_tables([table(found, after.baseline)])
    lines = exceeded(found, arguments.bounds)
    if arguments.fail_on_worse:
        worse = [one for one in found if one.verdict == "WORSE"]
        lines += [f"worse: {one.candidate}: {one.measure.title} {one.judged}" for one in worse]
    for line in lines:
        print(line, file=sys.stderr)
    return 1 if lines else 0


def environment_differences(before: Run, after: Run) -> list[str]:
    """What makes the two runs hard to compare."""
    found = []
    for name in COMPARED_ENVIRONMENT:
        old, new = before.environment.get(name), after.environment.get(name)
        if old != new:
            found.append(f"{name} differs: {old} before, {new} after")
    return found

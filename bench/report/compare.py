"""Two runs side by side: what became faster or slower, and whether that is more than noise.

    python -m bench compare before/results.json after/results.json

Runs at different times do not share what disturbed them. So beside the plain change of medians (after / before)
stands the change of the *ratio to the baseline*, where both runs measured the same one: a machine that was busier
slows the baseline as well, and the second figure takes that out. A change is marked when its 95 % interval does
not hold 1.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

from bench.report import gate
from bench.report.results import Measure, Run, load
from bench.report.statistics import FEWEST, Interval, ratio, ratio_of_ratios
from bench.report.tables import grid


@dataclass(frozen=True)
class Change:
    measure: Measure
    candidate: str
    plain: Interval
    #: Of the ratio to the baseline; None where there is no common one.
    relative: Interval | None
    fewest: int

    @property
    def judged(self) -> Interval:
        return self.relative or self.plain

    @property
    def verdict(self) -> str:
        """Empty when it may be noise."""
        _, low, high = self.judged
        if self.fewest < FEWEST:
            return "too few samples"
        if low <= 1 <= high:
            return ""
        return "better" if (high < 1) == (self.measure.better == "lower") else "WORSE"


def changes(before: Run, after: Run) -> list[Change]:
    """Of every measure and candidate that both runs have, in the order of the later one."""
    known = {(one.name, one.profile): one for one in before.measures}
    found = []
    for measure in after.measures:
        old = known.get((measure.name, measure.profile))
        if old is None or old.unit != measure.unit:
            continue
        baseline = after.baseline_of(measure)
        shared = baseline and baseline == before.baseline_of(old)
        for name in after.names(measure.samples):
            mine, theirs = measure.samples[name], old.samples.get(name)
            plain = ratio(mine, theirs or (), after.seed)
            if not theirs or plain is None:
                continue
            fewest = min(len(mine), len(theirs))
            relative = None
            if shared and name != baseline:
                bases = measure.samples[baseline], old.samples[baseline]
                relative = ratio_of_ratios(mine, bases[0], theirs, bases[1], after.seed)
                fewest = min(fewest, *map(len, bases))
            found.append(Change(measure, name, plain, relative, fewest))
    return found


def text(found: list[Change], baseline: str) -> str:
    rows = []
    for one in found:
        relative = "-" if one.relative is None else _interval(one.relative)
        rows.append([one.measure.title, one.candidate, _interval(one.plain), relative, one.verdict])
    return grid("after / before, ratio of medians", ["", "", "plain", f"relative to {baseline}", ""], rows)


def _interval(found: Interval) -> str:
    return f"{found[0]:.2f} [{found[1]:.2f}, {found[2]:.2f}]"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("before", type=Path, metavar="BEFORE.json")
    parser.add_argument("after", type=Path, metavar="AFTER.json")
    parser.add_argument("--only", metavar="TEXT", action="append", help="candidates whose name contains this")
    parser.add_argument("--fail-on-worse", action="store_true", help="exit 1 if anything is worse with confidence")
    gate.add_arguments(parser, "after / before, relative to the baseline where both have it,")


def broken(found: list[Change], bounds: list[gate.Bound]) -> list[str]:
    lines = []
    for bound in bounds:
        meant = [one for one in found if bound.means(one.measure) and bound.candidate in ("", one.candidate)]
        if not meant:
            raise gate.GateError(f"nothing in both runs is meant by {bound.text!r}")
        for one in meant:
            if one.fewest < FEWEST:
                raise gate.GateError(f"{one.measure.title}: too few samples for a bound: take at least {FEWEST}")
            _, low, high = one.judged
            if low > bound.limit if bound.most else high < bound.limit:
                side = "above" if bound.most else "below"
                told = f"{one.measure.title} {_interval(one.judged)}"
                lines.append(f"bound: {one.candidate}: {told}, {side} {bound.limit:g}")
    return lines


def main(arguments: argparse.Namespace) -> int:
    before, after = load(arguments.before), load(arguments.after)
    found = [
        one
        for one in changes(before, after)
        if not arguments.only or any(part in one.candidate for part in arguments.only)
    ]
    if not found:
        raise gate.GateError("the runs have no measure and candidate in common")
    for line in differences(before, after):
        print(f"note: {line}", file=sys.stderr)
    print(text(found, after.baseline))
    failed = broken(found, arguments.bounds)
    if arguments.fail_on_worse:
        worse = [one for one in found if one.verdict == "WORSE"]
        failed += [f"worse: {one.candidate}: {one.measure.title} {_interval(one.judged)}" for one in worse]
    for line in failed:
        print(line, file=sys.stderr)
    return 1 if failed else 0


def differences(before: Run, after: Run) -> list[str]:
    """What makes the two hard to compare."""
    found = []
    for name in ("machine", "processor", "processors", "kernel", "governor", "python", "emulator latency profile"):
        one, other = before.environment.get(name), after.environment.get(name)
        if one != other:
            found.append(f"{name} differs: {one} before, {other} after")
    return found

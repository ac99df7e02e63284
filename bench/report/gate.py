"""Whether a run passes: no violation, and no ratio beyond its bound *with confidence*.

A bound is broken when the whole 95 % interval lies beyond it. A noisy run widens the interval and breaks nothing: what
is reported in CI is real, and what is missed today shows when more rounds are asked for.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bench.report.results import Measure, Run, Violation
from bench.report.statistics import FEWEST, ratio, slope


@dataclass(frozen=True)
class Bound:
    """`MEASURE=RATIO` or `MEASURE@CANDIDATE=RATIO`; a measure is named alone or as `PROFILE: NAME`."""

    measure: str
    candidate: str
    limit: float
    most: bool  # else it is the least that is allowed

    @property
    def text(self) -> str:
        return f"{self.measure}{f'@{self.candidate}' if self.candidate else ''}={self.limit:g}"

    def means(self, measure: Measure) -> bool:
        return self.measure in (measure.name, measure.title)


class GateError(Exception):
    """A bound that cannot be judged: misspelt, or of too few samples. It must not pass in silence."""


def _bound(text: str, most: bool) -> Bound:
    name, equals, limit = text.rpartition("=")
    measure, _, candidate = name.partition("@")
    try:
        if equals and measure:
            return Bound(measure, candidate, float(limit), most)
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(f"{text!r}: give MEASURE=RATIO or MEASURE@CANDIDATE=RATIO, such as start=0.5")


def add_arguments(parser: argparse.ArgumentParser, what: str = "the ratio to the baseline") -> None:
    parser.add_argument(
        "--max-ratio", metavar="MEASURE[@CANDIDATE]=RATIO", dest="bounds", action="append", default=[],
        type=lambda text: _bound(text, True),
        help=f"exit 1 if {what} is above this with 95 %% confidence; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--min-ratio", metavar="MEASURE[@CANDIDATE]=RATIO", dest="bounds", action="append",
        type=lambda text: _bound(text, False), help="the same, below: for rates and throughput",
    )  # fmt: skip


def failures(run: Run, bounds: Sequence[Bound] = ()) -> list[str]:
    """Why the run fails, one sentence each; empty when it passes."""
    found = [text for forgiven, text in wrongs(run) if not forgiven]
    for bound in bounds:
        found += _broken(run, bound)
    return found


def notes(run: Run) -> list[str]:
    """Events out of order and growth of those who are there only to compare with: the runc shim reports a delete before
    the exit now and then, and nobody who measures another shim can mend it. Errors and leftovers are everybody's
    concern."""
    return [f"{text} (a reference: fails nothing)" for forgiven, text in wrongs(run) if forgiven]


def is_reference(run: Run, candidate: str) -> bool:
    known = {one.name: one.subject for one in run.candidates}
    return any(known.values()) and not known.get(candidate, True)


def wrongs(run: Run) -> Iterator[tuple[bool, str]]:
    """Whether it is forgiven, and what it is."""
    for one, more in gathered(run):
        forgiven = one.kind == "event order" and is_reference(run, one.candidate)
        yield forgiven, f"{one.kind}: {one.candidate}: {one.text}{more}"
    yield from growing(run)


def gathered(run: Run) -> Iterator[tuple[Violation, str]]:
    """The first of every kind of a candidate, and how many more there are: what fails once often fails each time."""
    kinds: dict[tuple[str, str, str], list[Violation]] = {}
    for one in run.violations:
        kinds.setdefault((one.kind, one.candidate, one.profile), []).append(one)
    for many in kinds.values():
        yield many[0], f" (and {len(many) - 1} more)" if len(many) > 1 else ""


def growing(run: Run) -> Iterator[tuple[bool, str]]:
    for trend in run.trends:
        for name, points in trend.points.items():
            grown = slope(points)
            if trend.limit is not None and grown is not None and grown[1] > trend.limit:
                told = f"{trend.title} grows by {grown[0]:.4g} {trend.unit} per {trend.x}"
                interval = f"[{grown[1]:.4g}, {grown[2]:.4g}]"
                yield is_reference(run, name), f"leak: {name}: {told} {interval}; at most {trend.limit:.4g} is allowed"


def _broken(run: Run, bound: Bound) -> Iterator[str]:
    meant = [measure for measure in run.measures if bound.means(measure)]
    if not meant:
        known = ", ".join(dict.fromkeys(measure.name for measure in run.measures))
        raise GateError(f"no measure {bound.measure!r}; there are: {known}")
    if bound.candidate and not any(bound.candidate in measure.samples for measure in meant):
        known = ", ".join(dict.fromkeys(name for measure in meant for name in measure.samples))
        raise GateError(f"no candidate {bound.candidate!r} in {bound.measure!r}; there are: {known}")
    for measure in meant:
        baseline = run.baseline_of(measure)
        for name, values in measure.samples.items():
            if name == baseline or not (name == bound.candidate or (not bound.candidate and run.about(name).subject)):
                continue
            found = ratio(values, measure.samples.get(baseline, ()), run.seed)
            if found is None:
                continue
            fewest = min(len(values), len(measure.samples[baseline]))
            if fewest < FEWEST:
                raise GateError(f"{measure.title}: {fewest} samples are too few for a bound: take at least {FEWEST}")
            value, low, high = found
            if low > bound.limit if bound.most else high < bound.limit:
                side = "above" if bound.most else "below"
                is_ = f"{value:.2f} [{low:.2f}, {high:.2f}] of {baseline}"
                yield f"bound: {name}: {measure.title} is {is_}, {side} {bound.limit:g}"

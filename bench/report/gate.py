"""The gate: a run passes without violations and with no ratio beyond its bound *with confidence*.

A bound is exceeded when the whole 95 % interval lies beyond it. Noise widens the interval and exceeds nothing: a
failure in CI is real, and a regression that noise hides today shows with more rounds.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Sequence
from typing import Any

from attrs import Attribute, field, frozen
from attrs.validators import min_len

from bench.report.results import Measure, Run, Violation
from bench.report.statistics import MIN_SAMPLES, ratio
from runhcs.charts.slope import Interval, slope


def _positive(_: Any, attribute: Attribute[float], value: float) -> None:
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"{attribute.name} must be a positive number, not {value:g}")


@frozen
class Bound:
    """`MEASURE=RATIO` or `MEASURE@CANDIDATE=RATIO`; a measure is given as `NAME` or as `PROFILE: NAME`."""

    measure: str = field(validator=min_len(1))
    candidate: str
    limit: float = field(converter=float, validator=_positive)
    #: Whether the limit is the highest allowed ratio; otherwise it is the lowest.
    is_maximum: bool

    @property
    def text(self) -> str:
        return f"{self.measure}{f'@{self.candidate}' if self.candidate else ''}={self.limit:g}"

    def applies_to(self, measure: Measure) -> bool:
        return self.measure in (measure.name, measure.title)

    def is_exceeded_by(self, found: Interval) -> bool:
        return found.low > self.limit if self.is_maximum else found.high < self.limit

    @property
    def exceeded_text(self) -> str:
        return f"{'above' if self.is_maximum else 'below'} {self.limit:g}"


class BoundError(Exception):
    """A bound that cannot be judged: misspelt, or of too few samples. It must not pass silently."""


def parse_bound(text: str, is_maximum: bool) -> Bound:
    name, _, limit = text.rpartition("=")
    measure, _, candidate = name.partition("@")
    try:
        return Bound(measure, candidate, limit, is_maximum)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r}: give MEASURE=RATIO or MEASURE@CANDIDATE=RATIO with a ratio above 0, such as start=0.5"
        ) from None


def add_arguments(parser: argparse.ArgumentParser, subject: str = "the ratio to the baseline") -> None:
    parser.add_argument(
        "--max-ratio", metavar="MEASURE[@CANDIDATE]=RATIO", dest="bounds", action="append", default=[],
        type=lambda text: parse_bound(text, True),
        help=f"exit 1 if {subject} is above this with 95 %% confidence; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--min-ratio", metavar="MEASURE[@CANDIDATE]=RATIO", dest="bounds", action="append",
        type=lambda text: parse_bound(text, False), help="the same for below: for rates and throughput",
    )  # fmt: skip


def failures(run: Run, bounds: Sequence[Bound] = ()) -> list[str]:
    """Why the run fails, one line each; empty when it passes."""
    lines = [text for is_tolerated, text in _problems(run) if not is_tolerated]
    for bound in bounds:
        lines += _exceeded(run, bound)
    return lines


def notes(run: Run) -> list[str]:
    """Problems that do not fail the run: event order and growth of reference candidates. The runc shim now and then
    publishes a delete before the exit, and a developer of another shim cannot fix that. Errors and leaked resources
    always fail the run."""
    suffix = "(reference candidate: does not fail the run)"
    return [f"{text} {suffix}" for is_tolerated, text in _problems(run) if is_tolerated]


def is_reference(run: Run, candidate: str) -> bool:
    subjects = {one.name: one.subject for one in run.candidates}
    return any(subjects.values()) and not subjects.get(candidate, True)


def _problems(run: Run) -> Iterator[tuple[bool, str]]:
    """Whether it is tolerated, and its text."""
    for one, more in grouped_violations(run):
        is_tolerated = one.kind == "event order" and is_reference(run, one.candidate)
        yield is_tolerated, f"{one.kind}: {one.candidate}: {one.text}{more}"
    yield from _growth(run)


def grouped_violations(run: Run) -> Iterator[tuple[Violation, str]]:
    """The first of each kind and candidate, and the number of the others: a failure often repeats every round."""
    kinds: dict[tuple[str, str, str], list[Violation]] = {}
    for one in run.violations:
        kinds.setdefault((one.kind, one.candidate, one.profile), []).append(one)
    for many in kinds.values():
        yield many[0], f" (and {len(many) - 1} more)" if len(many) > 1 else ""


def _growth(run: Run) -> Iterator[tuple[bool, str]]:
    for trend in run.trends:
        for name, points in trend.points.items():
            growth = slope(points)
            if trend.limit is not None and growth is not None and growth.low > trend.limit:
                text = f"{trend.title} grows by {growth.value:.4g} {trend.unit} per {trend.x}"
                interval = f"[{growth.low:.4g}, {growth.high:.4g}]"
                yield is_reference(run, name), f"leak: {name}: {text} {interval}; the limit is {trend.limit:.4g}"


def _exceeded(run: Run, bound: Bound) -> Iterator[str]:
    measures = [measure for measure in run.measures if bound.applies_to(measure)]
    if not measures:
        known = ", ".join(dict.fromkeys(measure.name for measure in run.measures))
        raise BoundError(f"no measure {bound.measure!r}; measures of this run: {known}")
    if bound.candidate and not any(bound.candidate in measure.samples for measure in measures):
        known = ", ".join(dict.fromkeys(name for measure in measures for name in measure.samples))
        raise BoundError(f"no candidate {bound.candidate!r} in {bound.measure!r}; candidates: {known}")
    for measure in measures:
        baseline = run.baseline_of(measure)
        for name, values in measure.samples.items():
            applies = name == bound.candidate or (not bound.candidate and run.candidate(name).subject)
            if name == baseline or not applies:
                continue
            found = ratio(values, measure.samples.get(baseline, ()), run.seed)
            if found is None:
                continue
            fewest = min(len(values), len(measure.samples[baseline]))
            if fewest < MIN_SAMPLES:
                raise BoundError(f"{measure.title}: {fewest} samples are too few for a bound: at least {MIN_SAMPLES}")
            if bound.is_exceeded_by(found):
                yield f"bound: {name}: {measure.title} is {found} of {baseline}, {bound.exceeded_text}"

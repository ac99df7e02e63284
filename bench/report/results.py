"""The results of a run: the model of everything that is measured. `results_json` loads and dumps it.

A run has an environment, candidates, and results of five kinds:

- a *measure*: the samples of one metric, raw and in the order they were taken ("start", ms, lower is better);
- a *series*: the same for each value of x ("lifecycles per second" at 1, 4, 8 … concurrent lifecycles);
- a *timeline*: the phases inside one call, begin and duration of each, once per round;
- a *trend*: one value per round over many rounds; its slope separates a leak from noise;
- a *violation*: an error, events out of order or a leaked resource. One violation fails the run.

The *harness costs* are the cost of measuring itself. Summaries, ratios and charts are computed from these, so an old
file can be rendered again: `python -m bench report results.json`.

A measure adds its results and does not know any output format:

    run.measure("start", "ms").add("runc 2.3.4", 11.7)
    run.series("lifecycles per second", "1/s", "concurrent lifecycles", kind="rate").add("runc 2.3.4", 4, 23.0)
    run.timeline("Create").add("runhcs cold", [("spec", 0.0, 0.4), ("HcsCreateComputeSystem", 0.6, 2.1)])
    run.trend("RSS", "kB", "exec probe").add("runhcs cold", 17, 9120)
    run.violation("runhcs cold", "leak", "leaked compute system x")
    run.harness_cost("an empty command", "ms", 1.9)
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from attrs import Attribute, define, field, frozen
from attrs.validators import in_

# Every kind of metric, and the direction that is better unless a measure sets it.
KINDS = {
    "latency": "lower",
    "cpu": "lower",
    "memory": "lower",
    "count": "lower",
    "rate": "higher",
    "throughput": "higher",
}
BETTER = ("lower", "higher")
VIOLATIONS = ("error", "event order", "leak")


class ResultsError(Exception):
    """Not a valid results file, or one of another version. The message names the file and the field."""


def _known_kind(instance: Any, attribute: Attribute[str], value: str) -> None:
    if value not in KINDS:
        raise ResultsError(f"{instance.name}: unknown kind {value!r}; known kinds: {', '.join(KINDS)}")


def _known_violation(instance: Any, attribute: Attribute[str], value: str) -> None:
    if value not in VIOLATIONS:
        raise ResultsError(f"unknown violation kind {value!r}; known kinds: {', '.join(VIOLATIONS)}")


def _title(profile: str, name: str) -> str:
    return f"{profile}: {name}" if profile else name


@frozen
class CandidateInfo:
    """A measured program. Bounds apply to subjects; the other candidates are references to compare with."""

    name: str
    program: str = ""
    version: str = ""
    sha256: str = ""
    subject: bool = False
    note: str = ""


@define
class Measure:
    name: str
    unit: str
    kind: str = field(default="latency", validator=_known_kind)
    better: str = field(validator=in_(BETTER))
    profile: str = ""
    #: The candidate its ratios refer to, where that is not the run's baseline.
    baseline: str = ""
    #: candidate -> target ratio
    goals: dict[str, float] = field(factory=dict)
    #: candidate -> samples
    samples: dict[str, list[float]] = field(factory=dict)

    @better.default
    def _better(self) -> str:
        return KINDS.get(self.kind, "lower")

    @property
    def title(self) -> str:
        return _title(self.profile, self.name)

    def add(self, candidate: str, *values: float) -> None:
        self.samples.setdefault(candidate, []).extend(values)


@define
class Series:
    name: str
    unit: str
    x: str
    kind: str = field(default="latency", validator=_known_kind)
    better: str = field(validator=in_(BETTER))
    profile: str = ""
    #: candidate -> x -> samples; a list of [x, samples] in JSON
    points: dict[str, dict[float, list[float]]] = field(factory=dict)

    @better.default
    def _better(self) -> str:
        return KINDS.get(self.kind, "lower")

    @property
    def title(self) -> str:
        return _title(self.profile, self.name)

    def add(self, candidate: str, x: float, *values: float) -> None:
        self.points.setdefault(candidate, {}).setdefault(x, []).extend(values)


@define
class Timeline:
    """Phases in milliseconds from the begin of the call. A phase nested in another is named `outer/inner`."""

    name: str
    profile: str = ""
    #: candidate -> rounds -> (phase, begin, duration)
    rounds: dict[str, list[list[tuple[str, float, float]]]] = field(factory=dict)

    @property
    def title(self) -> str:
        return _title(self.profile, self.name)

    def add(self, candidate: str, phases: Iterable[tuple[str, float, float]]) -> None:
        self.rounds.setdefault(candidate, []).append([(name, begin, length) for name, begin, length in phases])


@define
class Trend:
    name: str
    unit: str
    x: str
    profile: str = ""
    #: Growth per x above this, with confidence, is a leak; None: no limit.
    limit: float | None = None
    #: candidate -> (x, value)
    points: dict[str, list[tuple[float, float]]] = field(factory=dict)

    @property
    def title(self) -> str:
        return _title(self.profile, self.name)

    def add(self, candidate: str, x: float, value: float) -> None:
        self.points.setdefault(candidate, []).append((x, value))


@frozen
class Violation:
    candidate: str
    kind: str = field(validator=_known_violation)
    text: str
    profile: str = ""


@frozen
class Skipped:
    """A measure that did not run, in whole or in part, and why."""

    measure: str
    reason: str


@define
class HarnessCost:
    """What measuring costs: of the harness, or of the spans in the shim."""

    name: str
    unit: str
    samples: list[float] = field(factory=list)
    note: str = ""


@define
class Run:
    began: str = ""
    seconds: float = 0.0
    seed: int = 1
    baseline: str = ""
    command: list[str] = field(factory=list)
    settings: dict[str, Any] = field(factory=dict)
    environment: dict[str, Any] = field(factory=dict)
    candidates: list[CandidateInfo] = field(factory=list)
    measures: list[Measure] = field(factory=list)
    all_series: list[Series] = field(factory=list)
    timelines: list[Timeline] = field(factory=list)
    trends: list[Trend] = field(factory=list)
    violations: list[Violation] = field(factory=list)
    skipped: list[Skipped] = field(factory=list)
    #: Why the run failed, including the bounds of the command line.
    failures: list[str] = field(factory=list)
    harness: list[HarnessCost] = field(factory=list)

    def measure(self, name: str, unit: str, **rest: Any) -> Measure:
        """The measure of this name and profile, created on first use (`rest` counts only then)."""
        profile = rest.get("profile", "")
        for one in self.measures:
            if (one.name, one.profile) == (name, profile):
                return one
        self.measures.append(Measure(name, unit, **rest))
        return self.measures[-1]

    def series(self, name: str, unit: str, x: str, **rest: Any) -> Series:
        profile = rest.get("profile", "")
        for one in self.all_series:
            if (one.name, one.profile) == (name, profile):
                return one
        self.all_series.append(Series(name, unit, x, **rest))
        return self.all_series[-1]

    def timeline(self, name: str, profile: str = "") -> Timeline:
        for one in self.timelines:
            if (one.name, one.profile) == (name, profile):
                return one
        self.timelines.append(Timeline(name, profile))
        return self.timelines[-1]

    def trend(self, name: str, unit: str, x: str, **rest: Any) -> Trend:
        profile = rest.get("profile", "")
        for one in self.trends:
            if (one.name, one.profile) == (name, profile):
                return one
        self.trends.append(Trend(name, unit, x, **rest))
        return self.trends[-1]

    def violation(self, candidate: str, kind: str, text: str, profile: str = "") -> None:
        self.violations.append(Violation(candidate, kind, text, profile))

    def skip(self, measure: str, reason: str) -> None:
        self.skipped.append(Skipped(measure, reason))

    def harness_cost(self, name: str, unit: str, *values: float, note: str = "") -> None:
        for one in self.harness:
            if one.name == name:
                one.samples.extend(values)
                return
        self.harness.append(HarnessCost(name, unit, list(values), note))

    def add_candidate(self, info: CandidateInfo) -> None:
        """The first entry of a name wins."""
        if all(one.name != info.name for one in self.candidates):
            self.candidates.append(info)

    def candidate(self, name: str) -> CandidateInfo:
        """By name; a candidate that was not added has only its name."""
        return next((one for one in self.candidates if one.name == name), CandidateInfo(name))

    def in_order(self, names: Iterable[str]) -> list[str]:
        """These candidates in the order of the run; samples are in random order."""
        order = {one.name: number for number, one in enumerate(self.candidates)}
        return sorted(names, key=lambda name: order.get(name, len(order)))

    def baseline_of(self, measure: Measure) -> str:
        """The candidate its ratios refer to, or "" when that one was not measured."""
        name = measure.baseline or self.baseline
        return name if measure.samples.get(name) else ""

"""The results of a run: one model for everything that is measured, and the one file that keeps it.

A run has an environment, candidates, and what was found about them, in five shapes:

- a *measure*: values of one thing, raw and in the order they were taken ("start", ms, lower is better);
- a *series*: the same for each of some x ("lives per second" at 1, 4, 8 … at once);
- a *timeline*: the phases inside one call, begin and duration of each, once per round;
- a *trend*: one value after another over many rounds, whose slope tells a leak from noise;
- a *violation*: what must not happen at all: an error, events out of order, something left behind. One fails the run.

The *harness* entries say what measuring itself costs. Everything else (summaries, ratios, charts) is computed from
these, so an old file can be looked at anew: `python -m bench report results.json`.

A measure adds what it finds and knows nothing of formats:

    run.measure("start", "ms").add("runc 2.3.4", 11.7)
    run.series("lives per second", "1/s", "lives at once", kind="rate").add("runc 2.3.4", 4, 23.0)
    run.timeline("Create").add("runhcs cold", [("spec", 0.0, 0.4), ("HcsCreateComputeSystem", 0.6, 2.1)])
    run.trend("RSS", "kB", "exec probe").add("runhcs cold", 17, 9120)
    run.violation("runhcs cold", "leak", "compute system x was left behind")
    run.cost("an empty command", "ms", 1.9)
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

# The number goes up when a reader of the old format would misunderstand the new one.
SCHEMA = "containerd-shim-bench/1"

# Every kind and what is better of it unless a measure says otherwise.
KINDS = {
    "latency": "lower",
    "cpu": "lower",
    "memory": "lower",
    "count": "lower",
    "rate": "higher",
    "throughput": "higher",
}
VIOLATIONS = ("error", "event order", "leak")


class ResultsError(Exception):
    """A file that is no results file, or one of another version. Says which and what to do."""


@dataclass
class About:
    """A candidate. A subject is what the run is about and what bounds are for; the others are there to compare with."""

    name: str
    program: str = ""
    version: str = ""
    sha256: str = ""
    subject: bool = False
    note: str = ""


@dataclass
class Measure:
    name: str
    unit: str
    kind: str = "latency"
    better: str = ""
    profile: str = ""
    #: What its ratios are to, where that is not the run's baseline.
    baseline: str = ""
    #: The ratio each candidate is meant to reach.
    goals: dict[str, float] = field(default_factory=dict)
    samples: dict[str, list[float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ResultsError(f"{self.name}: no kind {self.kind!r}; there are {', '.join(KINDS)}")
        self.better = self.better or KINDS[self.kind]

    @property
    def title(self) -> str:
        return f"{self.profile}: {self.name}" if self.profile else self.name

    def add(self, candidate: str, *values: float) -> None:
        self.samples.setdefault(candidate, []).extend(values)


@dataclass
class Series:
    name: str
    unit: str
    x: str
    kind: str = "latency"
    better: str = ""
    profile: str = ""
    #: candidate -> x -> samples; JSON has lists of [x, samples].
    points: dict[str, dict[float, list[float]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.better = self.better or KINDS[self.kind]
        self.points = {name: {x: list(values) for x, values in _pairs(many)} for name, many in self.points.items()}

    @property
    def title(self) -> str:
        return f"{self.profile}: {self.name}" if self.profile else self.name

    def add(self, candidate: str, x: float, *values: float) -> None:
        self.points.setdefault(candidate, {}).setdefault(x, []).extend(values)


@dataclass
class Timeline:
    """Phases in milliseconds from the begin of the call. A phase that lies within another is named `outer/inner`."""

    name: str
    profile: str = ""
    #: candidate -> rounds -> (phase, begin, duration)
    rounds: dict[str, list[list[tuple[str, float, float]]]] = field(default_factory=dict)

    @property
    def title(self) -> str:
        return f"{self.profile}: {self.name}" if self.profile else self.name

    def add(self, candidate: str, phases: Iterable[tuple[str, float, float]]) -> None:
        self.rounds.setdefault(candidate, []).append([(name, begin, length) for name, begin, length in phases])


@dataclass
class Trend:
    name: str
    unit: str
    x: str
    profile: str = ""
    #: More than this per round, with confidence, is a leak; None: nobody says what is too much.
    limit: float | None = None
    points: dict[str, list[tuple[float, float]]] = field(default_factory=dict)

    @property
    def title(self) -> str:
        return f"{self.profile}: {self.name}" if self.profile else self.name

    def add(self, candidate: str, x: float, value: float) -> None:
        self.points.setdefault(candidate, []).append((x, value))


@dataclass
class Violation:
    candidate: str
    kind: str
    text: str
    profile: str = ""

    def __post_init__(self) -> None:
        if self.kind not in VIOLATIONS:
            raise ResultsError(f"no violation of kind {self.kind!r}; there are {', '.join(VIOLATIONS)}")


@dataclass
class Cost:
    """What measuring costs: of the harness, or of the spans in the shim."""

    name: str
    unit: str
    samples: list[float] = field(default_factory=list)
    note: str = ""


@dataclass
class Run:
    began: str = ""
    seconds: float = 0.0
    seed: int = 1
    baseline: str = ""
    command: list[str] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, Any] = field(default_factory=dict)
    candidates: list[About] = field(default_factory=list)
    measures: list[Measure] = field(default_factory=list)
    series_: list[Series] = field(default_factory=list)
    timelines: list[Timeline] = field(default_factory=list)
    trends: list[Trend] = field(default_factory=list)
    violations: list[Violation] = field(default_factory=list)
    #: Why it did not pass, bounds that the user gave included.
    failures: list[str] = field(default_factory=list)
    harness: list[Cost] = field(default_factory=list)

    def measure(self, name: str, unit: str, **rest: Any) -> Measure:
        """The measure of this name and profile; made if it is new (then the rest is looked at)."""
        profile = rest.get("profile", "")
        for one in self.measures:
            if (one.name, one.profile) == (name, profile):
                return one
        self.measures.append(Measure(name, unit, **rest))
        return self.measures[-1]

    def series(self, name: str, unit: str, x: str, **rest: Any) -> Series:
        profile = rest.get("profile", "")
        for one in self.series_:
            if (one.name, one.profile) == (name, profile):
                return one
        self.series_.append(Series(name, unit, x, **rest))
        return self.series_[-1]

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

    def cost(self, name: str, unit: str, *values: float, note: str = "") -> None:
        for one in self.harness:
            if one.name == name:
                one.samples.extend(values)
                return
        self.harness.append(Cost(name, unit, list(values), note))

    def about(self, name: str) -> About:
        """A candidate by name; one that nobody introduced is known by its name alone."""
        for one in self.candidates:
            if one.name == name:
                return one
        self.candidates.append(About(name))
        return self.candidates[-1]

    def names(self, found: Iterable[str]) -> list[str]:
        """These candidates in the order of the run, which is not that of chance."""
        order = {one.name: number for number, one in enumerate(self.candidates)}
        return sorted(found, key=lambda name: order.get(name, len(order)))

    def baseline_of(self, measure: Measure) -> str:
        """The candidate its ratios are to, or "" when that one was not measured."""
        name = measure.baseline or self.baseline
        return name if measure.samples.get(name) else ""


def _pairs(many: Any) -> Iterable[tuple[float, list[float]]]:
    return many.items() if isinstance(many, dict) else ((x, values) for x, values in many)


def to_document(run: Run) -> dict[str, Any]:
    """What is written to results.json, but for the summaries, which are for readers only."""
    document = asdict(run)
    document["series"] = document.pop("series_")
    for series in document["series"]:
        series["points"] = {
            name: [[x, values] for x, values in sorted(many.items())] for name, many in series["points"].items()
        }
    return {"schema": SCHEMA, **document}


def from_document(document: Any) -> Run:
    if not isinstance(document, dict) or "schema" not in document:
        raise ResultsError("this is no results file: give a results.json that `python -m bench` has written")
    if document["schema"] != SCHEMA:
        raise ResultsError(f"results of format {document['schema']!r}; this program reads {SCHEMA!r}: measure again")
    parts: dict[str, Any] = {"measures": Measure, "series": Series, "timelines": Timeline, "trends": Trend}
    parts |= {"violations": Violation, "harness": Cost, "candidates": About}
    fields: dict[str, Any] = {}
    try:
        for name, value in document.items():
            if name in parts:
                known = parts[name].__dataclass_fields__
                value = [parts[name](**{key: one[key] for key in one if key in known}) for one in value]
            fields["series_" if name == "series" else name] = value
        run = Run(**{name: value for name, value in fields.items() if name in Run.__dataclass_fields__})
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        raise ResultsError(f"the results file is damaged: {error}") from error
    for timeline in run.timelines:
        timeline.rounds = {
            name: [[(phase, begin, length) for phase, begin, length in one] for one in rounds]
            for name, rounds in timeline.rounds.items()
        }
    for trend in run.trends:
        trend.points = {name: [(x, y) for x, y in points] for name, points in trend.points.items()}
    return run


def load(path: Path) -> Run:
    try:
        return from_document(json.loads(path.read_text()))
    except OSError as error:
        raise ResultsError(f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise ResultsError(f"{path}: no JSON: {error}") from error
    except ResultsError as error:
        raise ResultsError(f"{path}: {error}") from error

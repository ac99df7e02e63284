"""The tables of a run: their rows, and plain text for logs and results.txt. `terminal` renders them with rich."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median

from attrs import asdict, frozen

from bench.report.gate import grouped_violations
from bench.report.results import Measure, Run, Series, Trend
from bench.report.statistics import MIN_SAMPLES, enough_samples, ratio, summary
from runhcs.charts.slope import slope

COLUMNS = ("min", "p50", "p90", "p99", "mean", "sd")
FEW_SAMPLES = f"?: fewer than {MIN_SAMPLES} samples, the interval is not reliable"


@frozen
class Table:
    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]

    @property
    def has_few_samples(self) -> bool:
        return any("] ?" in cell for row in self.rows for cell in row)

    def text(self) -> str:
        """The first column left-aligned, the last as it is, the others right-aligned."""
        lines = [self.columns, *self.rows]
        widths = [max(len(row[place]) for row in lines) for place in range(len(self.columns))]
        out = [self.title]
        for row in lines:
            middle = [f"{cell:>{width}}" for cell, width in zip(row[1:-1], widths[1:-1], strict=True)]
            cells = [f"{row[0]:<{widths[0]}}", *middle]
            out.append(f"  {'  '.join([*cells, row[-1]])}".rstrip())
        return "\n".join(out) + "\n"


def text(tables: Iterable[Table]) -> str:
    tables = list(tables)
    joined = "\n".join(table.text() for table in tables)
    return f"{joined}\n{FEW_SAMPLES}\n" if any(table.has_few_samples for table in tables) else joined


def all_tables(run: Run) -> list[Table]:
    """Every distribution and timeline, then the overview: the end of the output is what a terminal shows."""
    distributions = [measure_table(run, measure) for measure in run.measures if measure.samples]
    return [*distributions, *_timelines(run), *overview(run)]


def overview(run: Run) -> list[Table]:
    """One row per measure: the baseline's median, and the ratio of each subject to it."""
    tables = [*_profiles(run)]
    tables += [series_table(run, series) for series in run.all_series]
    tables += [trend_table(run, trend) for trend in run.trends]
    if run.harness:
        rows = [
            [one.name, f"{number(median(one.samples))} {one.unit}", str(len(one.samples)), one.note]
            for one in run.harness
        ]
        tables.append(Table("harness overhead", ["", "median", "n", ""], rows))
    if run.violations:
        rows = [[one.candidate, one.kind, f"{one.text}{more}"] for one, more in grouped_violations(run)]
        tables.append(Table("violations", ["candidate", "kind", ""], rows))
    return tables


def _profiles(run: Run) -> Iterator[Table]:
    """One table per profile and baseline. Without a baseline it shows medians."""
    groups: dict[tuple[str, str], list[Measure]] = {}
    for measure in run.measures:
        if any(measure.samples.values()):
            groups.setdefault((measure.profile, run.baseline_of(measure)), []).append(measure)
    for (profile, baseline), measures in groups.items():
        measured = dict.fromkeys(name for measure in measures for name, values in measure.samples.items() if values)
        others = [name for name in run.in_order(measured) if name != baseline]
        shown = [name for name in others if run.candidate(name).subject] or others
        rows = []
        for measure in measures:
            direction = ", higher is better" if measure.better == "higher" else ""
            head = f"{measure.name}{f', {measure.unit}' if measure.unit else ''}{direction}"
            middle = [number(median(measure.samples[baseline]))] if baseline else []
            rows.append([head, *middle, *(_cell(run, measure, name, baseline) for name in shown)])
        columns = ["", *([f"{baseline}, median"] if baseline else []), *shown]
        content = "ratios of medians" if baseline else "medians"
        yield Table(f"{f'{profile}: ' if profile else ''}{content}", columns, rows)


def _cell(run: Run, measure: Measure, name: str, baseline: str) -> str:
    values = measure.samples.get(name)
    if not values:
        return "-"
    if not baseline:
        return number(median(values))
    goal = goal_text(measure, name)
    return f"{ratio_text(run, measure, name)}{goal and f' goal {goal}'}"


def measure_table(run: Run, measure: Measure) -> Table:
    """Candidates with their distribution and their ratio to the baseline's median with its 95 % interval."""
    baseline = run.baseline_of(measure)
    rows = []
    for name in run.in_order(name for name, values in measure.samples.items() if values):
        values = measure.samples[name]
        stats = asdict(summary(values))
        cells = [number(stats[column]) for column in COLUMNS]
        goal = goal_text(measure, name)
        rows.append([name, str(len(values)), *cells, f"{ratio_text(run, measure, name)}{goal and f'  (goal {goal})'}"])
    title = f"{measure.title}{f', {measure.unit}' if measure.unit else ''}, {measure.better} is better"
    return Table(title, ["", "n", *COLUMNS, f"ratio to {baseline}" if baseline else "ratio"], rows)


def number(value: float) -> str:
    """Three significant digits, or all digits of the integer part."""
    size = abs(value)
    if not size:
        return "0"
    digits = 0 if size >= 1000 else 1 if size >= 100 else 2 if size >= 1 else None
    return f"{value:.3g}" if digits is None else f"{value:.{digits}f}"


def ratio_text(run: Run, measure: Measure, name: str) -> str:
    """The ratio and its interval; with a question mark when there are too few samples."""
    baseline = run.baseline_of(measure)
    if name == baseline:
        return "1"
    base = measure.samples.get(baseline, ())
    found = ratio(measure.samples[name], base, run.seed)
    if found is None:
        return "-"
    return f"{found}{'' if enough_samples(measure.samples[name], base) else ' ?'}"


def goal_text(measure: Measure, name: str) -> str:
    goal = measure.goals.get(name)
    return "" if goal is None else f"{'<=' if measure.better == 'lower' else '>='} {goal:g}"


def series_table(run: Run, series: Series) -> Table:
    xs = sorted({x for points in series.points.values() for x in points})
    rows = [
        [name, *(number(median(series.points[name][x])) if series.points[name].get(x) else "-" for x in xs)]
        for name in run.in_order(series.points)
    ]
    unit = f", {series.unit}" if series.unit else ""
    title = f"{series.title}{unit}, medians by {series.x}, {series.better} is better"
    return Table(title, ["", *(f"{x:g}" for x in xs)], rows)


def _timelines(run: Run) -> Iterator[Table]:
    for timeline in run.timelines:
        typical = {name: typical_phases(timeline.rounds[name]) for name in run.in_order(timeline.rounds)}
        names = list(dict.fromkeys(phase for phases in typical.values() for phase in phases))
        if not names:
            continue
        rows = [
            [name, *(number(phases[name][1]) if name in phases else "-" for phases in typical.values())]
            for name in names
        ]
        yield Table(f"phases of {timeline.title}, ms, medians", ["", *typical], rows)


def typical_phases(rounds: Sequence[Sequence[tuple[str, float, float]]]) -> Mapping[str, tuple[float, float]]:
    """Phase -> medians of begin and duration, ordered by begin. A phase that repeats in a round has its first begin and
    the sum of its durations."""
    seen: dict[str, list[tuple[float, float]]] = {}
    for phases in rounds:
        merged: dict[str, tuple[float, float]] = {}
        for name, begin, length in phases:
            earlier = merged.get(name, (begin, 0.0))
            merged[name] = min(earlier[0], begin), earlier[1] + length
        for name, span in merged.items():
            seen.setdefault(name, []).append(span)
    found = {name: (median(b for b, _ in spans), median(d for _, d in spans)) for name, spans in seen.items()}
    return dict(sorted(found.items(), key=lambda item: (item[1][0], item[0].count("/"))))


def trend_table(run: Run, trend: Trend) -> Table:
    rows = []
    for name in run.in_order(trend.points):
        points = trend.points[name]
        growth = slope(points)
        cell = "-" if growth is None else growth.text(".4g")
        rows.append([name, str(len(points)), number(points[0][1]), number(points[-1][1]), cell])
    title = f"{trend.title}{f', {trend.unit}' if trend.unit else ''}, per {trend.x}"
    return Table(title, ["", "n", "first", "last", f"growth per {trend.x}"], rows)

"""Results for the terminal: one table per measure, and what else was found, in plain text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import median

from bench.report.gate import gathered
from bench.report.results import Measure, Run, Series, Trend
from bench.report.statistics import FEWEST, ratio, slope, summary, sure

Block = tuple[str, Sequence[str], Sequence[Sequence[str]]]  # title, columns, rows
COLUMNS = ("min", "p50", "p90", "p99", "mean", "sd")


def text(run: Run) -> str:
    """Everything, the overview last: that is what a terminal shows in the end."""
    blocks = [measure_table(run, measure) for measure in run.measures if measure.samples]
    blocks += [grid(*block) for block in _timelines(run)]
    return "\n".join([*blocks, overview(run)])


def overview(run: Run) -> str:
    """One line per measure: the baseline's median, and the ratio of each subject to it."""
    blocks = [grid(*block) for block in _profiles(run)]
    blocks += [grid(*series_rows(run, series)) for series in run.series_]
    blocks += [grid(*trend_rows(run, trend)) for trend in run.trends]
    if run.harness:
        rows = [
            [one.name, f"{number(median(one.samples))} {one.unit}", str(len(one.samples)), one.note]
            for one in run.harness
        ]
        blocks.append(grid("what measuring costs", ["", "median", "n", ""], rows))
    if run.violations:
        rows = [[one.candidate, one.kind, f"{one.text}{more}"] for one, more in gathered(run)]
        blocks.append(grid("violations", ["", "", ""], rows))
    made = "\n".join(blocks)
    return f"{made}\n?: of fewer than {FEWEST} samples, too few to be sure\n" if "] ?" in made else made


def _profiles(run: Run) -> Iterator[Block]:
    """Measures of one profile and one baseline belong together. Without a baseline it is medians that are shown."""
    together: dict[tuple[str, str], list[Measure]] = {}
    for measure in run.measures:
        if any(measure.samples.values()):
            together.setdefault((measure.profile, run.baseline_of(measure)), []).append(measure)
    for (profile, baseline), measures in together.items():
        measured = dict.fromkeys(name for measure in measures for name, values in measure.samples.items() if values)
        others = [name for name in run.names(measured) if name != baseline]
        shown = [name for name in others if run.about(name).subject] or others
        rows = []
        for measure in measures:
            rises = ", higher is better" if measure.better == "higher" else ""
            head = f"{measure.name}{f', {measure.unit}' if measure.unit else ''}{rises}"
            middle = [number(median(measure.samples[baseline]))] if baseline else []
            rows.append([head, *middle, *(_cell(run, measure, name, baseline) for name in shown)])
        columns = ["", *([f"{baseline}, median"] if baseline else []), *shown]
        what = "ratios of medians" if baseline else "medians"
        yield f"{f'{profile}: ' if profile else ''}{what}", columns, rows


def _cell(run: Run, measure: Measure, name: str, baseline: str) -> str:
    values = measure.samples.get(name)
    if not values:
        return "-"
    if not baseline:
        return number(median(values))
    goal = goal_text(measure, name)
    return f"{ratio_text(run, measure, name)}{goal and f' goal {goal}'}"


def heading(measure: Measure) -> str:
    return f"{measure.title}{f', {measure.unit}' if measure.unit else ''}, {measure.better} is better"


def measure_table(run: Run, measure: Measure) -> str:
    return grid(heading(measure), *measure_rows(run, measure))


def measure_rows(run: Run, measure: Measure) -> tuple[list[str], list[list[str]]]:
    """Candidates with their distribution, and as multiples of the baseline's median with its 95 % interval."""
    baseline = run.baseline_of(measure)
    rows = []
    for name in run.names(name for name, values in measure.samples.items() if values):
        values = measure.samples[name]
        figures = summary(values)
        cells = [number(figures[column]) for column in COLUMNS]
        goal = goal_text(measure, name)
        rows.append([name, str(len(values)), *cells, f"{ratio_text(run, measure, name)}{goal and f'  (goal {goal})'}"])
    return ["", "n", *COLUMNS, f"ratio to {baseline}" if baseline else "ratio"], rows


def number(value: float) -> str:
    """Three digits that mean something, whatever the magnitude."""
    size = abs(value)
    if not size:
        return "0"
    digits = 0 if size >= 1000 else 1 if size >= 100 else 2 if size >= 1 else None
    return f"{value:.3g}" if digits is None else f"{value:.{digits}f}"


def ratio_text(run: Run, measure: Measure, name: str) -> str:
    """The ratio and its interval; with a question mark where there are too few samples to be sure of anything."""
    baseline = run.baseline_of(measure)
    if name == baseline:
        return "1"
    theirs = measure.samples.get(baseline, ())
    found = ratio(measure.samples[name], theirs, run.seed)
    if found is None:
        return "-"
    unsure = "" if sure(measure.samples[name], theirs) else " ?"
    return f"{found[0]:.2f} [{found[1]:.2f}, {found[2]:.2f}]{unsure}"


def goal_text(measure: Measure, name: str) -> str:
    goal = measure.goals.get(name)
    return "" if goal is None else f"{'<=' if measure.better == 'lower' else '>='} {goal:g}"


def series_rows(run: Run, series: Series) -> Block:
    xs = sorted({x for points in series.points.values() for x in points})
    rows = [
        [name, *(number(median(series.points[name][x])) if series.points[name].get(x) else "-" for x in xs)]
        for name in run.names(series.points)
    ]
    unit = f", {series.unit}" if series.unit else ""
    title = f"{series.title}{unit}, medians by {series.x}, {series.better} is better"
    return title, ["", *(f"{x:g}" for x in xs)], rows


def _timelines(run: Run) -> Iterator[Block]:
    for timeline in run.timelines:
        shapes = {name: typical(timeline.rounds[name]) for name in run.names(timeline.rounds)}
        phases = list(dict.fromkeys(phase for shape in shapes.values() for phase in shape))
        if not phases:
            continue
        rows = [
            [phase, *(number(shape[phase][1]) if phase in shape else "-" for shape in shapes.values())]
            for phase in phases
        ]
        yield f"phases of {timeline.title}, ms, medians", ["", *shapes], rows


def typical(rounds: Sequence[Sequence[tuple[str, float, float]]]) -> Mapping[str, tuple[float, float]]:
    """Phase -> medians of begin and duration, by begin. A phase seen twice in a round counts from its first begin with
    the sum of its durations."""
    seen: dict[str, list[tuple[float, float]]] = {}
    for phases in rounds:
        once: dict[str, tuple[float, float]] = {}
        for name, begin, length in phases:
            earlier = once.get(name, (begin, 0.0))
            once[name] = min(earlier[0], begin), earlier[1] + length
        for name, span in once.items():
            seen.setdefault(name, []).append(span)
    found = {name: (median(b for b, _ in spans), median(d for _, d in spans)) for name, spans in seen.items()}
    return dict(sorted(found.items(), key=lambda item: (item[1][0], item[0].count("/"))))


def trend_rows(run: Run, trend: Trend) -> Block:
    rows = []
    for name in run.names(trend.points):
        points = trend.points[name]
        grown = slope(points)
        cell = "-" if grown is None else f"{grown[0]:.4g} [{grown[1]:.4g}, {grown[2]:.4g}]"
        rows.append([name, str(len(points)), number(points[0][1]), number(points[-1][1]), cell])
    title = f"{trend.title}{f', {trend.unit}' if trend.unit else ''}, over every {trend.x}"
    return title, ["", "n", "first", "last", f"growth per {trend.x}"], rows


def grid(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The first column to the left, the last as it comes, what is between to the right."""
    widths = [max(len(row[place]) for row in (columns, *rows)) for place in range(len(columns))]
    lines = [title]
    for row in (columns, *rows):
        middle = [f"{cell:>{width}}" for cell, width in zip(row[1:-1], widths[1:-1], strict=True)]
        cells = [f"{row[0]:<{widths[0]}}", *middle]
        lines.append(f"  {'  '.join([*cells, row[-1]])}".rstrip())
    return "\n".join(lines) + "\n"

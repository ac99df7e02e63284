"""Charts of a run as SVG, one function each. They show the data of the tables; every mark has a tooltip."""

from __future__ import annotations

import random
from collections.abc import Sequence
from statistics import median

from bench.report.results import Measure, Run, Series, Timeline, Trend
from bench.report.statistics import enough_samples, percentile, ratio, summary
from bench.report.tables import number, ratio_text, typical_phases
from runhcs.charts import svg
from runhcs.charts.slope import Interval, slope
from runhcs.charts.svg import WIDTH, Scale

# Above this number of samples only every n-th of the sorted ones is drawn, and always the extremes.
MAX_DOTS = 250
MAX_LINE_POINTS = 300
# Beyond this spread of values a linear axis would hide the small ones.
LINEAR_SPREAD = 8.0
# Shorter phases, as a share of the whole, are counted but not drawn.
MIN_PHASE_SHARE = 0.003
LEFT, RIGHT = 8.0, WIDTH - 12


class Colours:
    """Each candidate's number in the run: it has the same colour and shape in every chart."""

    def __init__(self, run: Run) -> None:
        names = [one.name for one in run.candidates]
        for one in run.measures:
            names += one.samples
        for series in run.all_series:
            names += series.points
        for trend in run.trends:
            names += trend.points
        for timeline in run.timelines:
            names += timeline.rounds
        self._numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}

    def __getitem__(self, name: str) -> int:
        return self._numbers[name]

    def of(self, names: Sequence[str]) -> list[tuple[int, str]]:
        return [(self[name], name) for name in names]


def forest(run: Run, measures: Sequence[Measure], name: str) -> str:
    """A forest plot: ratios with their intervals, one line per measure and candidate; a thick bar marks the goal."""
    colours = Colours(run)
    rows: list[tuple[Measure, str, Interval]] = []
    for measure in measures:
        baseline = run.baseline_of(measure)
        for candidate in run.in_order(one for one in measure.samples if one != baseline):
            found = ratio(measure.samples[candidate], measure.samples.get(baseline, ()), run.seed)
            if found is not None and found.value > 0:
                rows.append((measure, candidate, found))
    if not rows:
        return ""
    shown = run.in_order(dict.fromkeys(candidate for _, candidate, _ in rows))
    out, y = svg.legend(colours.of(shown))
    top = y
    goals = [goal for measure, _, _ in rows for goal in measure.goals.values()]
    low = min(0.8, *(max(found.low, found.value / 20) for _, _, found in rows), *goals)
    high = max(1.25, *(min(found.high, found.value * 20) for _, _, found in rows), *goals)
    scale = Scale(low * 0.9, high * 1.1, LEFT, RIGHT - 118, log=True)
    marks = []
    last = None
    for measure, candidate, found in rows:
        if measure is not last:
            y += 22
            better = "" if measure.better == "lower" else " (higher is better)"
            marks.append(svg.text(LEFT, y, f"{measure.title}{better}", "strong"))
            last = measure
        y += 16
        middle = y - 4
        tooltip = f"{measure.title}, {candidate}: {found}"
        goal = measure.goals.get(candidate)
        if goal is not None:
            sign = "<=" if measure.better == "lower" else ">="
            goal_tooltip = svg.title(f"goal {sign} {goal:g}")
            place = {"x1": scale(goal), "x2": scale(goal), "y1": middle - 8, "y2": middle + 8}
            marks.append(svg.element("line", goal_tooltip, **place, class_="goal"))
        colour = colours[candidate] % svg.COLOURS
        has_enough = enough_samples(measure.samples[candidate], measure.samples[run.baseline_of(measure)])
        faded = "" if has_enough else " unsure"
        marks.append(svg.line(scale(found.low), middle, scale(found.high), middle, f"stroke s{colour}{faded}"))
        marks.append(svg.marker(colours[candidate], scale(found.value), middle, tooltip))
        marks.append(svg.text(RIGHT, y, ratio_text(run, measure, candidate), "tick" if faded else "value", "end"))
    bottom = y + 8
    out += svg.x_axis(scale, top + 6, bottom, "ratio of medians to the baseline, logarithmic")
    out.append(svg.line(scale(1), top + 6, scale(1), bottom, "one"))
    return svg.chart(out + marks, bottom + 38, name)


def distribution(run: Run, measure: Measure) -> str:
    """Every sample is a dot; the box is the interquartile range, the bar is the median."""
    colours = Colours(run)
    names = run.in_order(name for name, values in measure.samples.items() if values)
    everything = [value for name in names for value in measure.samples[name]]
    low, high = min(everything), max(everything)
    log = low > 0 and high / low > LINEAR_SPREAD
    scale = Scale(low * 0.95 if log else min(low, 0.0), high * 1.05 if log else high, LEFT + 4, RIGHT - 4, log=log)
    y = 4.0
    marks = []
    for name in names:
        ordered = sorted(measure.samples[name])
        colour = colours[name] % svg.COLOURS
        middle = y + 32
        marks.append(svg.marker(colours[name], LEFT + 4, y + 9, name, 4))
        marks.append(svg.text(LEFT + 14, y + 13, name))
        stats = summary(ordered)
        caption = f"p50 {number(stats.p50)} · p90 {number(stats.p90)} · n {stats.n}"
        marks.append(svg.text(RIGHT, y + 13, caption, "value", "end"))
        quarter, half, rest = (percentile(ordered, share) for share in (0.25, 0.5, 0.75))
        tooltip = f"{name}: median {number(half)} {measure.unit}, quartiles {number(quarter)} to {number(rest)}"
        box = svg.element(
            "rect", svg.title(tooltip), x=scale(quarter), y=middle - 11, height=22.0, rx=2.0,
            width=max(scale(rest) - scale(quarter), 1.0), class_=f"box c{colour}",
        )  # fmt: skip
        marks.append(box)
        jitter = random.Random(0)
        for value in downsample(ordered):
            height = middle + jitter.uniform(-8, 8)
            dot = svg.title(f"{number(value)} {measure.unit}".strip())
            marks.append(svg.element("circle", dot, cx=scale(value), cy=height, r=2.2, class_=f"dot c{colour}"))
        marks.append(svg.line(scale(half), middle - 13, scale(half), middle + 13, f"median s{colour}"))
        y += 52
    axis = f"{measure.unit or 'number'}{', logarithmic' if log else ''}, {measure.better} is better"
    out = svg.x_axis(scale, 22, y, axis)
    return svg.chart(out + marks, y + 38, f"{measure.title}, distribution")


def downsample(ordered: Sequence[float]) -> Sequence[float]:
    if len(ordered) <= MAX_DOTS:
        return ordered
    return [ordered[round(place * (len(ordered) - 1) / (MAX_DOTS - 1))] for place in range(MAX_DOTS)]


def bars(run: Run, measure: Measure) -> str:
    """Medians from zero, with a whisker over the range: for memory and counts, which vary little."""
    colours = Colours(run)
    names = run.in_order(name for name, values in measure.samples.items() if values)
    scale = Scale(0, max(max(measure.samples[name]) for name in names), LEFT, RIGHT - 4)
    y = 4.0
    marks = []
    for name in names:
        values = measure.samples[name]
        half, colour = median(values), colours[name] % svg.COLOURS
        tooltip = f"{name}: {number(half)} {measure.unit}".strip()
        marks.append(svg.marker(colours[name], LEFT + 4, y + 9, name, 4))
        marks.append(svg.text(LEFT + 14, y + 13, name))
        marks.append(svg.text(RIGHT, y + 13, f"{number(half)} {measure.unit}".strip(), "value", "end"))
        width = max(scale(half) - scale(0), 0.5)
        marks.append(
            svg.element("rect", svg.title(tooltip), x=LEFT, y=y + 20, width=width, height=14.0, class_=f"bar c{colour}")
        )
        marks.append(svg.line(scale(min(values)), y + 27, scale(max(values)), y + 27, "whisker"))
        y += 42
    out = svg.x_axis(scale, 22, y, f"{measure.unit or 'number'}, {measure.better} is better")
    return svg.chart(out + marks, y + 38, f"{measure.title}, medians")


def lines(run: Run, series: Series) -> str:
    """A metric by x: a line through the medians, a whisker over the range."""
    colours = Colours(run)
    names = run.in_order(name for name, points in series.points.items() if points)
    out, y = svg.legend(colours.of(names))
    top, bottom = y + 8, y + 230
    xs = sorted({x for name in names for x in series.points[name]})
    values = [value for name in names for many in series.points[name].values() for value in many]
    across = Scale(min(0.0, xs[0]), xs[-1], LEFT + 44, RIGHT - 8)
    up = Scale(0, max(values) * 1.04, bottom, top)
    out += svg.y_axis(up, LEFT + 44, RIGHT) + svg.x_axis(across, top, bottom, series.x, values=xs)
    for name in names:
        colour = colours[name]
        points = sorted(series.points[name].items())
        path = " ".join(f"{across(x):.2f},{up(median(many)):.2f}" for x, many in points)
        out.append(svg.element("polyline", points=path, class_=f"path s{colour % svg.COLOURS}"))
        for x, many in points:
            out.append(svg.line(across(x), up(min(many)), across(x), up(max(many)), f"thin s{colour % svg.COLOURS}"))
            tooltip = f"{name}, {series.x} {x:g}: {number(median(many))} {series.unit}"
            out.append(svg.marker(colour, across(x), up(median(many)), tooltip, 4))
    return svg.chart(out, bottom + 38, f"{series.title}, {series.unit}, by {series.x}")


def timeline(run: Run, one: Timeline) -> str:
    """The phases of a typical call on a time axis; all candidates on one scale."""
    colours = Colours(run)
    typical = {name: typical_phases(one.rounds[name]) for name in run.in_order(one.rounds) if any(one.rounds[name])}
    if not typical:
        return ""
    end = max((begin + length for phases in typical.values() for begin, length in phases.values()), default=1.0)
    scale = Scale(0, end or 1.0, LEFT + 154, RIGHT - 36)
    y = 2.0
    marks = []
    for name, phases in typical.items():
        colour = colours[name] % svg.COLOURS
        marks.append(svg.marker(colours[name], LEFT + 4, y + 12, name, 4))
        marks.append(svg.text(LEFT + 14, y + 16, name, "strong"))
        y += 22
        drawn = {phase: span for phase, span in phases.items() if span[1] >= end * MIN_PHASE_SHARE}
        for phase, (begin, length) in drawn.items():
            depth = phase.count("/")
            short = phase.rpartition("/")[2]
            width = 24 - 2 * depth
            short = short if len(short) <= width else f"{short[: width - 1]}…"
            marks.append(svg.text(LEFT + 2 + 10 * depth, y + 11, short, "value"))
            extent = max(scale(begin + length) - scale(begin), 1.0)
            tooltip = f"{name}, {phase}: {number(length)} ms, begins at {number(begin)} ms"
            kind = "inner" if depth else "bar"
            place = {"x": scale(begin), "y": y + 2, "width": extent, "height": 11.0}
            marks.append(svg.element("rect", svg.title(tooltip), **place, class_=f"{kind} c{colour}"))
            marks.append(svg.text(scale(begin) + extent + 4, y + 11, number(length), "tick"))
            y += 16
        if len(drawn) < len(phases):
            hidden = f"and {len(phases) - len(drawn)} below {MIN_PHASE_SHARE:.1%} of the whole"
            marks.append(svg.text(LEFT + 2, y + 11, hidden, "tick"))
            y += 16
        y += 8
    out = svg.x_axis(scale, 8, y, "ms since the call began, medians", 4)
    return svg.chart(out + marks, y + 38, f"{one.title}, phases")


def trend(run: Run, one: Trend) -> str:
    """A value over many rounds; the tooltip has its slope."""
    colours = Colours(run)
    names = run.in_order(name for name, points in one.points.items() if points)
    out, y = svg.legend(colours.of(names))
    top, bottom = y + 8, y + 200
    values = [value for name in names for _, value in one.points[name]]
    xs = [x for name in names for x, _ in one.points[name]]
    margin = (max(values) - min(values)) * 0.05 or max(abs(values[0]) * 0.05, 1.0)
    across = Scale(min(xs), max(xs), LEFT + 48, RIGHT - 8)
    up = Scale(min(values) - margin, max(values) + margin, bottom, top)
    out += svg.y_axis(up, LEFT + 48, RIGHT) + svg.x_axis(across, top, bottom, one.x)
    for name in names:
        colour = colours[name] % svg.COLOURS
        points = one.points[name][:: -(-len(one.points[name]) // MAX_LINE_POINTS)]
        path = " ".join(f"{across(x):.2f},{up(value):.2f}" for x, value in points)
        growth = slope(one.points[name])
        tooltip = f"{name}: {'too few points' if growth is None else f'{growth.value:.4g} {one.unit} per {one.x}'}"
        out.append(svg.element("polyline", svg.title(tooltip), points=path, class_=f"path s{colour}"))
        out.append(svg.marker(colours[name], across(points[-1][0]), up(points[-1][1]), tooltip, 4))
    return svg.chart(out, bottom + 38, f"{one.title}, {one.unit} per {one.x}")

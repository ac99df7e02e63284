"""The report: one self-contained HTML file, charts with their tables below. No script, no network."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from statistics import median

from bench.report import charts, gate, tables
from bench.report.results import Measure, Run, Series, Trend
from bench.report.statistics import CONFIDENCE, MIN_SAMPLES
from runhcs.charts import style

# Measures per ratio chart; more would not fit on a screen.
MAX_IN_FOREST = 10

HOW_TO_READ = (
    "Candidates are interleaved in one run on one machine, so disturbances affect all of them. <em>Ratios</em> are "
    "comparable between machines; absolute values are not.",
    f"A ratio is a ratio of medians. The line through its mark is the {CONFIDENCE:.0%} bootstrap interval: "
    "if it crosses 1, the run shows no difference. A thick green bar marks the goal, if there is one.",
    f"A question mark and a pale line mark fewer than {MIN_SAMPLES} samples: the interval is not reliable.",
    "In a distribution every dot is a sample, the box is the interquartile range, the bar is the median. Logarithmic "
    "axes are labelled.",
    "A phase that repeats in a call is drawn at its first begin with the sum of its durations.",
    "Hover over a mark, or open the table below a chart, for the values.",
)


def html(run: Run) -> str:
    failures = run.failures or gate.failures(run)
    sections = [
        ("ratios", "Ratios", _cards(_ratios(run))),
        ("distributions", "Distributions", _distributions(run)),
        ("phases", "Call phases", _cards(_phases(run))),
        ("scaling", "Scaling", _cards(_series_card(run, one) for one in run.all_series)),
        ("trends", "Trends", _cards(_trend_card(run, one) for one in run.trends)),
        ("memory", "Memory and handles", _cards(_memory(run))),
        ("harness", "Harness overhead", _cards(_harness(run))),
        ("environment", "Environment and candidates", _cards(_environment(run))),
    ]
    kept = [section for section in sections if section[2]]
    links = "".join(f'<a href="#{anchor}">{name}</a>' for anchor, name, _ in kept)
    bodies = "".join(f'<section id="{anchor}"><h2>{name}</h2>{body}</section>' for anchor, name, body in kept)
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>Shim benchmark, {escape(run.began)}</title>"
        f"<style>{style.THEMES}{style.CHARTS}{style.PAGE}</style></head><body>"
        f"<header>{_head(run, failures)}<nav>{links}</nav></header><main>{bodies}</main></body></html>\n"
    )


def _head(run: Run, failures: Sequence[str]) -> str:
    environment = run.environment
    machine = ", ".join(
        str(part)
        for part in (
            environment.get("processor"),
            _processors(environment),
            environment.get("distribution"),
            environment.get("kernel"),
        )
        if part
    )
    verdict = (
        f'<p class="failed">Failed</p><ul>{_items(failures)}</ul>'
        if failures
        else '<p class="passed">Passed: no errors, events in order, no leaked resources</p>'
    )
    remarks = [*gate.notes(run), *(f"skipped {one.measure}: {one.reason}" for one in run.skipped)]
    verdict += f'<ul class="faint">{_items(remarks)}</ul>' if remarks else ""
    how = "".join(f"<li>{one}</li>" for one in HOW_TO_READ)
    return (
        f'<h1>Shim benchmark</h1><p class="faint">{escape(run.began)}, {run.seconds:.0f} s; {escape(machine)}. '
        f"Ratios are to <strong>{escape(run.baseline or 'the baseline of each measure')}</strong>.</p>{verdict}"
        f"<details><summary>How to read this</summary><ul>{how}</ul></details>"
    )


def _processors(environment: dict[str, object]) -> str:
    return f"{environment['processors']} processors" if environment.get("processors") else ""


def _items(lines: Iterable[str]) -> str:
    return "".join(f"<li>{escape(line)}</li>" for line in lines)


def _card(title: str, chart: str, table: str = "", note: str = "") -> str:
    if not chart:
        return ""
    remark = f'<p class="faint">{escape(note)}</p>' if note else ""
    return f'<article class="card"><h3>{escape(title)}</h3>{remark}{chart}{table}</article>'


def grid(columns: Sequence[str], rows: Sequence[Sequence[str]], words: int = 0, name: str = "Values") -> str:
    """A collapsed table. The first `words` columns after the first are text."""
    head = "".join(f'<th scope="col">{escape(one)}</th>' for one in columns)
    body = ""
    for row in rows:
        cells = (f"<td{' class=words' if place <= words else ''}>{escape(cell)}</td>" for place, cell in enumerate(row))
        body += f"<tr>{''.join(cells)}</tr>"
    return (
        f'<details><summary>{escape(name)}</summary><div class="wide"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div></details>"
    )


def is_memory(measure: Measure) -> bool:
    return measure.kind in ("memory", "count")


def groups(run: Run) -> dict[str, list[Measure]]:
    """The measures of each ratio chart: of one profile, memory separate from the others."""
    found: dict[str, list[Measure]] = {}
    for measure in run.measures:
        if any(name != run.baseline_of(measure) for name in measure.samples) and run.baseline_of(measure):
            kind = "memory and handles" if is_memory(measure) else "latency, CPU, rates"
            name = f"{measure.profile}: {kind}" if measure.profile else kind[0].upper() + kind[1:]
            found.setdefault(name, []).append(measure)
    chunks = {}
    for name, many in found.items():
        for begin in range(0, len(many), MAX_IN_FOREST):
            total = -(-len(many) // MAX_IN_FOREST)
            part = f" ({begin // MAX_IN_FOREST + 1} of {total})" if total > 1 else ""
            chunks[f"{name}{part}"] = many[begin : begin + MAX_IN_FOREST]
    return chunks


def _ratios(run: Run) -> list[str]:
    return [_card(name, charts.forest(run, measures, f"Ratios, {name}")) for name, measures in groups(run).items()]


def values(run: Run, measure: Measure) -> str:
    table = tables.measure_table(run, measure)
    return grid(table.columns, table.rows)


def _distributions(run: Run) -> str:
    """By profile: the first one open, the others collapsed, since there are many."""
    shown = [one for one in run.measures if not is_memory(one) and any(one.samples.values())]
    out = ""
    for number, profile in enumerate(dict.fromkeys(one.profile for one in shown)):
        own = [one for one in shown if one.profile == profile]
        cards = [_card(one.title, charts.distribution(run, one), values(run, one)) for one in own]
        name = f"{profile or 'process'}: {len(own)} measures"
        out += f"<details{'' if number else ' open'}><summary>{escape(name)}</summary>{_cards(cards)}</details>"
    return out


def _cards(cards: Iterable[str]) -> str:
    """Empty without cards."""
    joined = "".join(cards)
    return joined and f'<div class="cards">{joined}</div>'


def _memory(run: Run) -> list[str]:
    shown = [one for one in run.measures if is_memory(one) and any(one.samples.values())]
    return [_card(one.title, charts.bars(run, one), values(run, one)) for one in shown]


def _phases(run: Run) -> list[str]:
    return [_card(one.title, charts.timeline(run, one)) for one in run.timelines]


def _series_card(run: Run, series: Series) -> str:
    if not any(series.points.values()):
        return ""
    table = tables.series_table(run, series)
    note = f"{series.unit}, {series.better} is better"
    return _card(series.title, charts.lines(run, series), grid(table.columns, table.rows, name=table.title), note)


def _trend_card(run: Run, trend: Trend) -> str:
    if not any(trend.points.values()):
        return ""
    table = tables.trend_table(run, trend)
    limit = "" if trend.limit is None else f"more than {trend.limit:g} {trend.unit} per {trend.x} is a leak"
    name = f"{trend.title}, {trend.unit}" if trend.unit else trend.title
    return _card(name, charts.trend(run, trend), grid(table.columns, table.rows, name=table.title), limit)


def _harness(run: Run) -> list[str]:
    if not run.harness:
        return []
    measured = [one for one in run.harness if one.samples]
    rows = [[one.name, f"{tables.number(median(one.samples))} {one.unit}", one.note] for one in measured]
    table = grid(["", "median", ""], rows, name="Overhead of the harness and of the spans")
    table = table.replace("<details>", "<details open>")
    return [f'<article class="card">{table}</article>']


def _environment(run: Run) -> list[str]:
    """Programs by file name only: a report is published, and local paths are private."""
    candidates = [
        [one.name, one.version or "-", one.program.rpartition("/")[2], one.sha256[:12], one.note]
        for one in run.candidates
    ]
    environment = [[name, _plain(value)] for name, value in run.environment.items() if value not in ("", None)]
    command = [["command", " ".join(run.command)], ["seed", str(run.seed)]]
    command += [[f"settings of {name}", _plain(value)] for name, value in run.settings.items()]
    shown = [
        grid(["candidate", "version", "program", "sha256", ""], candidates, 4, "Candidates"),
        grid(["", ""], environment, 1, "Environment"),
        grid(["", ""], command, 1, "Command and settings"),
    ]
    return [f'<article class="card">{table}</article>' for table in shown]


def _plain(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}: {_plain(one)}" for name, one in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(_plain(one) for one in value)
    return f"{value:.4g}" if isinstance(value, float) else str(value)

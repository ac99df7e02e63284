"""The report: one HTML file with everything in it, charts first and the figures beneath them. No script, no network."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from statistics import median

from bench.report import charts, gate, style, tables
from bench.report.results import Measure, Run
from bench.report.statistics import CONFIDENCE

# More than this makes a chart that nobody sees as a whole.
IN_ONE_FOREST = 10

HOW_TO_READ = (
    "All candidates took turns in this one run, on this machine. What disturbed one disturbed the others alike, so "
    "<em>ratios</em> hold elsewhere; absolute figures do not.",
    f"A ratio is that of medians. The line through its mark is the {CONFIDENCE:.0%} interval (bootstrap): where it "
    "crosses 1 the run does not tell the two apart. A thick green bar is the goal, where there is one.",
    "A question mark and a pale line stand where there were fewer than six samples: too few to be sure.",
    "In a distribution every dot is a sample, the box holds the middle half, the bar is the median. Axes that say "
    "so are logarithmic.",
    "In phases, one that occurs several times in a call stands at its first begin with the sum of its durations.",
    "Point at a mark, or open the figures beneath a chart, for the numbers.",
)


def html(run: Run) -> str:
    broken = run.failures or gate.failures(run)
    sections = [
        ("ratios", "Ratios", _cards(_ratios(run))),
        ("distributions", "Distributions", _distributions(run)),
        ("phases", "Phases inside calls", _cards(_phases(run))),
        ("scaling", "How cost grows", _cards(_series_card(run, number) for number in range(len(run.series_)))),
        ("trends", "Over many rounds", _cards(_trend_card(run, number) for number in range(len(run.trends)))),
        ("memory", "Memory and handles", _cards(_memory(run))),
        ("harness", "What measuring costs", _cards(_harness(run))),
        ("environment", "Where and with whom", _cards(_environment(run))),
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
        f"<header>{_head(run, broken)}<nav>{links}</nav></header><main>{bodies}</main></body></html>\n"
    )


def _head(run: Run, broken: Sequence[str]) -> str:
    where = run.environment
    machine = ", ".join(
        str(part)
        for part in (where.get("processor"), _counted(where), where.get("distribution"), where.get("kernel"))
        if part
    )
    verdict = (
        f'<p class="failed">Failed</p><ul>{_items(broken)}</ul>'
        if broken
        else '<p class="passed">Passed: no errors, events in order, nothing left behind</p>'
    )
    verdict += f'<ul class="faint">{_items(others)}</ul>' if (others := gate.notes(run)) else ""
    how = "".join(f"<li>{one}</li>" for one in HOW_TO_READ)
    return (
        f'<h1>Shim benchmark</h1><p class="faint">{escape(run.began)}, {run.seconds:.0f} s; {escape(machine)}. '
        f"Ratios are to <strong>{escape(run.baseline or 'the baseline of each measure')}</strong>.</p>{verdict}"
        f"<details><summary>How to read this</summary><ul>{how}</ul></details>"
    )


def _counted(where: dict[str, object]) -> str:
    return f"{where['processors']} processors" if where.get("processors") else ""


def _items(lines: Iterable[str]) -> str:
    return "".join(f"<li>{escape(line)}</li>" for line in lines)


def _card(title: str, chart: str, table: str = "", note: str = "") -> str:
    if not chart:
        return ""
    told = f'<p class="faint">{escape(note)}</p>' if note else ""
    return f'<article class="card"><h3>{escape(title)}</h3>{told}{chart}{table}</article>'


def grid(columns: Sequence[str], rows: Sequence[Sequence[str]], words: int = 0, name: str = "Figures") -> str:
    """A table that opens on demand. The first `words` columns after the first are text."""
    head = "".join(f'<th scope="col">{escape(one)}</th>' for one in columns)
    body = ""
    for row in rows:
        cells = (f'<td{" class=words" if place <= words else ""}>{escape(cell)}</td>' for place, cell in enumerate(row))
        body += f"<tr>{''.join(cells)}</tr>"
    return (
        f'<details><summary>{escape(name)}</summary><div class="wide"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div></details>"
    )


def is_memory(measure: Measure) -> bool:
    return measure.kind in ("memory", "count")


def groups(run: Run) -> dict[str, list[Measure]]:
    """Measures that belong into one forest: of one profile, times and rates apart from memory."""
    found: dict[str, list[Measure]] = {}
    for measure in run.measures:
        if any(name != run.baseline_of(measure) for name in measure.samples) and run.baseline_of(measure):
            kind = "memory and handles" if is_memory(measure) else "latency, CPU, rates"
            name = f"{measure.profile}: {kind}" if measure.profile else kind[0].upper() + kind[1:]
            found.setdefault(name, []).append(measure)
    chunks = {}
    for name, many in found.items():
        for begin in range(0, len(many), IN_ONE_FOREST):
            total = -(-len(many) // IN_ONE_FOREST)
            part = f" ({begin // IN_ONE_FOREST + 1} of {total})" if total > 1 else ""
            chunks[f"{name}{part}"] = many[begin : begin + IN_ONE_FOREST]
    return chunks


def _ratios(run: Run) -> list[str]:
    return [_card(name, charts.forest(run, measures, f"Ratios, {name}")) for name, measures in groups(run).items()]


def figures(run: Run, measure: Measure) -> str:
    columns, rows = tables.measure_rows(run, measure)
    return grid(columns, rows)


def _distributions(run: Run) -> str:
    """By profile: the plain one open, the others behind their names, since there are many."""
    shown = [one for one in run.measures if not is_memory(one) and any(one.samples.values())]
    out = ""
    for number, profile in enumerate(dict.fromkeys(one.profile for one in shown)):
        own = [one for one in shown if one.profile == profile]
        cards = [_card(one.title, charts.distribution(run, one), figures(run, one)) for one in own]
        name = f"{profile or 'process'}: {len(own)} measures"
        out += f"<details{'' if number else ' open'}><summary>{escape(name)}</summary>{_cards(cards)}</details>"
    return out


def _cards(cards: Iterable[str]) -> str:
    """Nothing where there are none."""
    joined = "".join(cards)
    return joined and f'<div class="cards">{joined}</div>'


def _memory(run: Run) -> list[str]:
    shown = [one for one in run.measures if is_memory(one) and any(one.samples.values())]
    return [_card(one.title, charts.bars(run, one), figures(run, one)) for one in shown]


def _phases(run: Run) -> list[str]:
    return [_card(one.title, charts.timeline(run, one)) for one in run.timelines]


def _series_card(run: Run, number: int) -> str:
    series = run.series_[number]
    if not any(series.points.values()):
        return ""
    title, columns, rows = tables.series_rows(run, series)
    note = f"{series.unit}, {series.better} is better"
    return _card(series.title, charts.lines(run, series), grid(columns, rows, name=title), note)


def _trend_card(run: Run, number: int) -> str:
    trend = run.trends[number]
    if not any(trend.points.values()):
        return ""
    title, columns, rows = tables.trend_rows(run, trend)
    limit = "" if trend.limit is None else f"more than {trend.limit:g} {trend.unit} per {trend.x} is a leak"
    name = f"{trend.title}, {trend.unit}" if trend.unit else trend.title
    return _card(name, charts.trend(run, trend), grid(columns, rows, name=title), limit)


def _harness(run: Run) -> list[str]:
    if not run.harness:
        return []
    measured = [one for one in run.harness if one.samples]
    rows = [[one.name, f"{tables.number(median(one.samples))} {one.unit}", one.note] for one in measured]
    table = grid(["", "median", ""], rows, name="Cost of the harness and of the spans")
    table = table.replace("<details>", "<details open>")
    return [f'<article class="card">{table}</article>']


def _environment(run: Run) -> list[str]:
    """Programs by name only: a report is shown to others, and where things lie on a machine is nobody's business."""
    who = [
        [one.name, one.version or "-", one.program.rpartition("/")[2], one.sha256[:12], one.note]
        for one in run.candidates
    ]
    where = [[name, _plain(value)] for name, value in run.environment.items() if value not in ("", None)]
    how = [["command", " ".join(run.command)], ["seed", str(run.seed)]]
    how += [[f"settings of {name}", _plain(value)] for name, value in run.settings.items()]
    shown = [
        grid(["candidate", "version", "program", "sha256", ""], who, 4, "Candidates"),
        grid(["", ""], where, 1, "Environment"),
        grid(["", ""], how, 1, "How it was run"),
    ]
    return [f'<article class="card">{table}</article>' for table in shown]


def _plain(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}: {_plain(one)}" for name, one in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(_plain(one) for one in value)
    return f"{value:.4g}" if isinstance(value, float) else str(value)

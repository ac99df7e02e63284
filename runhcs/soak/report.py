"""The output of a soak: progress, a summary, JSON, and a page with charts."""

from __future__ import annotations

from html import escape
from typing import Any

from runhcs import console
from runhcs.charts import style, svg
from runhcs.charts.slope import downsample
from runhcs.charts.svg import WIDTH, Scale
from runhcs.soak.run import Outcome, Plan
from runhcs.soak.samples import UNITS, WARM_UP, Trend
from shim.platform import host
from shim.version import VERSION

LEFT, RIGHT = 56.0, WIDTH - 20
MAX_POINTS = 300
WORK = ("lifecycles", "probes", "restarts", "stats", "containerd restarts", "events")


def progress(outcome: Outcome, seconds: float) -> str:
    counts = outcome.counts
    problems = f", {len(outcome.problems)} problems" if outcome.problems else ""
    return f"{console.age(seconds)}: {counts['lifecycles']} lifecycles, {counts['probes']} probes{problems}"


def conclusion(outcome: Outcome) -> str:
    """The result in one sentence."""
    if outcome.verdict:
        first, rest = outcome.verdict[0], len(outcome.verdict) - 1
        return f"failed: {first}" + (f"; and {rest} more" if rest else "")
    if any(trend.slope is None for trend in outcome.trends) or not outcome.trends:
        return "every exit and event is accounted for; the run was too short for slopes: give more --hours"
    return "every exit and event is accounted for, and no slope is significant"


def print_summary(outcome: Outcome) -> None:
    rows = [(trend.process, trend.metric, f"{trend.median:.6g} {trend.unit}".strip(), _slope(trend),
             "fail" if trend.is_significant else "ok") for trend in outcome.trends]  # fmt: skip
    if rows:
        console.print_table(("PROCESS", "METRIC", "MEDIAN", "SLOPE PER HOUR, 99.9 %", "RESULT"), rows)
        print()
    for note in outcome.notes:
        console.show(note)
    for problem in outcome.verdict[:20]:
        console.show(f"problem: {problem}")
    work = ", ".join(f"{outcome.counts[name]} {name}" for name in WORK)
    print(f"{console.age(outcome.seconds)}: {work}")
    console.show(conclusion(outcome))


def _slope(trend: Trend) -> str:
    return "too few samples" if trend.slope is None else trend.slope.text(".4g")


def document(outcome: Outcome, plan: Plan) -> dict[str, Any]:
    return {
        "passed": not outcome.verdict, "conclusion": conclusion(outcome), "interrupted": outcome.is_interrupted,
        "version": VERSION, "emulated": host.IS_EMULATED, "seconds": round(outcome.seconds, 1), "plan": plan,
        "counts": dict(outcome.counts), "problems": outcome.problems, "notes": outcome.notes,
        "trends": outcome.trends,
        "series": [
            {"process": process, "metric": metric, "points": points}
            for (process, metric), points in outcome.samples.points.items()
        ],
    }  # fmt: skip


# The page.


def page(outcome: Outcome, plan: Plan) -> str:
    state = "failed" if outcome.verdict else "passed"
    about = ", ".join(f"{count} {name}" for name, count in sorted(outcome.counts.items()))
    problems = "".join(f"<li>{_text(one)}</li>" for one in outcome.verdict)
    charts = "".join(f'<div class="card"><h3>{_text(metric)}</h3>{_chart(outcome, metric)}</div>' for metric in UNITS)
    rows = "".join(
        f"<tr><td>{_text(one.process)}</td><td>{_text(one.metric)}</td><td>{one.median:.6g} {one.unit}</td>"
        f'<td>{_slope(one)}</td><td class="{"failed" if one.is_significant else "passed"}">'
        f"{'grows' if one.is_significant else 'ok'}</td></tr>"
        for one in outcome.trends
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><title>runhcs soak</title>'
        f"<style>{style.THEMES}{style.CHARTS}{style.PAGE}</style></head>\n<body><h1>runhcs soak</h1>\n"
        f'<p class="{state}">{_text(conclusion(outcome))}</p>\n'
        f"<p>{console.age(outcome.seconds)}, seed {plan.seed}: {_text(about)}.</p>\n<ul>{problems}</ul>\n"
        f'<h2>Trends</h2><p class="faint">The first {WARM_UP:.0%} of a run do not count: caches fill. '
        "A slope is significant if the lower bound of its 99.9 % interval explains a growth during the run.</p>\n"
        f'<div class="cards">{charts}</div>\n<h2>Slopes</h2><div class="wide"><table><thead><tr><th>process</th>'
        "<th>metric</th><th>median</th><th>slope per hour</th><th>result</th></tr></thead>"
        f'<tbody>{rows}</tbody></table></div>\n<p class="faint">runhcs soak {_text(VERSION)}</p></body></html>\n'
    )


def _chart(outcome: Outcome, metric: str) -> str:
    series = {process: points for (process, name), points in outcome.samples.points.items() if name == metric}
    if not series:
        return '<p class="faint">not sampled</p>'
    out, y = svg.legend(list(enumerate(series)))
    top, bottom = y + 8, y + 190
    values = [value for points in series.values() for _, value in points]
    last = max(hours for points in series.values() for hours, _ in points)
    margin = (max(values) - min(values)) * 0.05 or 1.0
    across = Scale(0, last, LEFT, RIGHT)
    up = Scale(max(min(values) - margin, 0.0), max(values) + margin, bottom, top)
    out += svg.y_axis(up, LEFT, RIGHT) + svg.x_axis(across, top, bottom, "hours")
    for number, (process, points) in enumerate(series.items()):
        shown = downsample(points, MAX_POINTS)
        path = " ".join(f"{across(x):.2f},{up(value):.2f}" for x, value in shown)
        colour = number % svg.COLOURS
        out.append(svg.element("polyline", svg.title(process), points=path, class_=f"path s{colour}"))
        out.append(svg.marker(number, across(shown[-1][0]), up(shown[-1][1]), process, 4))
    unit = f", {UNITS[metric]}" if UNITS[metric] else ""
    return svg.chart(out, bottom + 38, f"{metric}{unit}, by hours")


def _text(text: str) -> str:
    return escape(console.printable(text))

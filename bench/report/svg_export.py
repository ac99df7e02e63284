"""Write the charts of a run as SVG files, for documentation: light or dark by the reader's system, own background."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

from bench.report import charts, html
from bench.report.results import Run
from bench.report.results_json import load
from runhcs.charts import style, svg


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("results", type=Path, metavar="RESULTS.json")
    parser.add_argument("--output", type=Path, default=Path("docs/images"), help="directory (default docs/images)")
    parser.add_argument("--only", metavar="TEXT", action="append", help="charts whose name contains this")


def all_charts(run: Run) -> Iterator[tuple[str, str]]:
    """Name and SVG of every chart of a run."""
    for name, measures in html.groups(run).items():
        yield f"ratios {name}", charts.forest(run, measures, f"Ratios, {name}")
    for measure in run.measures:
        if any(measure.samples.values()):
            draw = charts.bars if html.is_memory(measure) else charts.distribution
            yield f"measure {measure.title}", draw(run, measure)
    for timeline in run.timelines:
        if any(map(any, timeline.rounds.values())):
            yield f"phases {timeline.title}", charts.timeline(run, timeline)
    for series in run.all_series:
        if any(series.points.values()):
            yield f"scaling {series.title}", charts.lines(run, series)
    for trend in run.trends:
        if any(trend.points.values()):
            yield f"trend {trend.title}", charts.trend(run, trend)


def file_name(name: str) -> str:
    """Start (the call) and start (the command) are two measures, but one name on a case-insensitive file system: calls
    get the prefix rpc."""
    words = re.sub(r"(^|[ :])(Create|Start|Delete|Kill|State|Wait|Shutdown)\b", r"\1rpc-\2", name)
    return f"{re.sub(r'[^a-z0-9.]+', '-', words.lower()).strip('-')}.svg"


def main(arguments: argparse.Namespace) -> int:
    run = load(arguments.results)
    arguments.output.mkdir(parents=True, exist_ok=True)
    for name, drawn in all_charts(run):
        if drawn and (not arguments.only or any(part in name for part in arguments.only)):
            path = arguments.output / file_name(name)
            path.write_text(svg.standalone(drawn, style.THEMES + style.CHARTS))
            print(path)
    return 0

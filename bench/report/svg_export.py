"""Charts as SVG files, for documentation: light and dark by the reader's system, on a background of their own."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

from bench.report import charts, html, style, svg
from bench.report.results import Run, load


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("results", type=Path, metavar="RESULTS.json")
    parser.add_argument("--output", type=Path, default=Path("docs/images"), help="directory (default docs/images)")
    parser.add_argument("--only", metavar="TEXT", action="append", help="pictures whose name contains this")


def pictures(run: Run) -> Iterator[tuple[str, str]]:
    """Name and SVG of everything that can be drawn of a run."""
    for name, measures in html.groups(run).items():
        yield f"ratios {name}", charts.forest(run, measures, f"Ratios, {name}")
    for measure in run.measures:
        if any(measure.samples.values()):
            draw = charts.bars if html.is_memory(measure) else charts.distribution
            yield f"measure {measure.title}", draw(run, measure)
    for timeline in run.timelines:
        if any(map(any, timeline.rounds.values())):
            yield f"phases {timeline.title}", charts.timeline(run, timeline)
    for series in run.series_:
        if any(series.points.values()):
            yield f"scaling {series.title}", charts.lines(run, series)
    for trend in run.trends:
        if any(trend.points.values()):
            yield f"trend {trend.title}", charts.trend(run, trend)


def file_name(name: str) -> str:
    """Start and start are two measures, and some file systems know no difference: capitals say rpc."""
    words = re.sub(r"(^|[ :])(Create|Start|Delete|Kill|State|Wait|Shutdown)\b", r"\1rpc-\2", name)
    return f"{re.sub(r'[^a-z0-9.]+', '-', words.lower()).strip('-')}.svg"


def main(arguments: argparse.Namespace) -> int:
    run = load(arguments.results)
    arguments.output.mkdir(parents=True, exist_ok=True)
    for name, drawn in pictures(run):
        if drawn and (not arguments.only or any(part in name for part in arguments.only)):
            path = arguments.output / file_name(name)
            path.write_text(svg.alone(drawn, style.THEMES + style.CHARTS))
            print(path)
    return 0

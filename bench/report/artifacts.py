"""Write the table, the HTML report and all other files of a run from its results.json."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

from attrs import asdict

from bench.report import exports, html, tables, terminal
from bench.report.results import Run
from bench.report.results_json import load, to_document
from bench.report.statistics import ratio, summary
from runhcs.charts.slope import slope

DEFAULT = Path("bench-results")
ENV_KEYS = ("began", "command", "settings", "seed", "baseline", "candidates", "environment")


def default_directory() -> Path:
    return DEFAULT / time.strftime("%Y-%m-%dT%H-%M-%S")


def document(run: Run) -> dict[str, Any]:
    """results.json: the raw results, plus statistics for readers that do not compute them."""
    content = to_document(run)
    for measure, raw in zip(run.measures, content["measures"], strict=True):
        baseline = measure.samples.get(run.baseline_of(measure), ())
        raw["summary"] = {}
        for name, values in measure.samples.items():
            if values:
                found = ratio(values, baseline, run.seed)
                raw["summary"][name] = {**asdict(summary(values)), "ratio": found and found.as_list()}
    for trend, raw in zip(run.trends, content["trends"], strict=True):
        slopes = {name: slope(points) for name, points in trend.points.items()}
        raw["slope"] = {name: found and found.as_list() for name, found in slopes.items()}
    return content


def env(run: Run) -> dict[str, Any]:
    """env.json: machine, time, command and candidates."""
    content = to_document(run)
    return {name: content[name] for name in ENV_KEYS}


def write(run: Run, directory: Path) -> list[Path]:
    """Returns the written files."""
    directory.mkdir(parents=True, exist_ok=True)
    files = {
        "results.json": json.dumps(document(run), indent=1),
        "env.json": json.dumps(env(run), indent=1),
        "results.txt": tables.text(tables.all_tables(run)),
        "results.csv": exports.raw_csv(run),
        "summary.csv": exports.summary_csv(run),
        "results.bench": exports.benchstat(run),
        **exports.github_action(run),
        "report.html": html.html(run),
    }
    for name, content in files.items():
        (directory / name).write_text(f"{content.rstrip()}\n")
    return [directory / name for name in files]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("results", type=Path, metavar="RESULTS.json")
    parser.add_argument("--output", type=Path, help="directory (default: that of the results)")


def main(arguments: argparse.Namespace) -> int:
    run = load(arguments.results)
    written = write(run, arguments.output or arguments.results.parent)
    terminal.print_tables(tables.all_tables(run))
    terminal.print_run(run, written)
    return 0

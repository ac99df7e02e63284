"""Everything that is written of a run, in one directory: for people, for spreadsheets, for CI."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

from bench.report import exports, html, tables
from bench.report.results import Run, load, to_document
from bench.report.statistics import ratio, slope, summary

DEFAULT = Path("bench-results")


def default_directory() -> Path:
    return DEFAULT / time.strftime("%Y-%m-%dT%H-%M-%S")


def document(run: Run) -> dict[str, Any]:
    """results.json: the raw results, and what follows from them for readers that cannot count themselves."""
    made = to_document(run)
    for measure, raw in zip(run.measures, made["measures"], strict=True):
        baseline = measure.samples.get(run.baseline_of(measure), ())
        raw["summary"] = {
            name: {**summary(values), "ratio": ratio(values, baseline, run.seed)}
            for name, values in measure.samples.items()
            if values
        }
    for trend, raw in zip(run.trends, made["trends"], strict=True):
        raw["slope"] = {name: slope(points) for name, points in trend.points.items()}
    return made


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("results", type=Path, metavar="RESULTS.json")
    parser.add_argument("--output", type=Path, help="directory (default: where the results are)")


def main(arguments: argparse.Namespace) -> int:
    run = load(arguments.results)
    directory = arguments.output or arguments.results.parent
    write(run, directory)
    print(tables.text(run))
    print(f"report: {directory / 'report.html'}")
    return 0


def write(run: Run, directory: Path) -> list[Path]:
    """Returns what was written."""
    directory.mkdir(parents=True, exist_ok=True)
    files = {
        "results.json": json.dumps(document(run), indent=1),
        "env.json": json.dumps(env(run), indent=1),
        "results.txt": tables.text(run),
        "results.csv": exports.raw_csv(run),
        "summary.csv": exports.summary_csv(run),
        "results.bench": exports.benchstat(run),
        **exports.github_action(run),
        "report.html": html.html(run),
    }
    for name, content in files.items():
        (directory / name).write_text(f"{content.rstrip()}\n")
    return [directory / name for name in files]


def env(run: Run) -> dict[str, Any]:
    """env.json: where, when and with whom."""
    made = to_document(run)
    kept = ("began", "command", "settings", "seed", "baseline", "candidates", "environment")
    return {name: made[name] for name in kept}

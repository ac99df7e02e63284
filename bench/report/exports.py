"""Exports for other programs: spreadsheets (CSV), benchstat, github-action-benchmark.

Each format follows its reader and may lose detail; results.json has everything.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator
from statistics import median
from typing import Any

from attrs import asdict

from bench.report.results import Measure, Run
from bench.report.statistics import ratio, summary
from bench.report.tables import COLUMNS

RAW = ("shape", "name", "profile", "kind", "unit", "better", "candidate", "x", "index", "value")

# benchstat scales nanoseconds and bytes; it shows other units unchanged.
BENCHSTAT_UNITS = {"ms": ("ns/op", 1e6), "us": ("ns/op", 1e3), "s": ("ns/op", 1e9)}
BENCHSTAT_UNITS |= {"kB": ("B", 1024), "MiB/s": ("B/s", 1024 * 1024), "1/s": ("per-s", 1), "": ("count", 1)}

GO_MACHINES = {"x86_64": "amd64", "AMD64": "amd64", "aarch64": "arm64"}


def raw_csv(run: Run) -> str:
    """Every sample, one per line."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(RAW)
    for one in run.measures:
        for name, values in one.samples.items():
            head = ("measure", one.name, one.profile, one.kind, one.unit, one.better, name, "")
            writer.writerows((*head, index, value) for index, value in enumerate(values))
    for series in run.all_series:
        for name, points in series.points.items():
            for x, values in sorted(points.items()):
                head = ("series", series.name, series.profile, series.kind, series.unit, series.better, name, f"{x:g}")
                writer.writerows((*head, index, value) for index, value in enumerate(values))
    for trend in run.trends:
        for name, line in trend.points.items():
            head_of_trend = ("trend", trend.name, trend.profile, "", trend.unit, "", name)
            writer.writerows((*head_of_trend, f"{x:g}", index, value) for index, (x, value) in enumerate(line))
    return out.getvalue()


def summary_csv(run: Run) -> str:
    """One line per measure and candidate: distribution and ratio."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    head = ("name", "profile", "unit", "better", "candidate", "n")
    writer.writerow((*head, *COLUMNS, "ratio", "low", "high", "baseline"))
    for one in run.measures:
        baseline = run.baseline_of(one)
        for name in run.in_order(name for name, values in one.samples.items() if values):
            stats = asdict(summary(one.samples[name]))
            found = ratio(one.samples[name], one.samples.get(baseline, ()), run.seed)
            row = (one.name, one.profile, one.unit, one.better, name, stats["n"])
            interval = found.as_list() if found else ("", "", "")
            writer.writerow((*row, *(stats[column] for column in COLUMNS), *interval, baseline))
    return out.getvalue()


def _word(text: str) -> str:
    """A name without the characters that separate names in benchstat's lines."""
    return re.sub(r"[^\w.+-]+", "_", text).strip("_")


def benchstat(run: Run) -> str:
    """The Go benchmark format, one line per sample. `benchstat -col /candidate results.bench` compares
    candidates, `benchstat old.bench new.bench` compares two runs."""
    environment = run.environment
    machine = str(environment.get("machine", ""))
    lines = [f"goos: {str(environment.get('system', 'linux')).lower()}", f"goarch: {GO_MACHINES.get(machine, machine)}"]
    if environment.get("processor"):
        lines.append(f"cpu: {environment['processor']}")
    units: dict[str, str] = {}
    body = []
    for measure in run.measures:
        unit, factor = BENCHSTAT_UNITS.get(measure.unit, (_word(measure.unit), 1))
        units[unit] = measure.better
        profile = f"/profile={_word(measure.profile)}" if measure.profile else ""
        baseline = run.baseline_of(measure)
        # benchstat compares with the first candidate in the file
        for name in sorted(run.in_order(measure.samples), key=lambda name: name != baseline):
            head = f"Benchmark_{_word(measure.name)}{profile}/candidate={_word(name)} 1"
            body += [f"{head} {value * factor:.10g} {unit}" for value in measure.samples[name]]
    lines += [f"Unit {unit} better={better}" for unit, better in units.items()]
    return "\n".join([*lines, "", *body]) + "\n"


def github_action(run: Run) -> dict[str, str]:
    """Two files, since the action takes the direction from the tool's name: customSmallerIsBetter and
    customBiggerIsBetter.

    First the ratios of the subjects, which are comparable between machines, then medians, which are not.
    """
    found: dict[str, list[dict[str, Any]]] = {"lower": [], "higher": []}
    for measure in run.measures:
        found[measure.better] += _ratios(run, measure)
    for measure in run.measures:
        for name in run.in_order(name for name, values in measure.samples.items() if values):
            stats = asdict(summary(measure.samples[name]))
            extra = "\n".join(f"{column} {stats[column]:.6g}" for column in ("n", *COLUMNS))
            entry = {"name": f"{measure.title} ({name})", "unit": measure.unit or "count", "value": stats["p50"]}
            found[measure.better].append({**entry, "range": f"± {stats['sd']:.3g}", "extra": extra})
    return {
        "github-smaller-is-better.json": json.dumps(found["lower"], indent=1),
        "github-bigger-is-better.json": json.dumps(found["higher"], indent=1),
    }


def _ratios(run: Run, measure: Measure) -> Iterator[dict[str, Any]]:
    baseline = run.baseline_of(measure)
    for name in run.in_order(measure.samples):
        if name == baseline or not run.candidate(name).subject:
            continue
        found = ratio(measure.samples[name], measure.samples.get(baseline, ()), run.seed)
        if found is not None:
            medians = median(measure.samples[name]), median(measure.samples[baseline])
            yield {
                "name": f"{measure.title}: {name} to {baseline}",
                "unit": "ratio",
                "value": found.value,
                "range": f"[{found.low:.3g}, {found.high:.3g}]",
                "extra": f"medians {medians[0]:.6g} and {medians[1]:.6g} {measure.unit}",
            }

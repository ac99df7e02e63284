"""Samples of processes and of the node, and what they say: does a value grow with time?"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from attrs import define, field, frozen

from runhcs import process_stats
from runhcs.charts.slope import Interval, median, slope
from runhcs.selftest.node import Node

UNITS = {"memory": "kB", "handles": "", "threads": "", "files": "", "compute systems": "", "HCS handles": ""}
#: A slope counts if its lower bound explains at least this growth during the run: what a leak must have added.
LEAST_GROWTH = {"memory": 256.0}
LEAST_COUNT = 1.0
#: Caches fill in the first part of a run.
WARM_UP = 0.25
LEAST_SAMPLES = 12
#: Samples near each other depend on each other: the interval is computed from averages of neighbours.
POINTS = 40
#: Of the normal distribution for 99.9 %: a soak has a dozen series, and one of twenty would exceed 95 % by chance.
NORMAL = 3.29


@frozen
class Trend:
    """One element of `trends` in `soak --json`. Slopes are per hour."""

    process: str
    metric: str
    unit: str
    samples: int
    median: float
    #: Estimate and 99.9 % interval; None if there are too few samples.
    slope: Interval | None
    #: How much it grew during the run at least, by the lower bound.
    growth: float
    is_significant: bool

    def sentence(self) -> str:
        unit = f" {self.unit}" if self.unit else ""
        assert self.slope is not None
        return (
            f"{self.metric} of {self.process} grows by {self.slope.text('.4g')}{unit} per hour, "
            f"by at least {self.growth:.4g}{unit} in this run"
        )


@define
class Samples:
    """Points of each series, `(hours, value)`, by process and metric."""

    points: dict[tuple[str, str], list[tuple[float, float]]] = field(factory=dict)

    def add(self, hours: float, process: str, values: Mapping[str, float]) -> None:
        for metric, value in values.items():
            self.points.setdefault((process, metric), []).append((hours, value))

    def trends(self) -> list[Trend]:
        return [trend(process, metric, points) for (process, metric), points in self.points.items()]


def trend(process: str, metric: str, points: list[tuple[float, float]]) -> Trend:
    begin, end = points[0][0], points[-1][0]
    kept = [point for point in points if point[0] >= begin + WARM_UP * (end - begin)]
    middle = median(sorted(value for _, value in kept))
    found = slope(kept, NORMAL, POINTS) if len(kept) >= LEAST_SAMPLES else None
    growth = 0.0 if found is None else max(found.low * (kept[-1][0] - kept[0][0]), 0.0)
    is_significant = growth >= LEAST_GROWTH.get(metric, LEAST_COUNT)
    return Trend(process, metric, UNITS[metric], len(kept), middle, found, growth, is_significant)


def of_processes(pids: Mapping[str, int]) -> dict[str, dict[str, float]]:
    """Memory, handles and threads by name; what has exited is missing."""
    found = process_stats.usage(pids.values())
    return {name: found[pid] for name, pid in pids.items() if pid in found}


def of_node(node: Node, status: dict[str, Any] | None) -> dict[str, float]:
    """Files that the soak's containers have, and their compute systems. `status` is that of the emulator."""
    values = {"files": float(sum(len(names) + len(files) for _, names, files in os.walk(node.directory)))}
    if status is not None:
        values |= {"compute systems": float(len(status["systems"])), "HCS handles": float(status["handles"])}
    else:
        from shim.hcs_bindings.system import ComputeSystem

        mine = [one for one in ComputeSystem.enumerate() if str(one["Id"]).startswith(f"{node.prefix}-{os.getpid()}-")]
        values["compute systems"] = float(len(mine))
    return values

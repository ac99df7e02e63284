"""Memory, threads and descriptors of processes, from /proc."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

# Metric -> unit and kind.
METRICS = {
    "PSS": ("kB", "memory"),
    "RSS": ("kB", "memory"),
    "private": ("kB", "memory"),
    "threads": ("", "count"),
    "descriptors": ("", "count"),
}


def process_stats(pid: int) -> dict[str, float]:
    rollup = {}
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]:
        name, value, *_ = line.split()
        rollup[name.rstrip(":")] = float(value)
    return {
        "PSS": rollup["Pss"],
        "RSS": rollup["Rss"],
        "private": rollup["Private_Dirty"] + rollup["Private_Clean"],
        "threads": float(len(os.listdir(f"/proc/{pid}/task"))),
        "descriptors": float(len(os.listdir(f"/proc/{pid}/fd"))),
    }


def total_stats(pids: Iterable[int]) -> dict[str, float]:
    """The sum over several processes; processes that have exited count as zero."""
    sums = dict.fromkeys(METRICS, 0.0)
    for pid in pids:
        try:
            stats = process_stats(pid)
        except OSError:
            continue
        for name in sums:
            sums[name] += stats[name]
    return sums

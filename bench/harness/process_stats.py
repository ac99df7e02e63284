"""The metrics of processes, and their sums."""

from __future__ import annotations

from collections.abc import Iterable

from runhcs.process_stats import process_stats

# Metric -> unit and kind.
METRICS = {
    "PSS": ("kB", "memory"),
    "RSS": ("kB", "memory"),
    "private": ("kB", "memory"),
    "threads": ("", "count"),
    "descriptors": ("", "count"),
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

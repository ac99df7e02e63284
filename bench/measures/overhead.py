"""Shim overhead of a call: its duration without the time that the emulator spent on HCS calls, from its journal.

HCS calls may overlap; overlapping time counts once. The transport to the emulator and back counts as the shim's, and is
the same library for every shim.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

Interval = tuple[float, float]


def overhead_seconds(journal: Path, begin: float, end: float) -> float:
    """Seconds of [begin, end], times since the epoch, outside of HCS calls."""
    return (end - begin) - overlap(hcs_intervals(journal.read_text().splitlines()), begin, end)


def hcs_intervals(lines: Iterable[str]) -> list[Interval]:
    found = []
    for line in lines:
        entry = json.loads(line)
        if "call" in entry:
            started = datetime.fromisoformat(entry["time"]).timestamp()
            found.append((started, started + entry["duration_us"] / 1e6))
    return found


def overlap(found: Iterable[Interval], begin: float, end: float) -> float:
    """Seconds of [begin, end] that are in at least one of the intervals."""
    total, reached = 0.0, begin
    for first, last in sorted(found):
        first, last = max(first, reached), min(last, end)
        if last > first:
            total += last - first
            reached = last
    return total

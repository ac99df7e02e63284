"""What a call costs a shim beside HCS: its time without the time that the emulator was at work for it.

Calls of HCS may overlap; a moment counts once. What is counted is the emulator's own work by its journal: the way to it
and back belongs to the shim, and is the same library for every shim.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

Interval = tuple[float, float]


def without(journal: Path, begin: float, end: float) -> float:
    """Seconds of [begin, end], times since the epoch, in which no call of HCS was under way."""
    return (end - begin) - covered(intervals(journal.read_text().splitlines()), begin, end)


def intervals(lines: Iterable[str]) -> list[Interval]:
    found = []
    for line in lines:
        entry = json.loads(line)
        if "call" in entry:
            started = datetime.fromisoformat(entry["time"]).timestamp()
            found.append((started, started + entry["duration_us"] / 1e6))
    return found


def covered(found: Iterable[Interval], begin: float, end: float) -> float:
    """How much of [begin, end] lies in at least one of the intervals."""
    total, reached = 0.0, begin
    for first, last in sorted(found):
        first, last = max(first, reached), min(last, end)
        if last > first:
            total += last - first
            reached = last
    return total

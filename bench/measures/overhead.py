"""Shim overhead of a call: its duration without the time that the emulator spent on HCS calls, from its journal.

HCS calls may overlap; overlapping time counts once. A call that ends a process or a system lasts until the event of its
exit. A request to the guest of a VM counts as a call, but for the one that waits for an exit. The transport to the
emulator and back counts as the shim's, and is the same library for every shim.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime
from typing import Any

Interval = tuple[float, float]

# Calls that end their target -> its argument, and the event of its exit.
ENDING = {
    "HcsTerminateProcess": ("process", "ProcessExited"),
    "HcsSignalProcess": ("process", "ProcessExited"),
    "HcsShutDownComputeSystem": ("computeSystem", "SystemExited"),
    "HcsTerminateComputeSystem": ("computeSystem", "SystemExited"),
    "guest:SignalProcess": ("ProcessId", "guest:WaitForProcess"),
}
# Answered by the guest when the process has exited.
GUEST_WAIT = "guest:WaitForProcess"


def overhead_seconds(found: Iterable[Interval], begin: float, end: float) -> float:
    """Seconds of [begin, end], times since the epoch, outside of HCS calls."""
    return (end - begin) - overlap(found, begin, end)


def hcs_intervals(lines: Iterable[str]) -> list[Interval]:
    entries = [json.loads(line) for line in lines]
    exits: dict[tuple[str, str], list[float]] = {}
    for entry in entries:
        if "event" in entry:
            exits.setdefault((entry["target"], entry["event"]), []).append(_time(entry))
        elif entry.get("call") == GUEST_WAIT:
            exits.setdefault((_argument(entry, "ProcessId"), GUEST_WAIT), []).append(_end(entry))
    found = []
    for entry in entries:
        if "call" in entry and entry["call"] != GUEST_WAIT:
            begin, end = _time(entry), _end(entry)
            argument, event = ENDING.get(entry["call"], ("", ""))
            exit_times = (at for at in exits.get((_argument(entry, argument), event), ()) if at >= begin)
            found.append((begin, max(end, min(exit_times, default=end))))
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


def _time(entry: dict[str, Any]) -> float:
    return datetime.fromisoformat(entry["time"]).timestamp()


def _end(entry: dict[str, Any]) -> float:
    return _time(entry) + float(entry["duration_us"]) / 1e6


def _argument(entry: dict[str, Any], name: str) -> str:
    return str(entry.get("arguments", {}).get(name, ""))

"""The emulator's journal in few words: which calls of the Host Compute Service were made, how often, how long."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


class Journal:
    """Reads on from where it last stopped."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._position = 0

    def new_calls(self) -> list[dict[str, Any]]:
        """Calls that have finished since last asked, in the order in which they were made."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._position)
                text = file.read()
        except OSError:
            return []
        whole = text[: text.rfind(b"\n") + 1]
        self._position += len(whole)
        entries = [json.loads(line) for line in whole.splitlines()]
        return sorted((entry for entry in entries if "call" in entry), key=lambda entry: int(entry["seq"]))


def summarise(calls: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One entry for each kind of call, in the order of first use."""
    found: dict[str, dict[str, Any]] = {}
    for call in calls:
        entry = found.setdefault(call["call"], {"call": call["call"], "count": 0, "ms": 0.0, "failed": []})
        entry["count"] += 1
        entry["ms"] += call["duration_us"] / 1000
        if not call["result"].startswith("0x0"):
            entry["failed"].append(call["result"])
    return [entry | {"ms": round(entry["ms"], 2)} for entry in found.values()]


def cells(summary: list[dict[str, Any]]) -> list[str]:
    """For the screen."""
    lines = []
    for entry in summary:
        times = f"{entry['count']} x" if entry["count"] > 1 else ""
        wrong = f"  {entry['failed'][0]}" if entry["failed"] else ""
        lines.append(f"{times:>4} {entry['call']:<29} {entry['ms']:6.1f} ms{wrong}")
    return lines

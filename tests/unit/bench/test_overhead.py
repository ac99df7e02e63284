"""Shim overhead of a call from the emulator's journal."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.measures.overhead import hcs_intervals, overhead_seconds, overlap


def line(time: str, milliseconds: float, call: str = "HcsStartComputeSystem") -> str:
    return json.dumps({"time": f"2026-01-02T03:04:{time}Z", "call": call, "duration_us": milliseconds * 1000})


def test_overhead_excludes_overlapping_hcs_calls_once(tmp_path: Path) -> None:
    journal = tmp_path / "journal.jsonl"
    entries = [
        line("04.900000", 200),  # begins before the call: 100 ms are inside
        line("05.300000", 100),
        line("05.350000", 100),  # overlaps the one before
        line("05.360000", 10),  # inside others
        line("05.950000", 500),  # ends after the call: 50 ms
        line("08.000000", 100),
        json.dumps({"time": "2026-01-02T03:04:05.500000Z", "event": "SystemExited", "target": "x", "document": None}),
    ]
    journal.write_text("\n".join(entries) + "\n")
    begin = hcs_intervals([line("05.000000", 0)])[0][0]
    assert overhead_seconds(journal, begin, begin + 1) == pytest.approx(1 - 0.1 - 0.15 - 0.05)


def test_overlap_without_hcs_calls_is_zero() -> None:
    assert overlap([], 1.0, 2.0) == 0
    assert overlap([(0.0, 1.0), (2.0, 3.0)], 1.0, 2.0) == 0

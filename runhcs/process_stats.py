"""Memory, threads and open handles of processes: from /proc, or from the process list of Windows."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from shim.platform import host


def process_stats(pid: int) -> dict[str, float]:
    """On Linux, memory in kB. Raises OSError if it has exited."""
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


def usage(pids: Iterable[int]) -> dict[int, dict[str, float]]:
    """Private memory in kB, handles (on Linux descriptors) and threads, on either system, of those that run."""
    if not host.IS_EMULATED:
        return _on_windows(set(pids))
    found = {}
    for pid in pids:
        try:
            stats = process_stats(pid)
        except (OSError, KeyError):
            continue  # it has exited
        found[pid] = {"memory": stats["private"], "handles": stats["descriptors"], "threads": stats["threads"]}
    return found


def _on_windows(pids: set[int]) -> dict[int, dict[str, float]]:
    from shim.platform.windows.job_stats import all_processes

    return {
        int(one.ProcessId): {
            "memory": (one.PrivatePageCount or one.PagefileUsage) / 1024,
            "handles": float(one.Handles),
            "threads": float(one.Threads),
        }
        for one in all_processes()
        if int(one.ProcessId) in pids
    }

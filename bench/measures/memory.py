"""Memory of idle shims, a growing number of them at once, each with one running container."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path

from bench.harness import standby
from bench.harness.candidates import Candidate
from bench.harness.context import Lab
from bench.harness.driver import Shim

# Measure, unit and kind.
MEASURES = {
    "PSS": ("kB", "memory"),
    "RSS": ("kB", "memory"),
    "private": ("kB", "memory"),
    "threads": ("", "count"),
    "descriptors": ("", "count"),
}
# What was set in motion by the last call has come to rest by then.
SETTLE = 1.0
# The number at which candidates are compared; all are in the series.
COMPARED = 10


def figures(pid: int) -> dict[str, float]:
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


def together(pids: Iterable[int]) -> dict[str, float]:
    """Of several processes; those that have just ended count for nothing."""
    sums = dict.fromkeys(MEASURES, 0.0)
    for pid in pids:
        try:
            one = figures(pid)
        except OSError:
            continue
        for name in sums:
            sums[name] += one[name]
    return sums


def measure(lab: Lab) -> None:
    for candidate in lab.central:
        with ExitStack() as stack:
            lab.attempt(candidate, "", _measure, lab, candidate, stack)


def _measure(lab: Lab, candidate: Candidate, stack: ExitStack) -> None:
    shims: list[Shim] = []
    for count in lab.sizes.idle:
        while len(shims) < count:
            lab.session.progress.step("idle shims", len(shims) + 1, lab.sizes.idle[-1], candidate.name)
            shims.append(stack.enter_context(Shim(candidate, lab.node)))
            shims[-1].run()
        standby.wait(candidate)
        time.sleep(SETTLE)
        _note(lab, candidate, count, [figures(shim.pid) for shim in shims])
    for shim in shims:
        shim.end()
        lab.check_events(candidate, lab.node.events.settle(shim.id))


def _note(lab: Lab, candidate: Candidate, count: int, each: list[dict[str, float]]) -> None:
    behind = together(standby.pids(candidate))
    for name, (unit, kind) in MEASURES.items():
        values = [one[name] for one in each]
        series = lab.session.run.series(f"{name} per idle shim", unit, "idle shims", kind=kind)
        series.add(candidate.name, count, *values)
        if count != max(one for one in lab.sizes.idle if one <= COMPARED):
            continue
        lab.session.measure(f"{name} per idle shim of {count}", unit, kind).add(candidate.name, *values)
        if standby.is_wanted(candidate):
            lab.session.measure(f"{name} of standby and spare", unit, kind).add(candidate.name, behind[name])
    whole = (sum(one["PSS"] for one in each) + behind["PSS"]) / count
    lab.session.run.series("PSS per idle shim, standby included", "kB", "idle shims", kind="memory").add(
        candidate.name, count, whole
    )

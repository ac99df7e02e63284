"""Memory, threads and descriptors of idle shims, by their number, each with one running container."""

from __future__ import annotations

import time
from contextlib import ExitStack

from bench.harness import standby
from bench.harness.candidates import Candidate
from bench.harness.context import SuiteContext
from bench.harness.driver import Shim
from bench.harness.process_stats import METRICS, total_stats
from runhcs.process_stats import process_stats

# Time for background work of the last call to finish.
SETTLE_SECONDS = 1.0
# The number of shims at which candidates are compared, or the next lower one; the series have all numbers.
COMPARED = 10


def measure(context: SuiteContext) -> None:
    for candidate in context.central:
        with ExitStack() as stack:
            context.attempt(candidate, "", _measure, context, candidate, stack)


def _measure(context: SuiteContext, candidate: Candidate, stack: ExitStack) -> None:
    shims: list[Shim] = []
    for count in context.sizes.idle_shims:
        while len(shims) < count:
            context.progress.step("idle shims", len(shims) + 1, context.sizes.idle_shims[-1], candidate.name)
            shims.append(stack.enter_context(Shim(candidate, context.node)))
            shims[-1].run()
        standby.wait(candidate)
        time.sleep(SETTLE_SECONDS)
        _add_results(context, candidate, count, [process_stats(shim.pid) for shim in shims])
    for shim in shims:
        shim.stop()
        context.check_events(shim)


def _add_results(context: SuiteContext, candidate: Candidate, count: int, each: list[dict[str, float]]) -> None:
    of_standby = total_stats(standby.pids(candidate))
    for name, (unit, kind) in METRICS.items():
        values = [one[name] for one in each]
        series = context.run.series(f"{name} per idle shim", unit, "idle shims", kind=kind)
        series.add(candidate.name, count, *values)
        if count != max(one for one in context.sizes.idle_shims if one <= COMPARED):
            continue
        context.measure(f"{name} per idle shim of {count}", unit, kind).add(candidate.name, *values)
        if standby.is_enabled(candidate):
            context.measure(f"{name} of standby and spare", unit, kind).add(candidate.name, of_standby[name])
    total = (sum(one["PSS"] for one in each) + of_standby["PSS"]) / count
    context.run.series("PSS per idle shim, standby included", "kB", "idle shims", kind="memory").add(
        candidate.name, count, total
    )

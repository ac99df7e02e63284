"""`start` and `start` to the response to the first Connect, on a machine with three busy processes per processor."""

from __future__ import annotations

from bench.harness import busy
from bench.harness.candidates import Candidate
from bench.harness.context import SuiteContext
from bench.harness.driver import Shim
from bench.measures import starts

PROFILE = "load"
PER_PROCESSOR = 3
# More than the rounds of --full take.
LIMIT_SECONDS = 900.0


def measure(context: SuiteContext) -> None:
    count = busy.per_processor(PER_PROCESSOR)
    context.run.environment["load of measure loaded_start"] = f"{count} busy processes"
    with busy.busy(count, LIMIT_SECONDS) as load:
        for candidate, is_kept in context.rounds("starts under load", context.central, context.sizes.lifecycle_rounds):
            times = context.attempt(candidate, PROFILE, _start, context, candidate)
            load.require()
            if times is not None and is_kept:
                starts.add(context, candidate.name, PROFILE, times)


def _start(context: SuiteContext, candidate: Candidate) -> dict[str, float]:
    with Shim(candidate, context.node) as shim:
        return starts.run_once(shim)

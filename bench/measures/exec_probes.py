"""Exec probes in one container: their latency, and the growth of the shim's memory, descriptors and threads.

The daemon is sampled after every few probes. A slope above its limit with confidence is a leak.
"""

from __future__ import annotations

import time
from contextlib import ExitStack

from bench.harness import bundles
from bench.harness.context import FAILURES, SuiteContext
from bench.harness.driver import Shim
from runhcs.process_stats import process_stats

# Unit, limit of growth per probe, and the number of probes from which the limit applies. Memory has a tolerance:
# allocators round up, and a garbage-collected heap reaches its size slowly.
LIMITS = {
    "RSS": ("kB", 1.0, 1000),
    "private": ("kB", 1.0, 1000),
    "descriptors": ("", 0.005, 200),
    "threads": ("", 0.005, 200),
}
# The share of probes before sampling begins.
WARM_UP_SHARE = 0.5


def measure(context: SuiteContext) -> None:
    probes = context.sizes.exec_probes
    every = max(probes // 100, 1)
    with ExitStack() as stack:
        shims = list(context.running_shims(stack).values())
        found = context.measure("exec probe", "ms")
        for number in range(probes):
            context.progress.step("exec probes", number + 1, probes)
            for shim in list(shims):
                took = context.attempt(shim.candidate, "", probe, shim, number)
                if took is None:
                    shims.remove(shim)
                    continue
                found.add(shim.candidate.name, took)
                if number % every == 0 and number >= probes * WARM_UP_SHARE:
                    _sample(context, shim, number)
        for shim in shims:
            context.stop_shim(shim)


def _sample(context: SuiteContext, shim: Shim, number: int) -> None:
    try:
        stats = process_stats(shim.pid)
    except FAILURES:
        return  # it has exited; the next probe fails
    for name, (unit, limit, min_probes) in LIMITS.items():
        allowed = limit if context.sizes.exec_probes >= min_probes else None
        context.run.trend(f"{name} of the shim", unit, "exec probe", limit=allowed).add(
            shim.candidate.name, number, stats[name]
        )


def probe(shim: Shim, number: int) -> float:
    """Milliseconds, as kubelet sees them."""
    name = f"probe-{number}"
    begin = time.perf_counter()
    shim.exec(name, bundles.EXEC_EXIT)
    shim.start_task(name)
    status = shim.wait(name)
    took = (time.perf_counter() - begin) * 1e3
    shim.delete_task(name)
    if status:
        raise RuntimeError(f"a probe exited with {status}")
    return took

"""Scaling: start time and memory per pod by the number of running pods, up to 200, for each shim scope.

Pods are started one after the other and keep running. At each number of pods all candidates are measured in turn.
Memory is the PSS of the shims; that of a standby is divided among the pods.
"""

from __future__ import annotations

import time
from contextlib import ExitStack

from bench.harness import standby
from bench.harness.context import SuiteContext
from bench.harness.process_stats import total_stats
from bench.measures.pods import MIN_AVAILABLE_KB, PROFILE, Pods, available_memory, scopes

# Numbers of pods at which memory is compared with the baseline.
COMPARED = (10, 50, 110)
# Threads of a shim end some seconds after their last work. For small numbers of pods that takes too long.
SETTLE_SECONDS = 12.0
SHORT_SETTLE_SECONDS = 1.0


def measure(context: SuiteContext) -> None:
    shared = scopes(context)
    with ExitStack() as stack:
        pods = [Pods(context, candidate, stack) for candidate in [*context.central, *shared]]
        for count in context.sizes.pods:
            if available_memory() < MIN_AVAILABLE_KB:
                context.run.skip("scaling", f"stopped before {count} pods: less than 2 GiB of memory available")
                break
            # A candidate that fails is left out from then on; the stack cleans it up.
            pods = [one for one in pods if context.attempt(one.candidate, PROFILE, _grow, context, one, count)]
            time.sleep(SETTLE_SECONDS if count >= COMPARED[0] else SHORT_SETTLE_SECONDS)
            for one in pods:
                _add_memory(context, one)
        for one in pods:
            context.attempt(one.candidate, PROFILE, one.stop)
    context.check_leaks("scaling", shared)


def _grow(context: SuiteContext, pods: Pods, count: int) -> bool:
    times = context.run.series("time per pod", "ms", "pods", kind="latency")
    running = context.measure("start to running of a pod", "ms")
    for sandbox, whole in pods.grow("scaling", count):
        running.add(pods.candidate.name, sandbox)
        times.add(pods.candidate.name, count, whole)
    return True


def _add_memory(context: SuiteContext, pods: Pods) -> None:
    name, count = pods.candidate.name, len(pods.pairs)
    each = (total_stats(pods.pids)["PSS"] + total_stats(standby.pids(pods.candidate))["PSS"]) / count
    context.run.series("memory per pod", "kB", "pods", kind="memory").add(name, count, each)
    if count in COMPARED:
        context.measure(f"memory per pod of {count}", "kB", "memory").add(name, each)

"""Scaling: start time and memory per pod by the number of running pods, up to 200.

A pod is a sandbox and one container, served by one shim. Pods are started one after the other and keep running. Memory
is the PSS of the shims; that of a standby is divided among the pods.
"""

from __future__ import annotations

import time
from contextlib import ExitStack

from bench.harness import standby
from bench.harness.bundles import Role
from bench.harness.candidates import Candidate
from bench.harness.context import SuiteContext
from bench.harness.driver import Shim, new_id
from bench.harness.process_stats import total_stats

# Stop below this much available memory.
MIN_AVAILABLE_KB = 2 << 20


def measure(context: SuiteContext) -> None:
    for candidate in context.central:
        with ExitStack() as stack:
            context.attempt(candidate, "pods", _measure, context, candidate, stack)


def _measure(context: SuiteContext, candidate: Candidate, stack: ExitStack) -> None:
    times = context.run.series("time per pod", "ms", "pods", kind="latency")
    memory = context.run.series("memory per pod", "kB", "pods", kind="memory")
    pods: list[tuple[Shim, Shim]] = []
    standby.wait(candidate)
    for count in context.sizes.pods:
        if available_memory() < MIN_AVAILABLE_KB:
            reason = f"{candidate.name}: stopped at {len(pods)} pods: less than 2 GiB of memory available"
            context.run.skip("scaling", reason)
            break
        durations = []
        while len(pods) < count:
            context.progress.step("scaling", len(pods) + 1, context.sizes.pods[-1], candidate.name)
            begin = time.perf_counter()
            pods.append(_pod(context, candidate, stack))
            durations.append((time.perf_counter() - begin) * 1e3)
        times.add(candidate.name, count, *durations)
        shims = total_stats(sandbox.pid for sandbox, _ in pods)["PSS"]
        memory.add(candidate.name, count, (shims + total_stats(standby.pids(candidate))["PSS"]) / count)
    for number, (sandbox, member) in enumerate(pods):
        context.progress.step("scaling down", number + 1, len(pods), candidate.name)
        member.stop()
        sandbox.stop()
        for shim in (member, sandbox):
            context.check_events(shim, "pods")


def _pod(context: SuiteContext, candidate: Candidate, stack: ExitStack) -> tuple[Shim, Shim]:
    name = new_id()
    sandbox = stack.enter_context(Shim(candidate, context.node, role=Role("sandbox", name)))
    sandbox.run()
    member = stack.enter_context(Shim(candidate, context.node, role=Role("container", name)))
    member.run()
    return sandbox, member


def available_memory() -> int:
    """In kB."""
    with open("/proc/meminfo") as file:
        for line in file:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1])
    return MIN_AVAILABLE_KB

"""Rounds of whole lifecycles of containers and pods, by profile (`lifecycle` runs a single one)."""

from __future__ import annotations

import time

from bench.harness.bundles import HYPERVISOR, POD, Role
from bench.harness.candidates import Candidate
from bench.harness.context import SuiteContext
from bench.harness.driver import Shim, new_id
from bench.measures import lifecycle

POD_MEASURES = ("sandbox to running", "container to running", "pod to running", "pod teardown")


def measure(context: SuiteContext) -> None:
    _containers(context, context.candidates, context.sizes.lifecycle_rounds, "")
    _containers(context, context.ours, context.sizes.vm_rounds, HYPERVISOR)
    _pods(context)


def _containers(context: SuiteContext, candidates: list[Candidate], rounds: int, profile: str) -> None:
    """In every second lifecycle the process exits by itself, in the others by Kill."""
    warm_up = context.sizes.short_warm_up if profile else context.sizes.warm_up
    counts = dict.fromkeys((one.name for one in candidates), 0)
    for candidate, is_kept in context.rounds(f"lifecycles {profile}".strip(), candidates, rounds, warm_up):
        counts[candidate.name] += 1
        exits_itself = counts[candidate.name] % 2 == 0
        found = context.attempt(
            candidate, profile, lifecycle.run_once, candidate, context.node, profile, exits_itself=exits_itself
        )
        if found is None:
            continue
        context.report_events(candidate, found.event_errors, profile)
        if is_kept:
            for name in lifecycle.MEASURES:
                if name in found.times:
                    context.measure(name, "ms", "latency", profile).add(candidate.name, found.times[name])


def _pods(context: SuiteContext) -> None:
    """A sandbox and some containers, served by one shim."""
    measures = {name: context.measure(name, "ms", "latency", POD) for name in POD_MEASURES}
    sizes = context.sizes
    for candidate, is_kept in context.rounds("pods", context.central, sizes.pod_rounds, sizes.short_warm_up):
        times = context.attempt(candidate, POD, pod, context, candidate)
        if times is not None and is_kept:
            for name, values in times.items():
                measures[name].add(candidate.name, *values)


def pod(context: SuiteContext, candidate: Candidate) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {name: [] for name in POD_MEASURES}
    name = new_id()
    begin = time.perf_counter()
    with Shim(candidate, context.node, role=Role("sandbox", name)) as sandbox:
        sandbox.run()
        times["sandbox to running"].append(_since(begin))
        members: list[Shim] = []
        try:
            for _ in range(context.sizes.containers):
                begun = time.perf_counter()
                members.append(Shim(candidate, context.node, role=Role("container", name)))
                members[-1].run()
                times["container to running"].append(_since(begun))
            times["pod to running"].append(_since(begin))
            begun = time.perf_counter()
            for member in members:
                member.stop()
            sandbox.stop()
            times["pod teardown"].append(_since(begun))
        finally:
            for member in members:
                member.__exit__(None)
    for shim in (sandbox, *members):
        context.check_events(shim, POD)
    return times


def _since(begin: float) -> float:
    return (time.perf_counter() - begin) * 1e3

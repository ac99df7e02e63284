"""Phases inside Create, Start, Kill, Delete and Exec of our shim, from its spans; and the cost of the spans.

Lifecycles with and without spans alternate. The difference is the cost of the spans as a caller sees it. The cost of
one span is measured separately as well, since the difference is small against the noise of a busy machine.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

from bench.harness import spans, standby
from bench.harness.bundles import HYPERVISOR, PROCESS
from bench.harness.candidates import Candidate
from bench.harness.context import SuiteContext
from bench.harness.spans import Span
from bench.measures import lifecycle
from shim import spans as recording

REPORTED = ("in HCS", "shim overhead")
BURST = 2000


def measure(context: SuiteContext) -> None:
    if not context.ours:
        return
    _span_cost(context)
    _profile(context, PROCESS, context.sizes.phase_rounds)
    _profile(context, HYPERVISOR, max(context.sizes.vm_rounds // 2, 1))


def _profile(context: SuiteContext, profile: str, rounds: int) -> None:
    """The order of a pair alternates between rounds, since the second runs with warm caches."""
    shown = "" if profile == PROCESS else profile
    number = dict.fromkeys((one.name for one in context.ours), 0)
    stage = f"phases {shown}".strip()
    for candidate, is_kept in context.rounds(stage, context.ours, rounds, context.sizes.short_warm_up):
        number[candidate.name] += 1
        pair: dict[bool, lifecycle.Lifecycle] = {}
        order = (True, False) if number[candidate.name] % 2 else (False, True)
        for with_spans in order if profile == PROCESS else (True,):
            standby.wait(candidate)
            result = context.attempt(
                candidate, shown, lifecycle.run_once, candidate, context.node, profile, with_spans=with_spans
            )
            if result is not None:
                pair[with_spans] = result
        if True in pair and not pair[True].spans:
            context.run.violation(candidate.name, "error", "the shim recorded no spans", shown)
        elif is_kept and True in pair:
            _add_results(context, candidate, pair[True], shown)
            if False in pair:
                name = f"spans: Create and Start of {candidate.name}, with minus without"
                difference = _create_and_start(pair[True]) - _create_and_start(pair[False])
                context.run.harness_cost(name, "ms", difference, note="pairs of lifecycles")


def _create_and_start(result: lifecycle.Lifecycle) -> float:
    return result.times["Create"] + result.times["Start"]


def _add_results(context: SuiteContext, candidate: Candidate, result: lifecycle.Lifecycle, profile: str) -> None:
    for name, value in spans.measures(result.spans, result.times).items():
        if name.endswith(REPORTED):
            context.measure(name, "ms", "latency", profile).add(candidate.name, value)
    seen = set()
    for call in spans.rpcs(result.spans):
        if call.method in spans.CALLS and call.method not in seen:
            seen.add(call.method)
            phases = timeline(call.whole, call.inside)
            context.run.timeline(call.method, profile).add(candidate.name, phases)


def timeline(whole: Span, inside: Iterable[Span]) -> list[tuple[str, float, float]]:
    """Phases in milliseconds from the begin of the call; a phase nested in another is named `outer/inner`.

    Without HCS operations: their calls are phases, by which runs are compared, and an operation is little more than
    the sum of its calls."""
    counted = [one for one in inside if not one.name.startswith(recording.OPERATION)]
    ordered = sorted(counted, key=lambda one: (one.begin, -one.end))
    found = []
    stack: list[tuple[Span, str]] = []
    for one in ordered:
        while stack and stack[-1][0].end <= one.begin:
            stack.pop()
        own = one.name.removeprefix(recording.HCS)
        path = f"{stack[-1][1]}/{own}" if stack else own
        stack.append((one, path))
        found.append((path, (one.begin - whole.begin) / 1e6, one.milliseconds))
    return found


def _span_cost(context: SuiteContext) -> None:
    """Measured in this process."""
    for name, is_on in (("spans: one span, not recorded", False), ("spans: one span, recorded", True)):
        if is_on:
            recording.enable()
        try:
            for _ in range(20):
                begin = time.perf_counter_ns()
                for _ in range(BURST):
                    with recording.span("x"):
                        pass
                value = (time.perf_counter_ns() - begin) / BURST / 1e3
                context.run.harness_cost(name, "us", value, note=f"{BURST} each")
                if is_on:
                    recording.enable()
        finally:
            recording.document(0, "")

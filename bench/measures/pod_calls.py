"""Calls to many pods, for each shim scope: the rate of State with sixteen callers, and CPU with Stats every 10 s.

State is called by Go's ttrpc client: one process with a connection to each pod, as containerd has, and sixteen callers
that each call all pods in turn. Stats of each sandbox and container is called once per interval, as the kubelet does;
the CPU time of an interval is that of all processes of the shims, with their children, busy or idle. HCS is not in it.
"""

from __future__ import annotations

import os
import time
from contextlib import ExitStack
from pathlib import Path

from bench.harness.candidates import STANDBY, Candidate
from bench.harness.cgroup import Accounting
from bench.harness.context import SuiteContext
from bench.harness.go_programs import interop_program, ttrpc_calls_to_all
from bench.harness.prerequisites import PrerequisiteError
from bench.measures.pods import MIN_AVAILABLE_KB, PROFILE, Pods, available_memory, scopes
from shim.api import task as api

CALLERS = 16
CALLS = 16_000
INTERVAL = 10.0


class AccountedPods(Pods):
    """Pods whose shims, with all that they run, are in a control group of their own, where the machine has those."""

    def __init__(self, context: SuiteContext, candidate: Candidate, stack: ExitStack, number: int) -> None:
        self._group = Accounting(f"bench-{os.getpid()}-pods-{number}")
        stack.callback(self._group.close)
        super().__init__(context, candidate, stack, None if self._group.path is None else self._group.enter)

    def cpu(self) -> float:
        """CPU seconds so far. Without control groups those of children are missing."""
        if self._group.path is not None:
            return self._group.seconds()
        return sum({shim.pid: shim.cpu() for shim, _ in self.pairs}.values())

    def call_stats(self) -> bool:
        for shim in self.shims:
            shim.call("Stats", api.StatsRequest(id=shim.id))
        return True

    def call_state(self, program: Path) -> float:
        """Calls per second of all callers."""
        targets = {sandbox.endpoint.path: sandbox.id for sandbox, _ in self.pairs}
        service = self.pairs[0][0].endpoint.service
        return ttrpc_calls_to_all(program, targets, CALLERS, CALLS, service, "State")["rate"]


def measure(context: SuiteContext) -> None:
    shared = scopes(context)
    # A standby serves its pod as a cold shim does.
    candidates = [one for one in [*context.central, *shared] if one.name != STANDBY]
    count = context.sizes.called_pods
    with ExitStack() as stack:
        pods = []
        for number, candidate in enumerate(candidates):
            one = AccountedPods(context, candidate, stack, number)
            if available_memory() < MIN_AVAILABLE_KB:
                context.run.skip("pod_calls", f"without {candidate.name}: less than 2 GiB of memory available")
            elif context.attempt(candidate, PROFILE, one.grow, "pods", count) is not None:
                pods.append(one)
        found = {one.candidate.name: one for one in pods}
        _measure_state(context, found, count)
        _measure_stats(context, found, count)
        for one in pods:
            context.attempt(one.candidate, PROFILE, one.stop)
    context.check_leaks("pod_calls", shared)


def _measure_state(context: SuiteContext, pods: dict[str, AccountedPods], count: int) -> None:
    try:
        program = interop_program("State of measure pod_calls")
    except PrerequisiteError as error:
        context.run.skip("pod_calls", str(error))
        return
    rates = context.measure(f"State, {CALLERS} callers over {count} pods", "1/s", "rate")
    candidates = [one.candidate for one in pods.values()]
    for candidate, is_kept in context.rounds("State calls", candidates, context.sizes.pod_state_rounds, 1):
        rate = context.attempt(candidate, PROFILE, pods[candidate.name].call_state, program)
        if is_kept and rate is not None:
            rates.add(candidate.name, rate)


def _measure_stats(context: SuiteContext, pods: dict[str, AccountedPods], count: int) -> None:
    """One sample per candidate and interval, after one interval of warm-up. Each interval is one of all candidates,
    which are called one after the other in it: they have the same window, and their CPU times are their own."""
    intervals = context.sizes.stats_intervals
    found = context.measure(f"CPU of {count} pods with Stats every {INTERVAL:g} s", "ms", "cpu")
    context.run.environment[f"window of {found.name}"] = f"{intervals} intervals of {INTERVAL:g} s"
    working = dict(pods)
    begin = time.monotonic()
    for number in range(intervals + 1):
        before = {name: one.cpu() for name, one in working.items()}
        for name, one in list(working.items()):
            context.progress.step("Stats calls", number, intervals, name)
            if context.attempt(one.candidate, PROFILE, one.call_stats) is None:
                del working[name]
        begin = _wait_interval(context, begin)
        for name, one in working.items():
            if number:
                found.add(name, (one.cpu() - before[name]) * 1e3)


def _wait_interval(context: SuiteContext, begin: float) -> float:
    """Waits for the end of an interval; returns it."""
    end = begin + INTERVAL
    remaining = end - time.monotonic()
    if remaining < 0:
        context.run.skip("pod_calls", f"an interval of Stats took {-remaining:.1f} s more than {INTERVAL:g} s")
        return time.monotonic()
    time.sleep(remaining)
    return end

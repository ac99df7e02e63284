"""Scaling: start time, memory per pod and State calls by the number of running pods, up to 200, for each shim scope.

A pod is a sandbox and one container. Pods are started one after the other and keep running. At each number of pods all
candidates are measured in turn. Memory is the PSS of the shims; that of a standby is divided among the pods.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from bench.harness import standby
from bench.harness.bundles import Role
from bench.harness.candidates import Candidate, with_scopes
from bench.harness.context import SuiteContext
from bench.harness.driver import Shim, new_id
from bench.harness.go_programs import interop_program, ttrpc_calls
from bench.harness.prerequisites import PrerequisiteError
from bench.harness.process_stats import total_stats
from bench.report.results import CandidateInfo

# Stop below this much available memory.
MIN_AVAILABLE_KB = 2 << 20
# Numbers of pods at which memory is compared with the baseline.
COMPARED = (10, 50, 110)
# State is called at the highest number of pods up to this one: the kubelet's default limit.
CALLED = 110
CALLERS = 16
CALLS = 1000
CALL_ROUNDS = 5
# Threads of a shim end some seconds after their last work. For small numbers of pods that takes too long.
SETTLE_SECONDS = 12.0
SHORT_SETTLE_SECONDS = 1.0


class Pods:
    """The running pods of a candidate."""

    def __init__(self, context: SuiteContext, candidate: Candidate, stack: ExitStack) -> None:
        self.candidate = candidate
        self.pairs: list[tuple[Shim, Shim]] = []
        self._context = context
        self._stack = stack

    def grow(self, count: int) -> bool:
        """Start pods up to this number."""
        name = self.candidate.name
        times = self._context.run.series("time per pod", "ms", "pods", kind="latency")
        running = self._context.measure("start to running of a pod", "ms")
        standby.wait(self.candidate)
        while len(self.pairs) < count:
            self._context.progress.step("scaling", len(self.pairs) + 1, count, name)
            pod = new_id()
            begin = time.perf_counter()
            sandbox = self._stack.enter_context(Shim(self.candidate, self._context.node, role=Role("sandbox", pod)))
            begin_sandbox = time.perf_counter()
            sandbox.run()
            running.add(name, (time.perf_counter() - begin_sandbox) * 1e3)
            member = self._stack.enter_context(Shim(self.candidate, self._context.node, role=Role("container", pod)))
            member.run()
            times.add(name, count, (time.perf_counter() - begin) * 1e3)
            self.pairs.append((sandbox, member))
        return True

    def add_memory(self) -> None:
        count = len(self.pairs)
        shims = total_stats({sandbox.pid for sandbox, _ in self.pairs})["PSS"]
        each = (shims + total_stats(standby.pids(self.candidate))["PSS"]) / count
        series = self._context.run.series("memory per pod", "kB", "pods", kind="memory")
        series.add(self.candidate.name, count, each)
        if count in COMPARED:
            self._context.measure(f"memory per pod of {count}", "kB", "memory").add(self.candidate.name, each)

    def call_state(self, program: Path) -> float:
        """Calls per second of all callers, each of which calls another pod."""
        called = [sandbox for sandbox, _ in self.pairs]
        called = [called[number * len(called) // CALLERS] for number in range(CALLERS)]

        def call(sandbox: Shim) -> float:
            path, service = Path(sandbox.endpoint.path), sandbox.endpoint.service
            return ttrpc_calls(program, path, 1, CALLS, service, "State", sandbox.id)["rate"]

        with ThreadPoolExecutor(CALLERS) as pool:
            return sum(pool.map(call, called))

    def stop(self) -> bool:
        for number, (sandbox, member) in enumerate(self.pairs):
            self._context.progress.step("scaling down", number + 1, len(self.pairs), self.candidate.name)
            member.stop()
            sandbox.stop()
            for shim in (member, sandbox):
                self._context.check_events(shim, "pods")
        return True


def measure(context: SuiteContext) -> None:
    shared = with_scopes(context.central, context.node.directory)
    for candidate in shared:
        context.run.add_candidate(CandidateInfo(candidate.name, str(candidate.program), subject=True))
    candidates = [*context.central, *shared]
    with ExitStack() as stack:
        pods = [Pods(context, candidate, stack) for candidate in candidates]
        for count in context.sizes.pods:
            if available_memory() < MIN_AVAILABLE_KB:
                context.run.skip("scaling", f"stopped before {count} pods: less than 2 GiB of memory available")
                break
            # A candidate that fails is left out from then on; the stack cleans it up.
            pods = [one for one in pods if context.attempt(one.candidate, "pods", one.grow, count)]
            time.sleep(SETTLE_SECONDS if count >= COMPARED[0] else SHORT_SETTLE_SECONDS)
            for one in pods:
                one.add_memory()
            if count == max(number for number in context.sizes.pods if number <= CALLED):
                _call_state(context, pods)
        for one in pods:
            context.attempt(one.candidate, "pods", one.stop)
    context.check_leaks("scaling", shared)


def _call_state(context: SuiteContext, pods: list[Pods]) -> None:
    try:
        program = interop_program("measure scaling")
    except PrerequisiteError as error:
        context.run.skip("scaling", str(error))
        return
    rates = context.measure("State, 16 callers over all pods", "1/s", "rate")
    for number in range(CALL_ROUNDS):
        for one in pods:
            context.progress.step("State calls", number + 1, CALL_ROUNDS, one.candidate.name)
            rate = context.attempt(one.candidate, "pods", one.call_state, program)
            if rate is not None:
                rates.add(one.candidate.name, rate)


def available_memory() -> int:
    """In kB."""
    with open("/proc/meminfo") as file:
        for line in file:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1])
    return MIN_AVAILABLE_KB

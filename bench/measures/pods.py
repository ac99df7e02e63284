"""The running pods of a candidate: each a sandbox and one container.

This module is no measure of its own: `scaling` and `pod_calls` start many of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack

from bench.harness import standby
from bench.harness.bundles import Role
from bench.harness.candidates import Candidate, with_scopes
from bench.harness.context import SuiteContext
from bench.harness.driver import Shim, new_id
from bench.report.results import CandidateInfo

PROFILE = "pods"
# A run stops to start pods below this much available memory.
MIN_AVAILABLE_KB = 2 << 20


class Pods:
    def __init__(
        self,
        context: SuiteContext,
        candidate: Candidate,
        stack: ExitStack,
        before_exec: Callable[[], None] | None = None,
    ) -> None:
        """The stack cleans up what fails. `before_exec`: called in the process of every command."""
        self.candidate = candidate
        self.pairs: list[tuple[Shim, Shim]] = []
        self._context = context
        self._stack = stack
        self._before_exec = before_exec

    @property
    def shims(self) -> list[Shim]:
        return [shim for pair in self.pairs for shim in pair]

    @property
    def pids(self) -> set[int]:
        """Of the daemons; pods may share one."""
        return {sandbox.pid for sandbox, _ in self.pairs}

    def grow(self, stage: str, count: int) -> list[tuple[float, float]]:
        """Starts pods up to this number. For each: milliseconds from `start` to its running sandbox, and until its
        container runs too, the bundles included."""
        times = []
        standby.wait(self.candidate)
        while len(self.pairs) < count:
            self._context.progress.step(stage, len(self.pairs) + 1, count, self.candidate.name)
            pod = new_id()
            begin = time.perf_counter()
            sandbox = self._shim(Role("sandbox", pod))
            begin_sandbox = time.perf_counter()
            sandbox.run()
            end_sandbox = time.perf_counter()
            member = self._shim(Role("container", pod))
            member.run()
            times.append(((end_sandbox - begin_sandbox) * 1e3, (time.perf_counter() - begin) * 1e3))
            self.pairs.append((sandbox, member))
        return times

    def _shim(self, role: Role) -> Shim:
        shim = self._stack.enter_context(Shim(self.candidate, self._context.node, role=role))
        shim.before_exec = self._before_exec
        return shim

    def stop(self) -> bool:
        for number, (sandbox, member) in enumerate(self.pairs):
            self._context.progress.step("scaling down", number + 1, len(self.pairs), self.candidate.name)
            member.stop()
            sandbox.stop()
            for shim in (member, sandbox):
                self._context.check_events(shim, PROFILE)
        return True


def scopes(context: SuiteContext) -> list[Candidate]:
    """Our shim with each scope in which pods share a process, added to the candidates of the run."""
    shared = with_scopes(context.central, context.node.directory)
    for candidate in shared:
        context.run.add_candidate(CandidateInfo(candidate.name, str(candidate.program), subject=True))
    return shared


def available_memory() -> int:
    """In kB."""
    with open("/proc/meminfo") as file:
        for line in file:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1])
    return MIN_AVAILABLE_KB

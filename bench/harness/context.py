"""What every measure of the suite is given: whom to measure, where, how much, and what to do with failures.

A life that fails is a violation, which fails the run; the others are measured on. A candidate that keeps failing is
left out of the rest of that measure.
"""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import NamedTuple, ParamSpec, TypeVar

from bench.harness import standby
from bench.harness.candidates import INSTALLED, Candidate
from bench.harness.driver import Node, Shim
from bench.harness.session import Session
from shim.ttrpc.status import ClosedError, StatusError

Result = TypeVar("Result")
P = ParamSpec("P")

FAILURES = (RuntimeError, OSError, StatusError, ClosedError, subprocess.SubprocessError)
# A candidate that fails so often is not worth waiting for any longer.
MOST_ERRORS = 5


class Sizes(NamedTuple):
    """How much of everything. The short warm-up is for what takes long."""

    warm_up: int
    short_warm_up: int
    rounds: int
    vm_rounds: int
    pod_rounds: int
    phase_rounds: int
    cpu_rounds: int
    call_rounds: int
    at_once: Sequence[int]
    lives_each: int
    probes: int
    idle: Sequence[int]
    pods: Sequence[int]
    containerd_rounds: int
    output_rounds: int
    output_mib: int
    #: Of a pod, besides its sandbox.
    containers: int = 3


SIZES = {
    "quick": Sizes(
        warm_up=1, short_warm_up=0, rounds=3, vm_rounds=1, pod_rounds=1, phase_rounds=1, cpu_rounds=1, call_rounds=1,
        at_once=(1, 4), lives_each=1, probes=10, idle=(1, 3), pods=(1, 3), containerd_rounds=1, output_rounds=1,
        output_mib=64,
    ),
    "normal": Sizes(
        warm_up=2, short_warm_up=1, rounds=20, vm_rounds=3, pod_rounds=4, phase_rounds=8, cpu_rounds=6, call_rounds=7,
        at_once=(1, 4, 8, 16, 32), lives_each=2, probes=200, idle=(1, 5, 10, 25, 50), pods=(1, 5, 10, 20),
        containerd_rounds=8, output_rounds=6, output_mib=512,
    ),
    "full": Sizes(
        warm_up=2, short_warm_up=1, rounds=50, vm_rounds=8, pod_rounds=12, phase_rounds=25, cpu_rounds=20,
        call_rounds=20, at_once=(1, 4, 8, 16, 32), lives_each=4, probes=1000, idle=(1, 5, 10, 25, 50),
        pods=(1, 10, 25, 50, 100, 200), containerd_rounds=30, output_rounds=12, output_mib=1024,
    ),
}  # fmt: skip


class Lab:
    def __init__(self, session: Session, node: Node, candidates: list[Candidate], sizes: Sizes) -> None:
        self.session = session
        self.node = node
        self.candidates = candidates
        self.sizes = sizes

    @property
    def ours(self) -> list[Candidate]:
        return [one for one in self.candidates if one.is_ours]

    @property
    def central(self) -> list[Candidate]:
        """For measures that take long: the baseline, ours and the user's own, not every version of Go's."""
        baseline = self.session.run.baseline
        return [one for one in self.candidates if one.name == baseline or not is_other_version(one)]

    def attempt(
        self, candidate: Candidate, profile: str, action: Callable[P, Result], *arguments: P.args, **named: P.kwargs
    ) -> Result | None:
        """What it gives; None, and a violation, if it fails."""
        try:
            return action(*arguments, **named)
        except FAILURES as error:
            self.session.run.violation(candidate.name, "error", f"{type(error).__name__}: {error}", profile)
            return None

    def running(self, stack: ExitStack) -> dict[str, Shim]:
        """A shim with a running container of each central candidate, by its name; the stack puts them away."""
        shims = {}
        for candidate in self.central:
            shim = stack.enter_context(Shim(candidate, self.node))
            if self.attempt(candidate, "", shim.run) is not None:
                shims[candidate.name] = shim
        return shims

    def end(self, shim: Shim) -> None:
        """Of one that `running` gave; its events must have come in order."""
        self.attempt(shim.candidate, "", shim.end)
        self.check_events(shim.candidate, self.node.events.settle(shim.id))

    def rounds(
        self, stage: str, candidates: Sequence[Candidate], rounds: int, warm_up: int | None = None
    ) -> Iterator[tuple[Candidate, bool]]:
        """The session's rounds, without those who keep failing, each with its standby ready."""
        before = Counter(one.candidate for one in self.session.run.violations)
        warm_up = self.sizes.warm_up if warm_up is None else warm_up
        for candidate, kept in self.session.rounds(stage, candidates, rounds, warm_up):
            now = sum(1 for one in self.session.run.violations if one.candidate == candidate.name)
            if now - before[candidate.name] < MOST_ERRORS:
                standby.wait(candidate)
                yield candidate, kept

    def check_events(self, candidate: Candidate, wrong: list[str], profile: str = "") -> None:
        for text in wrong:
            self.session.run.violation(candidate.name, "event order", text, profile)

    def check_leftovers(self, measure: str) -> None:
        for name, found in self.node.leftovers(self.candidates).items():
            for text in found:
                self.session.run.violation(name, "leak", f"{text} was left behind by {measure}")


def is_other_version(candidate: Candidate) -> bool:
    return candidate.name == INSTALLED or (candidate.name.startswith("runc ") and not candidate.is_ours)

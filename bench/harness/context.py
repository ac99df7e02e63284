"""What a measure is given: where results go, progress, and rounds that interleave the candidates.

- `RunContext` is for every command of bench.
- `SuiteContext` is for the measures of the suite: it adds the node, the selected candidates and the sizes.

A failed lifecycle is a violation, which fails the run; the other candidates are still measured. A candidate that keeps
failing is left out of the rest of that measure.
"""

from __future__ import annotations

import argparse
import random
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import ParamSpec, TypeVar

from bench.harness import standby
from bench.harness.candidates import INSTALLED, Candidate
from bench.harness.driver import Shim
from bench.harness.goals import goals_of
from bench.harness.node import Node
from bench.harness.progress import Progress
from bench.harness.selection import Selection
from bench.harness.sizes import Sizes
from bench.report.results import Measure, Run
from shim.ttrpc.status import ClosedError, StatusError

Result = TypeVar("Result")
P = ParamSpec("P")
Subject = TypeVar("Subject")  # a Candidate, or the name of one

WARM_UP = 2
FAILURES = (RuntimeError, OSError, StatusError, ClosedError, subprocess.SubprocessError)
# A candidate with this many errors in a measure is skipped for the rest of it.
MAX_ERRORS = 5


class RunContext:
    def __init__(self, run: Run, progress: Progress, arguments: argparse.Namespace | None = None) -> None:
        self.run = run
        self.progress = progress
        self.selection = Selection.from_arguments(arguments or argparse.Namespace())
        self._order = random.Random(run.seed)

    def measure(self, name: str, unit: str, kind: str = "latency", profile: str = "", baseline: str = "") -> Measure:
        return self.run.measure(
            name, unit, kind=kind, profile=profile, baseline=baseline, goals=goals_of(name, profile)
        )

    def rounds(
        self, stage: str, candidates: Sequence[Subject], rounds: int, warm_up: int = WARM_UP
    ) -> Iterator[tuple[Subject, bool]]:
        """Every candidate once per round, in a seeded random order; with it False in warm-up rounds, which are
        discarded."""
        for number in range(1 - warm_up, rounds + 1):
            for one in self._order.sample(list(candidates), len(candidates)):
                self.progress.step(stage, number, rounds, getattr(one, "name", str(one)))
                yield one, number > 0


class SuiteContext:
    def __init__(self, context: RunContext, node: Node, candidates: list[Candidate], sizes: Sizes) -> None:
        self._context = context
        self.run = context.run
        self.progress = context.progress
        self.measure = context.measure
        self.node = node
        self.candidates = candidates
        self.sizes = sizes

    @property
    def ours(self) -> list[Candidate]:
        return [one for one in self.candidates if one.is_ours]

    @property
    def central(self) -> list[Candidate]:
        """For measures that take long: the baseline, ours and the user's own, not every version of Go's."""
        return [one for one in self.candidates if one.name == self.run.baseline or not is_other_version(one)]

    def attempt(
        self, candidate: Candidate, profile: str, action: Callable[P, Result], *arguments: P.args, **named: P.kwargs
    ) -> Result | None:
        """The result of `action`; None, and a violation, if it fails."""
        try:
            return action(*arguments, **named)
        except FAILURES as error:
            self.run.violation(candidate.name, "error", f"{type(error).__name__}: {error}", profile)
            return None

    def running_shims(self, stack: ExitStack) -> dict[str, Shim]:
        """A shim with a running container of each central candidate, by its name; the stack cleans them up."""
        shims = {}
        for candidate in self.central:
            shim = stack.enter_context(Shim(candidate, self.node))
            if self.attempt(candidate, "", shim.run) is not None:
                shims[candidate.name] = shim
        return shims

    def stop_shim(self, shim: Shim) -> None:
        """Stops a shim of `running_shims` and checks the order of its events."""
        self.attempt(shim.candidate, "", shim.stop)
        self.check_events(shim)

    def rounds(
        self, stage: str, candidates: Sequence[Candidate], rounds: int, warm_up: int | None = None
    ) -> Iterator[tuple[Candidate, bool]]:
        """The rounds of `RunContext` without candidates that keep failing, each with its standby ready."""
        before = Counter(one.candidate for one in self.run.violations)
        warm_up = self.sizes.warm_up if warm_up is None else warm_up
        for candidate, is_kept in self._context.rounds(stage, candidates, rounds, warm_up):
            now = sum(1 for one in self.run.violations if one.candidate == candidate.name)
            if now - before[candidate.name] < MAX_ERRORS:
                standby.wait(candidate)
                yield candidate, is_kept

    def check_events(self, shim: Shim, profile: str = "") -> None:
        """After a lifecycle: events out of order are violations."""
        self.report_events(shim.candidate, self.node.events.finish(shim.id), profile)

    def report_events(self, candidate: Candidate, errors: list[str], profile: str = "") -> None:
        for text in errors:
            self.run.violation(candidate.name, "event order", text, profile)

    def check_leaks(self, measure: str, more: Sequence[Candidate] = ()) -> None:
        """`more`: candidates of this measure only."""
        for name, leaked in self.node.leaks([*self.candidates, *more]).items():
            for text in leaked:
                self.run.violation(name, "leak", f"leaked {text} (measure {measure})")


def is_other_version(candidate: Candidate) -> bool:
    return candidate.name == INSTALLED or (candidate.name.startswith("runc ") and not candidate.is_ours)

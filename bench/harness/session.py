"""What a measure is given: where results go, how to show progress, whom to measure, in which order."""

from __future__ import annotations

import argparse
import os
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from bench.harness.candidates import Candidate
from bench.harness.dialects import DIALECTS, NEWEST
from bench.harness.environment import about, version
from bench.harness.progress import Progress
from bench.report.goals import goals_of
from bench.report.results import Measure, Run

WARM_UP = 2
Anyone = TypeVar("Anyone")  # a Candidate, or the name of one


def _named_program(text: str) -> tuple[str, Path]:
    name, equals, program = text.partition("=")
    path = Path(program).expanduser().absolute()
    if not equals or not name or not program:
        raise argparse.ArgumentTypeError(f"{text!r}: give NAME=PATH, such as mine=./containerd-shim-mine-v1")
    if not os.path.isfile(path):  # False, too, where we may not look
        raise argparse.ArgumentTypeError(f"{text!r}: there is no file {path}")
    return name, path


def _named_dialect(text: str) -> tuple[str, str]:
    name, _, version = text.partition("=")
    if version not in DIALECTS:
        raise argparse.ArgumentTypeError(f"{text!r}: give NAME=VERSION, with one of {', '.join(DIALECTS)}")
    return name, version


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--candidate", metavar="NAME=PATH", dest="programs", action="append", default=[], type=_named_program,
        help="a shim v2 program of your own to measure beside the others; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--dialect", metavar="NAME=VERSION", dest="dialects", action="append", default=[], type=_named_dialect,
        help=f"the containerd it is used to: {', '.join(DIALECTS)} (default: as its -v says, else the newest)",
    )  # fmt: skip
    parser.add_argument(
        "--only", metavar="TEXT", action="append", default=[],
        help="of the candidates, those whose name contains this, and the baseline; may be repeated",
    )  # fmt: skip
    parser.add_argument("--baseline", metavar="NAME", help="what ratios are to (default: the newest Go shim)")


class Session:
    def __init__(self, run: Run, progress: Progress, arguments: argparse.Namespace | None = None) -> None:
        self.run = run
        self.progress = progress
        self._programs: Sequence[tuple[str, Path]] = getattr(arguments, "programs", ())
        self._dialects: dict[str, str] = dict(getattr(arguments, "dialects", ()))
        self._only: Sequence[str] = getattr(arguments, "only", ())
        self._baseline: str | None = getattr(arguments, "baseline", None)
        self._order = random.Random(run.seed)

    def choose(self, known: Callable[[Path], list[Candidate]], directory: Path) -> list[Candidate]:
        """The candidates of this run, the user's own among them, each entered into the results with its version."""
        try:
            found = known(directory)
        except FileNotFoundError:
            if not self._programs:
                raise
            found = []  # the user has brought one
        found += [self._own(name, program) for name, program in self._programs]
        baseline = self._choose_baseline(found)
        if self._only:
            found = [one for one in found if one is baseline or any(text in one.name for text in self._only)]
        self.run.baseline = baseline.name
        own = {name for name, _ in self._programs}
        known_already = {one.name for one in self.run.candidates}
        for one in found:
            if one.name not in known_already:
                self.run.candidates.append(about(one.name, one.program, one.is_ours or one.name in own))
        return found

    def _own(self, name: str, program: Path) -> Candidate:
        """The user's. A shim of an old containerd, or made from one, says so itself and understands no newer speech."""
        said = ".".join(version(program).removeprefix("v").split(".")[:2])
        return Candidate(name, program, dialect=self._dialects.get(name, said if said in DIALECTS else NEWEST))

    def _choose_baseline(self, found: list[Candidate]) -> Candidate:
        if self._baseline is not None:
            for one in found:
                if one.name == self._baseline:
                    return one
            names = ", ".join(repr(one.name) for one in found)
            raise SystemExit(f"bench: no candidate {self._baseline!r} for --baseline; there are {names}")
        own = {name for name, _ in self._programs}
        others = [one for one in found if not one.is_ours and one.name not in own]
        return (others or found)[-1]

    def measure(self, name: str, unit: str, kind: str = "latency", profile: str = "", baseline: str = "") -> Measure:
        return self.run.measure(
            name, unit, kind=kind, profile=profile, baseline=baseline, goals=goals_of(name, profile)
        )

    def rounds(
        self, stage: str, candidates: Sequence[Anyone], rounds: int, warm_up: int = WARM_UP
    ) -> Iterator[tuple[Anyone, bool]]:
        """Every candidate once per round, in an order that the seed decides; False with it for a warm-up, not kept."""
        for number in range(1 - warm_up, rounds + 1):
            for one in self._order.sample(list(candidates), len(candidates)):
                self.progress.step(stage, number, rounds, getattr(one, "name", str(one)))
                yield one, number > 0

"""Which candidates a run measures: --candidate, --dialect, --only and --baseline."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from attrs import field, frozen

from bench.harness.candidates import Candidate
from bench.harness.dialects import DIALECTS
from bench.harness.environment import candidate_info, version
from bench.harness.prerequisites import PrerequisiteError
from bench.report.results import Run


def _named_program(text: str) -> tuple[str, Path]:
    name, equals, program = text.partition("=")
    path = Path(program).expanduser().absolute()
    if not equals or not name or not program:
        raise argparse.ArgumentTypeError(f"{text!r}: give NAME=PATH, such as mine=./containerd-shim-mine-v1")
    if not os.path.isfile(path):  # also False without permission
        raise argparse.ArgumentTypeError(f"{text!r}: no file {path}")
    return name, path


def _named_dialect(text: str) -> tuple[str, str]:
    name, _, version = text.partition("=")
    if not name or version not in DIALECTS:
        raise argparse.ArgumentTypeError(f"{text!r}: give NAME=VERSION, with one of {', '.join(DIALECTS)}")
    return name, version


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--candidate", metavar="NAME=PATH", dest="programs", action="append", default=[], type=_named_program,
        help="measure this shim v2 program too; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--dialect", metavar="NAME=VERSION", dest="dialects", action="append", default=[], type=_named_dialect,
        help=f"the containerd version it expects: {', '.join(DIALECTS)} (default: from its -v, else the newest)",
    )  # fmt: skip
    parser.add_argument(
        "--only", metavar="TEXT", action="append", default=[],
        help="only candidates whose name contains this, and the baseline; may be repeated",
    )  # fmt: skip
    parser.add_argument("--baseline", metavar="NAME", help="the reference of ratios (default: the newest Go shim)")


@frozen
class Selection:
    #: The user's own programs, by name.
    programs: Sequence[tuple[str, Path]] = ()
    dialects: Mapping[str, str] = field(factory=dict, converter=dict)
    only: Sequence[str] = ()
    baseline: str | None = None

    @classmethod
    def from_arguments(cls, arguments: argparse.Namespace) -> Selection:
        """Commands without these options have the defaults."""
        given = vars(arguments)
        return cls(
            programs=given.get("programs", ()),
            dialects=given.get("dialects", ()),
            only=given.get("only", ()),
            baseline=given.get("baseline"),
        )

    def select(self, run: Run, find: Callable[[Path], list[Candidate]], directory: Path) -> list[Candidate]:
        """The candidates of this run. Adds them, with their versions, and the baseline to the results."""
        try:
            found = find(directory)
        except PrerequisiteError:
            if not self.programs:
                raise
            found = []  # the user's program is enough
        found += [self._own(name, program) for name, program in self.programs]
        baseline = self._select_baseline(found)
        if self.only:
            found = [one for one in found if one is baseline or any(text in one.name for text in self.only)]
        run.baseline = baseline.name
        for one in found:
            run.add_candidate(candidate_info(one.name, one.program, one.is_ours or one.name in self._own_names))
        return found

    @property
    def _own_names(self) -> set[str]:
        return {name for name, _ in self.programs}

    def _own(self, name: str, program: Path) -> Candidate:
        """A shim of an old containerd, or derived from one, reports its version and supports no newer dialect."""
        return Candidate(name, program, dialect=self.dialects.get(name) or version(program).removeprefix("v"))

    def _select_baseline(self, found: list[Candidate]) -> Candidate:
        if self.baseline is not None:
            for one in found:
                if one.name == self.baseline:
                    return one
            names = ", ".join(repr(one.name) for one in found)
            raise SystemExit(f"bench: no candidate {self.baseline!r} for --baseline; candidates: {names}")
        others = [one for one in found if not one.is_ours and one.name not in self._own_names]
        return (others or found)[-1]

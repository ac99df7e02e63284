"""One run from begin to end: measure, judge, write, print. What was measured is written even if the run ends early."""

from __future__ import annotations

import argparse
import signal
import sys
import time
import traceback
from collections.abc import Sequence
from types import ModuleType
from typing import Protocol

from attrs import frozen

from bench.harness.context import RunContext
from bench.harness.environment import environment
from bench.harness.prerequisites import PrerequisiteError
from bench.harness.progress import Progress
from bench.report import artifacts, gate, tables, terminal
from bench.report.results import Run

# Arguments that are not settings of a part, or are recorded elsewhere in the results.
NOT_SETTINGS = {
    "function", "modules", "bounds", "output", "programs", "quiet", "details", "command", "command_line", "prog",
}  # fmt: skip


class Command(Protocol):
    def measure(self, context: RunContext, arguments: argparse.Namespace) -> None: ...


@frozen
class Part:
    """A command of bench, such as `suite`, with its arguments."""

    name: str
    module: Command | ModuleType
    arguments: argparse.Namespace


def execute(parts: Sequence[Part], arguments: argparse.Namespace, command: Sequence[str]) -> int:
    """Returns the exit status. `command`: the command line, for the results."""
    run = Run(seed=arguments.seed, command=list(command), environment=environment())
    run.began = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    begin = time.monotonic()
    progress = Progress(quiet=arguments.quiet)
    previous = signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: cleans up the shims
    try:
        measure(run, parts, progress)
    except (Exception, KeyboardInterrupt) as error:
        if not run.measures or (len(parts) == 1 and isinstance(error, PrerequisiteError)):
            raise
        progress.end()
        if not isinstance(error, KeyboardInterrupt):
            traceback.print_exc()
        run.violation("the run", "error", f"ended early: {type(error).__name__} {error}".rstrip())
    finally:
        progress.end()
        signal.signal(signal.SIGTERM, previous)
    run.seconds = time.monotonic() - begin
    status = judge(run, arguments.bounds)
    written = artifacts.write(run, arguments.output or artifacts.default_directory())
    terminal.print_tables(tables.all_tables(run) if arguments.details else tables.overview(run))
    terminal.print_run(run, written)
    skipped = [f"skipped {one.measure}: {one.reason}" for one in run.skipped]
    for line in [*skipped, *gate.notes(run), *run.failures, *hints(run, arguments)]:
        print(line, file=sys.stderr)
    return status


def measure(run: Run, parts: Sequence[Part], progress: Progress) -> None:
    """Of several parts, one that lacks a prerequisite is skipped; a single one raises PrerequisiteError."""
    for part in parts:
        run.settings[part.name] = {
            key: value for key, value in vars(part.arguments).items() if key not in NOT_SETTINGS
        }
        try:
            part.module.measure(RunContext(run, progress, part.arguments), part.arguments)
        except PrerequisiteError as error:
            if len(parts) == 1:
                raise
            run.skip(part.name, str(error))


def hints(run: Run, arguments: argparse.Namespace) -> list[str]:
    """For a --candidate without any successful lifecycle."""
    found = []
    for name, _ in arguments.programs:
        has_failed = any(one.candidate == name and one.kind == "error" for one in run.violations)
        if has_failed and not any(one.samples.get(name) for one in run.measures):
            found.append(
                f"hint: no lifecycle of {name!r} succeeded. Does it expect another containerd? Try --dialect {name}=1.7"
            )
    return found


def judge(run: Run, bounds: list[gate.Bound]) -> int:
    """Sets the failures of the run; returns the exit status."""
    try:
        run.failures = gate.failures(run, bounds)
    except gate.BoundError as error:
        run.failures = [*gate.failures(run), str(error)]
        return 2
    return 1 if run.failures else 0

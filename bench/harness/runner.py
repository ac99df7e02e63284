"""A run from begin to end: measure, judge, write, print. Whatever happens on the way, what was measured is written."""

from __future__ import annotations

import argparse
import signal
import sys
import time
import traceback
from collections.abc import Sequence
from typing import Any

from bench.harness.environment import environment
from bench.harness.progress import Progress
from bench.harness.session import Session
from bench.report import artifacts, gate, tables
from bench.report.results import Run

# What is said of a part in the settings of a run; the rest is told elsewhere.
HIDDEN = {"function", "modules", "bounds", "output", "programs", "quiet", "details", "command"}

Part = tuple[str, Any, argparse.Namespace]  # name, module with measure(session, arguments), its arguments


def execute(parts: Sequence[Part], arguments: argparse.Namespace) -> int:
    """The exit status."""
    run = Run(seed=arguments.seed, command=["python", "-m", "bench", *sys.argv[1:]], environment=environment())
    run.began = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    clock = time.monotonic()
    progress = Progress(quiet=arguments.quiet)
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)  # as with Ctrl-C: no shim is left behind
    try:
        left_out = measure(run, parts, progress)
    except (Exception, KeyboardInterrupt) as error:
        if not run.measures or (len(parts) == 1 and isinstance(error, FileNotFoundError)):
            raise
        progress.end()
        if not isinstance(error, KeyboardInterrupt):
            traceback.print_exc()
        run.violation("the run", "error", f"ended early: {type(error).__name__} {error}".rstrip())
        left_out = []
    finally:
        signal.signal(signal.SIGTERM, before)
    progress.end()
    run.seconds = time.monotonic() - clock
    status = verdict(run, arguments.bounds)
    directory = arguments.output or artifacts.default_directory()
    written = artifacts.write(run, directory)
    print(tables.text(run) if arguments.details else tables.overview(run))
    print(f"{', '.join(path.name for path in written)} in {directory}", flush=True)
    for line in [*left_out, *gate.notes(run), *run.failures, *hints(run, arguments)]:
        print(line, file=sys.stderr)
    return status


def measure(run: Run, parts: Sequence[Part], progress: Progress) -> list[str]:
    """Returns which of several parts were left out, and why: for want of a program the others need not wait."""
    left_out = []
    for name, module, own in parts:
        run.settings[name] = {key: value for key, value in vars(own).items() if key not in HIDDEN}
        try:
            module.measure(Session(run, progress, own), own)
        except FileNotFoundError as error:
            if len(parts) == 1:
                raise
            run.settings[name]["left out"] = str(error)
            left_out.append(f"{name} was left out: {error}")
    return left_out


def hints(run: Run, arguments: argparse.Namespace) -> list[str]:
    """For whoever brought a shim that did not live once."""
    told = []
    for name, _ in arguments.programs:
        failed = any(one.candidate == name and one.kind == "error" for one in run.violations)
        if failed and not any(one.samples.get(name) for one in run.measures):
            told.append(f"hint: no life of {name!r} succeeded. Made for another containerd? Try --dialect {name}=1.7")
    return told


def verdict(run: Run, bounds: list[gate.Bound]) -> int:
    """What was measured is written whatever comes of it."""
    try:
        run.failures = gate.failures(run, bounds)
    except gate.GateError as error:
        run.failures = [*gate.failures(run), str(error)]
        return 2
    return 1 if run.failures else 0

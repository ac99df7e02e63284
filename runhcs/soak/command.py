"""Run containers for hours and verify that nothing grows and nothing gets lost. containerd is not needed.

  runhcs soak --hours 8                                    for a time
  runhcs soak --lifecycles 10000 --probes 100000           until so much work is done, at most --hours
  runhcs soak --hours 8 --html soak.html --json soak.json  with charts, and for programs

Short lifecycles of containers, pods and VMs run beside three long-lived shims, which get exec probes, Stats, and
restarts of their containers. Shims are killed, containerd restarts. Every exit and every event must arrive. Memory,
handles, threads and files must not grow. The exit code is 1 if an event is missing or a slope is significant. Ctrl-C
ends the run, removes everything, and reports what there is.

It needs what `runhcs selftest` needs: on Windows an administrator and the layers of an image, on Linux root.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from pathlib import Path

from runhcs import console
from runhcs.reports import as_json
from runhcs.selftest.node import Node, NodeError, open_node
from runhcs.selftest.runner import StepSkipped
from runhcs.soak import report
from runhcs.soak.run import Plan, Soak

PREFIX = "soak"
INTERRUPTED = 130
#: Lines of progress where stderr is no terminal.
LINE_SECONDS = 60.0
STATUS_SECONDS = 1.0


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--hours", type=_positive, default=1.0, metavar="N", help="the longest time (default: 1)")
    parser.add_argument("--lifecycles", type=_count, default=0, metavar="N", help="end after so many short lifecycles")
    parser.add_argument("--probes", type=_count, default=0, metavar="N", help="end after so many exec probes")
    parser.add_argument("--workers", type=_count, default=2, metavar="N", help="lifecycles at a time (default: 2)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of the random choices (default: 1)")
    for name, default, what in (("stats", 10.0, "Stats of the long-lived containers"), ("sample", 10.0, "samples")):
        parser.add_argument(f"--{name}-seconds", type=_positive, default=default, metavar="S",
                            help=f"time between {what} (default: {default:g})")  # fmt: skip
    parser.add_argument("--restart-seconds", type=_not_negative, default=300.0, metavar="S",
                        help="time between restarts of containerd, 0 for none (default: 300)")  # fmt: skip
    parser.add_argument("--pause-file", default="", metavar="FILE", help="begin nothing while this file exists")
    parser.add_argument("--json", default="", metavar="FILE", help="write the results for programs; - is stdout")
    parser.add_argument("--html", default="", metavar="FILE", help="write a page with charts")
    parser.add_argument(
        "--layers", action="append", default=[], metavar="DIR",
        help="a read-only layer of a Windows image, topmost first; repeated for each",
    )  # fmt: skip
    parser.add_argument("--shim", default="", metavar="EXE", help="the shim to test (default: the one of this runhcs)")
    parser.set_defaults(smb="")


def _positive(text: str) -> float:
    value = float(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return value


def _not_negative(text: str) -> float:
    return 0.0 if float(text) == 0 else _positive(text)


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return value


def run(args: argparse.Namespace) -> int:
    plan = Plan(
        args.hours * 3600, args.lifecycles, args.probes, args.workers, args.seed, args.stats_seconds,
        args.sample_seconds, args.restart_seconds, args.pause_file,
    )  # fmt: skip
    for path in (args.html, args.json):
        if path not in ("", "-") and not Path(path).absolute().parent.is_dir():
            print(f"runhcs soak: {path} cannot be written: its directory is missing", file=sys.stderr)
            return 1
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        node = open_node(args, PREFIX)
    except NodeError as error:
        print(f"runhcs soak: {error}", file=sys.stderr)
        return 1
    try:
        node.image()
        soak = Soak(node, plan)
        progress = _Progress()
        outcome = soak.run(progress)
        progress.end()
    except StepSkipped as error:
        print(f"runhcs soak: {error}: {error.next_step}", file=sys.stderr)
        return 1
    finally:
        problem = _close(node)
    if problem:
        outcome.problems.append(problem)
    if args.json != "-":
        report.print_summary(outcome)
    try:
        if args.json:
            _write(args.json, as_json(report.document(outcome, plan)))
        if args.html:
            _write(args.html, report.page(outcome, plan))
    except OSError as error:
        print(f"runhcs soak: the results cannot be written: {error}", file=sys.stderr)
        return 1
    if outcome.verdict:
        console.show(f"runhcs soak: {report.conclusion(outcome)}", to_stderr=True)
        return 1
    return INTERRUPTED if outcome.is_interrupted else 0


def _close(node: Node) -> str:
    try:
        node.close()
    except (NodeError, OSError) as error:
        return str(error)
    return ""


def _write(path: str, text: str) -> None:
    if path == "-":
        print(text)
    else:
        Path(path).write_text(text + "\n", encoding="utf-8")


class _Progress:
    """A line on stderr: on a terminal it is replaced every second, elsewhere there is one a minute. A problem has
    a line of its own at once: the run may take hours more."""

    def __init__(self) -> None:
        self._is_terminal = sys.stderr.isatty()
        self._next = 0.0
        self._shown = 0

    def __call__(self, soak: Soak, seconds: float) -> None:
        now = time.monotonic()
        for problem in soak.outcome.problems[self._shown :]:
            self._shown += 1
            self.end()
            console.show(f"{console.age(seconds)}: problem: {problem}", to_stderr=True)
        if now < self._next:
            return
        self._next = now + (STATUS_SECONDS if self._is_terminal else LINE_SECONDS)
        text = report.progress(soak.outcome, seconds)
        if self._is_terminal:
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
        else:
            print(text, file=sys.stderr, flush=True)

    def end(self) -> None:
        if self._is_terminal:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

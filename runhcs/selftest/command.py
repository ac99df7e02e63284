"""Run containers on this node and verify what the shim needs of it. containerd is not needed.

  runhcs selftest                       every step, in about a minute
  runhcs selftest --list                the steps and what they verify
  runhcs selftest --step NAME           only this step; may be repeated
  runhcs selftest --json                for programs
  runhcs selftest --as-system           as SYSTEM, which containerd runs as (Windows)
  runhcs selftest --against EXE         also run the containers with Microsoft's shim and report differences
  runhcs selftest --record DIR          store the answers of HCS as cases for the emulator's tests

Each step has a timeout and removes what it creates. Its outcome is `ok`, `fail` or `skip`, with the reason and the next
step. The exit code is 1 if a step fails.

On Windows it needs an administrator and the layers of a Windows image: those that containerd has unpacked, or
--layers. On Linux it runs on the emulator, the one in HCS_EMULATOR_DIR if it runs, and needs root.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from runhcs import console
from runhcs.selftest import report
from runhcs.selftest.against import comparison_steps
from runhcs.selftest.node import Node, NodeError, open_node
from runhcs.selftest.runner import Result, Step, run_step
from runhcs.selftest.steps import STEPS
from shim.hcs_bindings.errors import HcsError
from shim.hcs_bindings.windows_version import windows_build
from shim.platform import host


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--list", action="store_true", help="list the steps; nothing is run")
    parser.add_argument("--step", action="append", default=[], metavar="NAME", help="run this step; may be repeated")
    parser.add_argument("--json", action="store_true", help="print JSON, for programs")
    parser.add_argument("--as-system", action="store_true", help="run as SYSTEM, in a scheduled task (Windows)")
    parser.add_argument("--against", default="", metavar="EXE", help="a shim to compare with, such as Microsoft's")
    parser.add_argument("--record", default="", metavar="DIR", help="store the answers of HCS in this directory")
    parser.add_argument(
        "--layers", action="append", default=[], metavar="DIR",
        help="a read-only layer of a Windows image, topmost first; repeated for each",
    )  # fmt: skip
    parser.add_argument("--smb", default="", metavar="PATH", help="a directory of an SMB share, for the step with one")
    parser.add_argument("--shim", default="", metavar="EXE", help="the shim to test (default: the one of this runhcs)")


def run(args: argparse.Namespace) -> int:
    steps = [*STEPS, *comparison_steps(args.against)]
    names = {step.name for step in steps}
    if unknown := [name for name in args.step if name not in names]:
        print(f"runhcs selftest: no step is named {', '.join(unknown)}: --list shows all", file=sys.stderr)
        return 1
    if args.list:
        report.print_steps(steps)
        return 0
    if args.as_system:
        return _as_system(args)
    chosen = [step for step in steps if not args.step or step.name in args.step]
    try:
        node = open_node(args)
    except NodeError as error:
        print(f"runhcs selftest: {error}", file=sys.stderr)
        return 1
    try:
        results = _run(chosen, node, args.json)
        build = _build()
        recorded = str(node.recording.write(Path(args.record), build)) if args.record else ""
    finally:
        problem = _close(node)
    if problem:
        results.append(Result("cleanup", "nothing of the selftest is left", "fail", problem, "remove it", 0.0, {}))
    if args.json:
        about = {"build": build, "emulated": host.IS_EMULATED, "shim": node.program, "against": args.against}
        print(report.document(results, about, recorded))
    else:
        report.print_summary(results, recorded)
    return 1 if any(result.outcome == "fail" for result in results) else 0


def _run(steps: list[Step], node: Node, json_output: bool) -> list[Result]:
    results = []
    for step in steps:
        with console.progress(f"{step.name}: {step.verifies}"):
            result = run_step(step, node)
        results.append(result)
        if not json_output:
            report.print_result(result)
    return results


def _build() -> int:
    try:
        return windows_build()
    except HcsError:
        return 0


def _close(node: Node) -> str:
    try:
        node.close()
    except (NodeError, OSError) as error:
        return str(error)
    return ""


def _as_system(args: argparse.Namespace) -> int:
    if host.IS_EMULATED:
        print("runhcs selftest: --as-system is for Windows; on Linux run it as root", file=sys.stderr)
        return 1
    from runhcs.selftest.as_system import run_as_system

    return run_as_system(args)

"""The output of the selftest: text while it runs, and JSON."""

from __future__ import annotations

import sys
from typing import Any

from runhcs import console
from runhcs.reports import as_json
from runhcs.selftest.runner import Result, Step
from shim.version import VERSION


def print_steps(steps: list[Step]) -> None:
    console.print_table(("STEP", "VERIFIES"), [(step.name, step.verifies) for step in steps])


def print_result(result: Result) -> None:
    """One line for each step; the next step on a line of its own."""
    screen = console.terminal()
    line = console.printable(f"{result.name:<24} {result.seconds:6.1f} s  {result.finding}")
    if screen is None:
        print(f"{result.outcome:<5}{line}", flush=True)
    else:
        from rich.text import Text

        screen.print(Text.assemble((f"{result.outcome:<5}", console.STYLES.get(result.outcome, "dim")), line))
    if result.outcome != "ok":
        print(f"{'':5}{'':24} verifies: {result.verifies}")
    if result.next_step and result.outcome != "ok":
        print(f"{'':5}{'':24} next step: {result.next_step}", flush=True)


def print_summary(results: list[Result], recorded: str) -> None:
    counts = {outcome: sum(result.outcome == outcome for result in results) for outcome in ("ok", "fail", "skip")}
    print(f"\n{counts['ok']} ok, {counts['fail']} failed, {counts['skip']} skipped")
    if recorded:
        print(f"HCS answers are stored in {recorded}")
    if failed := [result.name for result in results if result.outcome == "fail"]:
        print(f"again: runhcs selftest {' '.join(f'--step {name}' for name in failed)}", file=sys.stderr)


def document(results: list[Result], node: dict[str, Any], recorded: str) -> str:
    passed = not any(result.outcome == "fail" for result in results)
    return as_json({"passed": passed, "version": VERSION, **node, "recorded": recorded, "steps": results})

"""Say whether this machine can run containers with the shim, and what to do where it cannot.

  runhcs doctor                   every check, with its outcome and the next step
  runhcs doctor --json            for programs
  runhcs doctor --config FILE     for a containerd with this configuration

Outcomes: `ok`; `note`, worth knowing; `warn`, some containers will not run; `fail`, none will. The exit code is 1 if
there is a `fail`.

On Linux HCS is emulated, so looked at are the emulator and what it needs of the kernel, containerd, the launcher, and
whether Wine is there. On Windows they are the compute services and their versions, the build, rights, and containerd.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable

from runhcs import shims, table
from runhcs.doctor.checks import Check


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", default="", metavar="FILE", help="containerd's configuration (default: its usual)")
    parser.add_argument("--json", action="store_true", help="as JSON, for programs")


def examine(args: argparse.Namespace) -> list[Check]:
    if shims.WINDOWS:
        from runhcs.doctor import windows

        groups: list[Callable[[argparse.Namespace], Iterable[Check]]] = [windows.all_checks]
    else:
        from runhcs.doctor import linux

        groups = [linux.machine, linux.emulator_checks, linux.containerd_checks, linux.wine]
    found: list[Check] = []
    for group in groups:
        try:
            found += group(args)
        except Exception as error:  # a check that breaks must not hide the others
            found.append(Check(group.__name__, "warn", f"could not be looked at: {error}", "please report this"))
    return found


def run(args: argparse.Namespace) -> int:
    found = examine(args)
    able = not any(check.outcome == "fail" for check in found)
    if args.json:
        print(json.dumps({"able": able, "checks": [check.describe() for check in found]}, indent=2))
        return 0 if able else 1
    print(table.table(("OUTCOME", "CHECK", "FINDING"), [(one.outcome, one.name, one.finding) for one in found]))
    steps = [one for one in found if one.next_step and one.outcome != "ok"]
    if steps:
        print("\nWhat to do:")
        for one in steps:
            print(f"  {one.outcome:5}{one.name}: {one.next_step}")
    print("\nThis machine can run containers with the shim." if able else "\nThis machine cannot run containers yet.")
    return 0 if able else 1

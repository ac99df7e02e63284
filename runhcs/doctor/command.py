"""Check the prerequisites of this machine, and print the next step for each that is missing.

  runhcs doctor                   every check, with its outcome and the next step
  runhcs doctor --json            for programs
  runhcs doctor --config FILE     for a containerd with this configuration

Outcomes: `ok`; `note`, for information; `warn`, some containers will not run; `fail`, none will. The exit code is 1 if
a check fails.

On Linux, where HCS is emulated, the checks cover the emulator and the kernel features that it needs, containerd, the
launcher, and Wine. On Windows they cover the compute services and their schema versions, the build, rights and
privileges, recent errors in the event log, and containerd.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable

from runhcs import console, shims
from runhcs.doctor.checks import Check
from runhcs.reports import as_json


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", default="", metavar="FILE", help="configuration of containerd")
    parser.add_argument("--json", action="store_true", help="print JSON, for programs")


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
        except Exception as error:  # an unexpected error in one group must not hide the others
            found.append(Check(group.__name__, "warn", f"the check itself failed: {error}", "please report this"))
    return found


def run(args: argparse.Namespace) -> int:
    with console.progress("checking prerequisites"):
        found = examine(args)
    able = not any(check.outcome == "fail" for check in found)
    if args.json:
        print(as_json({"able": able, "checks": found}))
        return 0 if able else 1
    console.print_table(("OUTCOME", "CHECK", "FINDING"), [(one.outcome, one.name, one.finding) for one in found])
    steps = [one for one in found if one.next_step and one.outcome != "ok"]
    if steps:
        print("\nNext steps:")
        for one in steps:
            print(f"  {one.outcome:5}{one.name}: {one.next_step}")
    print(f"\nThis machine {'can' if able else 'cannot'} run containers with the shim.")
    return 0 if able else 1

"""Run the whole test suite several times, and list the tests that did not pass at once: `make test-repeat RUNS=10`.

A log of each run is below build/test-runs. The table is that of docs/explanation/decisions/0031-test-retry.md. The exit
code is 0 if every run passed and no test was retried.
"""

from __future__ import annotations

import argparse
import datetime
import os
import re
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOGS = ROOT / "build" / "test-runs"
SUMMARY = re.compile(r"^(?:=+ )?\d+ \w+.* in [0-9.]+s\b", re.MULTILINE)
COUNT = re.compile(r"(\d+) (passed|failed|errors?)\b")
FLAKY = re.compile(r"^flaky, passed on retry: (.+)$", re.MULTILINE)
FAILED = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", re.MULTILINE)
COLOURS = re.compile(r"\x1b\[[0-9;]*m")


class Run:
    """What the output of one run says."""

    def __init__(self, text: str, code: int) -> None:
        text = COLOURS.sub("", text)
        self.code = code
        self.retried = FLAKY.findall(text)
        self.failed = sorted(set(FAILED.findall(text)) - set(self.retried))
        counts = [COUNT.findall(summary) for summary in SUMMARY.findall(text)]
        # A retry runs some tests a second time.
        self.tests = sum(int(number) for found in counts for number, _ in found) - len(self.retried)

    @property
    def is_clean(self) -> bool:
        return self.code == 0 and not self.retried and not self.failed

    def row(self, commit: str, load: str, seconds: float) -> str:
        """A row of the table."""
        result = "none" if self.is_clean else "; ".join(self.retried + self.failed) or f"exit code {self.code}"
        date = datetime.date.today().isoformat()
        return f"| {date} | {commit} | {load} | {self.tests} | {seconds / 60:.0f} | {result} |"


def run_once(arguments: list[str], log: Path) -> Run:
    with open(log, "wb") as output:
        done = subprocess.run([ROOT / "scripts" / "test.sh", *arguments], stdout=output, stderr=output, check=False)
    return Run(log.read_text(errors="replace"), done.returncode)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10, metavar="N", help="default: 10")
    parser.add_argument("rest", nargs="*", metavar="ARGUMENT", help="of scripts/test.sh, after --")
    options = parser.parse_args()
    commit = subprocess.check_output(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, text=True).strip()
    LOGS.mkdir(parents=True, exist_ok=True)
    print("| date | commit | load | tests | minutes | not passed at once |\n| --- | --- | --- | --- | --- | --- |")
    is_clean = True
    for number in range(1, options.runs + 1):
        begun = time.monotonic()
        run = run_once(options.rest, LOGS / f"{number:02}.log")
        load = f"{os.getloadavg()[2]:.0f} on {os.cpu_count()} cores"
        print(run.row(commit, load, time.monotonic() - begun), flush=True)
        is_clean = is_clean and run.is_clean
    print(f"the logs are in {LOGS}", file=sys.stderr)
    return 0 if is_clean else 1


if __name__ == "__main__":
    sys.exit(main())

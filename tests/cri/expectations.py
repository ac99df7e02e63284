"""What critest must report: every spec passes, except those of `exceptions.toml`, which has a reason for each."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path

from attrs import frozen

from tests.cri.critest import PASSED, Result

FILE = Path(__file__).with_name("exceptions.toml")
RESULTS = Path(__file__).with_name("results.toml")
ALL_GUESTS = "runhcs-lcow"


@frozen
class Exemption:
    """Specs that a run does not pass."""

    specs: tuple[str, ...]
    result: str
    reason: str
    runs: tuple[str, ...]

    def is_for(self, run: str) -> bool:
        return run in self.runs or (ALL_GUESTS in self.runs and run.startswith(f"{ALL_GUESTS}-"))


def load(path: Path = FILE) -> list[Exemption]:
    entries = tomllib.loads(path.read_text())["exception"]
    return [
        Exemption(tuple(entry["specs"]), entry["result"], entry["reason"], tuple(entry["runs"])) for entry in entries
    ]


def counts() -> dict[str, dict[str, int]]:
    """How many specs of each run pass, fail and are skipped."""
    found: dict[str, dict[str, int]] = tomllib.loads(RESULTS.read_text())
    return found


def differences(
    run: str, results: Sequence[Result], exemptions: Sequence[Exemption], *, partial: bool = False
) -> list[str]:
    """Specs with another result than expected, and entries that no spec has. With `partial` only some specs ran."""
    found = []
    unused = {name for exemption in exemptions if exemption.is_for(run) for name in exemption.specs}
    for result in results:
        expected, reason = PASSED, "no exception"
        for exemption in exemptions:
            for name in exemption.specs:
                if exemption.is_for(run) and _matches(name, result.name):
                    expected, reason = exemption.result, exemption.reason
                    unused.discard(name)
        if result.state != expected:
            found.append(f"{result.name}: {result.state}, expected {expected} ({reason})\n{result.message}")
    if not partial:
        found += [f"{name}: no spec of this name ran: correct {FILE.name}" for name in sorted(unused)]
    return found


def _matches(name: str, spec: str) -> bool:
    return spec.startswith(name[:-1]) if name.endswith("*") else spec == name

"""The Linux section of docs/reference/conformance.md, from the data of tests/cri. `make docs` writes it."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

BEGIN = "<!-- Made by `make docs` from tests/cri/results.toml and exceptions.toml: change those. -->\n"
END = "<!-- end of the generated tables -->\n"
DATA = Path(__file__).resolve().parent.parent / "tests" / "cri"
_HANDLERS = {"runc": "runc, for comparison", "runhcs-lcow": "`runhcs-lcow`, every guest, sandboxer and scope"}


def page(text: str) -> str:
    """The page with new tables between the two comments."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    assert begin and end, f"docs/reference/conformance.md must have the lines {BEGIN!r} and {END!r}"
    results = tomllib.loads((DATA / "results.toml").read_text())
    exceptions = tomllib.loads((DATA / "exceptions.toml").read_text())["exception"]
    return (
        "\n".join([before + BEGIN, *_counts(results), "", *_exceptions(exceptions), "", END]).rstrip("\n")
        + "\n"
        + after
    )


def _counts(results: dict[str, dict[str, int]]) -> list[str]:
    lines = ["| run | specs | passed | failed | skipped |", "| --- | --- | --- | --- | --- |"]
    for name, counts in results.items():
        numbers = [sum(counts.values()), *(counts.get(state, 0) for state in ("passed", "failed", "skipped"))]
        lines.append(f"| `{name}` | {' | '.join(map(str, numbers))} |")
    return lines


def _exceptions(exceptions: list[dict[str, Any]]) -> list[str]:
    lines = ["| spec | run | result | reason |", "| --- | --- | --- | --- |"]
    for entry in exceptions:
        runs = "; ".join(_HANDLERS.get(run, f"`{run}`") for run in entry["runs"])
        for spec in entry["specs"]:
            name = f"{spec[:-2]}: all" if spec.endswith(" *") else spec
            lines.append(f"| {name} | {runs} | {entry['result']} | {entry['reason']} |")
    return lines

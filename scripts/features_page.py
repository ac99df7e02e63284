"""docs/reference/features.md, from the rows of docs/reference/features.toml."""

from __future__ import annotations

import textwrap
import tomllib
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "features.toml"
WIDTH = 100

INTRO = """<!-- Made by `make docs` from docs/reference/features.toml: change that. -->
# Features

This page lists what a Windows spec, an update or a pod can request, and compares each feature with
Microsoft's shim in Go:

- **same**: both shims behave alike;
- **better**: this shim does more, or handles a failure that Microsoft's does not;
- **less**: this shim does less;
- **not possible**: neither HCS nor the specification offers it.

A row holds for process isolation and for utility VMs unless it says otherwise. A ¹ marks behaviour
that was verified on the emulator only, where Windows may differ. Nothing on this page has run on a
Windows host yet.

Each section ends with the tests that verify its rows, by row number. Paths are below `tests/`.
"""


def page() -> str:
    return INTRO + "".join(_section(section) for section in sections())


def sections() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = tomllib.loads(SOURCE.read_text(encoding="utf-8"))["section"]
    return found


def _section(section: dict[str, Any]) -> str:
    rows = section["row"]
    compared = any("compared" in row for row in rows)
    head = ("no.", "feature", "compared", "difference") if compared else ("no.", "feature", "note")
    lines = ["", f"## {section['title']}", ""]
    if "intro" in section:
        lines += [textwrap.fill(section["intro"], WIDTH, break_long_words=False, break_on_hyphens=False), ""]
    lines += [_cells(head), _cells(("---",) * len(head))]
    for number, row in enumerate(rows, 1):
        result = row.get("compared", "") + (" ¹" if row.get("emulator_only") else "")
        middle = (result,) if compared else ()
        lines.append(_cells((str(number), row["feature"], *middle, row.get("note", ""))))
    tests = [line for number, row in enumerate(rows, 1) if "tests" in row for line in _tests(number, row["tests"])]
    return "\n".join([*lines, "", "Tests:", "", *tests]) + "\n"


def _cells(texts: tuple[str, ...]) -> str:
    return "| " + " | ".join(texts) + " |"


def _tests(number: int, tests: list[str]) -> list[str]:
    """The tests of one row, each file named once."""
    files: dict[str, list[str]] = {}
    for test in tests:
        path, _, name = test.partition("::")
        files.setdefault(path, []).extend([f"`{name}`"] if name else [])
    told = "; ".join(f"`{path}`" + (f": {', '.join(names)}" if names else "") for path, names in files.items())
    return textwrap.wrap(
        f"- {number}: {told}", WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )

"""launcher/README.md: every file, function and test in the table of C functions exists, and the table is complete."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
LAUNCHER = ROOT / "launcher"
HEADER = "| C function | Python counterpart | compared by |"
CELL = re.compile(r"`([\w./]+)`: `(\w+)`")


def rows() -> list[list[str]]:
    lines = (LAUNCHER / "README.md").read_text().splitlines()
    table = lines[lines.index(HEADER) + 2 :]
    end = next(number for number, line in enumerate(table) if not line.startswith("|"))
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table[:end]]


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0].replace("`", ""))
def test_row_names_existing_functions_and_test(row: list[str]) -> None:
    c, python, test = row
    file, name = _cell(c)
    assert re.search(rf"^[\w ]+[ *]{name}\(", (LAUNCHER / file).read_text(), re.MULTILINE), c
    file, name = _cell(python)
    assert re.search(rf"^ *def {name}\(", (ROOT / file).read_text(), re.MULTILINE), python
    file, name = _cell(test)
    assert f"\ndef {name}(" in (ROOT / "tests" / file).read_text(), test


def _cell(text: str) -> tuple[str, str]:
    match = CELL.fullmatch(text)
    assert match, f"not `file`: `function`: {text}"
    return match[1], match[2]


@pytest.mark.parametrize(
    ("header", "pattern"),
    [
        ("common/common.h", r"\w+"),
        ("linux/launcher.h", r"native_\w+|socket_path"),
        ("windows/commands.h", r"native_\w+|pipe_name"),
    ],
)
def test_table_has_declared_functions(header: str, pattern: str) -> None:
    """All that both systems share, and the commands of each."""
    text = (LAUNCHER / header).read_text()
    declared = set(re.findall(rf"^(?:bool|size_t|uint64_t|enum role) ({pattern})\(", text, re.MULTILINE))
    directory = header.split("/")[0]
    named = {name for file, name in (_cell(row[0]) for row in rows()) if file.startswith(f"{directory}/")}
    assert declared and declared <= named, declared - named

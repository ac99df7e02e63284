"""The threat model names a test for each attack, and the tests exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "explanation" / "threat-model.md"
TEST = re.compile(r"`(tests/[\w/]+\.py)::([\w:]+)`")


def named_tests() -> set[tuple[str, str]]:
    return set(TEST.findall(PAGE.read_text()))


def _defined(path: Path) -> set[str]:
    found = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.ClassDef):
            found |= {f"{node.name}::{one.name}" for one in node.body if isinstance(one, ast.FunctionDef)}
    return found


@pytest.mark.parametrize(("path", "name"), sorted(named_tests()))
def test_named_test_exists(path: str, name: str) -> None:
    assert name in _defined(ROOT / path)


def test_every_attack_has_a_test() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| ") and not line.startswith("| --- ")]
    attacks = [row for row in rows if row.count(" | ") == 3 and not row.startswith("| attack surface")]
    assert len(attacks) > 20
    assert not [row for row in attacks if not TEST.search(row.rpartition(" | ")[2])]

"""The page of findings and the cases that reproduce them belong together."""

from __future__ import annotations

import re
from pathlib import Path

from tests.differential.findings import FINDINGS

PAGE = Path(__file__).resolve().parents[3] / "docs" / "findings.md"


def test_page_has_every_reproduction_and_no_other() -> None:
    named = re.findall(r"^Reproduction: `([\w-]+)`", PAGE.read_text(), re.MULTILINE)
    assert sorted(named) == sorted(FINDINGS)

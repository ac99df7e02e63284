"""The pages of docs/: generated ones are current, links and the names of files and tests are valid."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def test_generated_pages_are_current(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in _script("generate_docs", monkeypatch).pages().items():
        assert (ROOT / "docs" / name).read_text() == text, f"docs/{name} is not current: run `make docs`"


def test_features_page_names_existing_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = []
    for section in _script("features_page", monkeypatch).sections():
        for test in (test for row in section["row"] for test in row.get("tests", [])):
            path, _, name = test.partition("::")
            file = ROOT / "tests" / path
            if not file.exists() or (name and f"def {name}(" not in file.read_text()):
                missing.append(test)
    assert missing == [], "change docs/reference/features.toml"


def _script(name: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    return importlib.import_module(name)


def test_links_between_pages_resolve() -> None:
    """A relative link names a file, and its fragment a heading of that file."""
    broken = []
    for page in PAGES:
        for target in re.findall(r"\]\(([^)\s]+)\)", _without_code(page.read_text())):
            if target.startswith(("http:", "https:")):
                continue
            path, _, fragment = target.partition("#")
            file = (page.parent / path).resolve() if path else page
            if not file.exists() or (fragment and fragment not in _anchors(file)):
                broken.append(f"{page.relative_to(ROOT)}: {target}")
    assert broken == []


def _without_code(text: str) -> str:
    return re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)


def _anchors(page: Path) -> set[str]:
    """The fragments that GitHub gives to the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", _without_code(page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}

"""Pages that are made from tables of the code are current."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def test_generated_pages_are_current() -> None:
    spec = importlib.util.spec_from_file_location("generate_docs", ROOT / "scripts" / "generate_docs.py")
    assert spec is not None and spec.loader is not None
    generator = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generator)
    for name, text in generator.pages().items():
        assert (ROOT / "docs" / name).read_text() == text, f"docs/{name} is not current: run `make docs`"


def test_the_features_page_names_tests_that_exist() -> None:
    """`emulated/test_x.py::test_y`, or `test_z` alone for one more of the same file."""
    missing = []
    for line in (ROOT / "docs" / "reference" / "features.md").read_text().splitlines():
        file: Path | None = None
        for path, name in re.findall(r"`(?:((?:\w+/)+test_\w+\.py)(?:::)?)?(test_\w+)?`", line):
            if path:
                file = ROOT / "tests" / path
                if not file.exists():
                    missing.append(path)
                    file = None
            if name and file is not None and f"def {name}(" not in file.read_text():
                missing.append(f"{file.name}::{name}")
    assert missing == []


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

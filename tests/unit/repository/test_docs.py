"""The pages of docs/: generated ones are current, links and the names of files and tests are valid."""

from __future__ import annotations

import importlib
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
WIDTH = 100
# Terms of an earlier vocabulary, each with a standard term in its place.
DISCOURAGED = ("anew", "expel", "figures", "leftovers", "nobody", "put out", "rooms?", "somebody", "told", "wishes")
PLACES = ("*.md", "docs/**/*.md", "hcs_emulator/**/*.md", "launcher/**/*.md", "shim/**/*.md")
PAGES = sorted(page for place in PLACES for page in ROOT.glob(place))


def test_generated_pages_are_current(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in _script("generate_docs", monkeypatch).pages().items():
        assert (ROOT / "docs" / name).read_text() == text, f"docs/{name} is not current: run `make docs`"


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "man").iterdir()), ids=lambda page: page.name)
def test_man_pages_have_no_roff_errors(page: Path) -> None:
    """By mandoc, or by groff; pages have a version instead of a date."""
    if shutil.which("mandoc"):
        command = ["mandoc", "-T", "lint", "-W", "warning", str(page)]
    elif shutil.which("groff"):
        command = ["groff", "-man", "-ww", "-z", str(page)]
    else:
        pytest.skip("neither mandoc nor groff is installed")
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60, check=False)
    assert [line for line in done.stdout.splitlines() if "missing date" not in line] == []


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


@pytest.mark.parametrize("index", ["docs/README.md", "docs/explanation/decisions/README.md"])
def test_index_lists_every_page(index: str) -> None:
    page = ROOT / index
    listed = {(page.parent / target).resolve() for target in re.findall(r"\]\(([^)#\s]+)\)", page.read_text())}
    below = set(page.parent.rglob("*.md")) - {page}
    if index == "docs/README.md":
        below = {file for file in below if file.parent.name != "decisions"}
    assert sorted(str(file.relative_to(ROOT)) for file in below - listed) == []


def _without_code(text: str) -> str:
    return re.sub(r"^( *)```.*?^\1```$", "", text, flags=re.DOTALL | re.MULTILINE)


def _anchors(page: Path) -> set[str]:
    """The fragments that GitHub gives to the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", _without_code(page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_extending_page_names_existing_paths() -> None:
    text = (ROOT / "docs" / "how-to" / "extending.md").read_text()
    paths = set(re.findall(r"`((?:bench|hcs_emulator|launcher|proto|runhcs|shim|tests)/[\w./]+)`", text))
    assert len(paths) > 50
    assert sorted(path for path in paths if not (ROOT / path).exists()) == []


def test_examples_are_those_of_the_pages() -> None:
    """`hello_hcs.py` needs an emulator: tests/emulated/bindings runs it."""
    page = (ROOT / "docs" / "reference" / "ttrpc.md").read_text()
    example = ROOT / "docs" / "examples" / "ttrpc_greeter.py"
    assert example.read_text().split('"""\n\n', 1)[1] in page
    done = subprocess.run(
        [sys.executable, example], cwd=ROOT, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=60
    )
    assert done.stdout in page and (done.stderr, done.returncode) == ("", 0)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_prose_is_wrapped(page: Path) -> None:
    """At most 100 columns; tables, images, code blocks and lines that hold one long link are exempt."""
    lines = _without_code(page.read_text()).splitlines()
    exempt = re.compile(r"\||!\[|<!--|\s*(- |\d+\. )?\S*\[[^]]*\]\(\S+\)\S*$|\s*(- )?\S+$")
    assert [line for line in lines if len(line) > WIDTH and not exempt.match(line)] == []


def test_life_of_a_container_names_existing_functions() -> None:
    """`task/process.py::_stop` is a function or class of that file below shim/; other paths are of the repository."""
    text = (ROOT / "docs" / "explanation" / "life-of-a-container.md").read_text()
    missing = []
    for path, name in re.findall(r"`((?:\w+/)+\w+\.(?:py|c))(?:::(\w+))?`", text):
        file = next((file for file in (ROOT / "shim" / path, ROOT / path) if file.exists()), None)
        if file is None or (name and not re.search(rf"\b(def|class) {name}\b", file.read_text())):
            missing.append(f"{path}::{name}")
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_use_standard_terms(page: Path) -> None:
    """CONTRIBUTING.md, Vocabulary. Names in backticks are exempt."""
    text = re.sub(r"`[^`]*`", "", _without_code(page.read_text()))
    assert re.findall(rf"\b({'|'.join(DISCOURAGED)})\b", text, re.IGNORECASE) == []


def test_troubleshooting_quotes_existing_log_lines() -> None:
    """The second column quotes the shim, except for containerd's own message. An ellipsis stands for a value."""
    page = (ROOT / "docs" / "how-to" / "troubleshooting.md").read_text().partition("## A container does not start")[2]
    cells = [line.split("|")[2] for line in page.splitlines() if line.startswith("|")]
    quotes = [quote for cell in cells for quote in re.findall(r"`([^`]+)`", cell)]
    source = "".join(file.read_text() for file in (ROOT / "shim").rglob("*.py")).replace('"\n', "")
    source = re.sub(r"\{verb\}", "pause", source)
    unknown = [quote for quote in quotes if not all(part in source for part in re.split("…|0x\\w+ ", quote))]
    assert unknown == ['runtime "io.containerd.runhcs.v1" binary not installed']
    assert len(quotes) > 15

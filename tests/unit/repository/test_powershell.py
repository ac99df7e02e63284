"""PowerShell in the pages and the scripts: its syntax, and the options of `runhcs` in it.

The grammar is stricter than PowerShell in one place: the elements of a list in an argument must be quoted.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from types import ModuleType

import pytest
import tree_sitter_powershell
from tree_sitter import Language, Node, Parser

from runhcs.install import windows
from runhcs.selftest import command as selftest

ROOT = Path(__file__).resolve().parents[3]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
SCRIPTS = sorted((ROOT / "scripts" / "windows").glob("*.ps1"))
PARSER = Parser(Language(tree_sitter_powershell.language()))


def errors(text: str) -> list[str]:
    """The first line of each part that cannot be parsed."""

    def visit(node: Node) -> list[str]:
        if node.type == "ERROR" or node.is_missing:
            return [f"line {node.start_point.row + 1}: {text.splitlines()[node.start_point.row].strip()}"]
        return [error for child in node.children if child.has_error or child.is_missing for error in visit(child)]

    root = PARSER.parse(text.encode()).root_node
    return visit(root) or (["unknown error"] if root.has_error else [])


def snippets(page: Path) -> list[str]:
    """Blocks of PowerShell, and the commands after the prompt `>` in blocks of a console."""
    found = []
    for indent, kind, body in re.findall(r"^( *)```(\w+)\n(.*?)^\1```$", page.read_text(), re.DOTALL | re.MULTILINE):
        text = "".join(line.removeprefix(indent) for line in body.splitlines(keepends=True))
        if kind == "powershell":
            found.append(text)
        elif kind == "console":
            found += re.findall(r"^> (.*\n)", text, re.MULTILINE)
    return found


SNIPPETS = [(page, text) for page in PAGES for text in snippets(page)]


@pytest.mark.parametrize("text", ["if ($x { 1 }\n", "foreach ($a in 1..3) { }}\n", 'Write-Host "a\n', "$x = @(1,\n"])
def test_invalid_syntax_is_found(text: str) -> None:
    assert errors(text)


@pytest.mark.parametrize(("page", "text"), SNIPPETS, ids=[page.name for page, _ in SNIPPETS])
def test_snippets_of_pages_parse(page: Path, text: str) -> None:
    assert errors(text) == []


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_scripts_parse(script: Path) -> None:
    text = script.read_text()
    assert errors(text) == []
    assert text.isascii() and "\r" not in text, "Windows PowerShell reads files without a byte order mark as ANSI"


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_scripts_stop_at_the_first_error(script: Path) -> None:
    """By common.ps1, which sets the preference and has the function that checks exit codes."""
    text = script.read_text()
    if script.name == "common.ps1":
        assert "Set-StrictMode -Version Latest" in text and "$ErrorActionPreference = 'Stop'" in text
    else:
        assert ". (Join-Path $PSScriptRoot 'common.ps1')" in text


@pytest.mark.parametrize(("command", "module"), [("install", windows), ("selftest", selftest)])
def test_options_of_runhcs_exist(command: str, module: ModuleType) -> None:
    parser = argparse.ArgumentParser()
    module.configure(parser)
    texts = [text for _, text in SNIPPETS] + [script.read_text() for script in SCRIPTS]
    lines = [line for text in texts for line in text.splitlines() if re.search(rf"runhcs\b.*\b{command}\b", line)]
    used = {option for line in lines for option in re.findall(r"--[a-z][a-z-]+", line)}
    assert len(used) >= 3
    assert used <= {*parser._option_string_actions}


def test_excluded_unit_tests_exist() -> None:
    lines = (ROOT / "scripts" / "windows" / "unit-tests-excluded.txt").read_text().splitlines()
    names = [line for line in lines if not line.startswith("#")]
    missing = []
    for name in names:
        path, *parts = name.split("::")
        if not (ROOT / path).exists() or (parts and f"def {parts[-1]}(" not in (ROOT / path).read_text()):
            missing.append(name)
    assert missing == []
    assert len(names) > 20

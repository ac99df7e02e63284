"""docs/reference/conformance.md lists the exceptions of critest, and ours are among those of Microsoft's shim."""

from __future__ import annotations

from pathlib import Path

from tests.cri.windows.exceptions import expected_states, read_rules
from tests.cri.windows.node import SHIMS

PAGE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "conformance.md"
WHO = {"ours": "this shim", "microsoft": "Microsoft's"}


def test_exceptions_on_windows_are_documented() -> None:
    documented = PAGE.read_text().partition("## Windows stack")[2].partition("\n## ")[0]
    rows = []
    for rule in read_rules():
        shims = "both" if sorted(rule.shims) == sorted(SHIMS) else ", ".join(WHO[shim] for shim in rule.shims)
        for spec in rule.specs:
            name = spec.removeprefix("[k8s.io] ").removesuffix(" [Conformance]")
            rows.append(f"| {name} | {shims} | {rule.reason} |")
    assert [row for row in rows if row not in documented] == []
    table = documented.partition("| spec | shims | reason |")[2].partition("\n\n")[0]
    assert len(table.strip().splitlines()) == len(rows) + 1, "the page has rows that exceptions.toml has not"


def test_every_spec_that_passes_with_microsofts_shim_passes_with_ours() -> None:
    assert set(expected_states("ours")) <= set(expected_states("microsoft"))

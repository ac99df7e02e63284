"""Every rule of the guest is documented and raised somewhere."""

from __future__ import annotations

from pathlib import Path

from hcs_emulator.vm.linux.agent import rules

ROOT = Path(__file__).resolve().parents[4]
RULES = {name: value for name, value in vars(rules).items() if name.isupper()}


def test_rules_are_documented() -> None:
    text = (ROOT / "docs/reference/linux-guest.md").read_text()
    rows = [line.split("|")[1].strip().strip("`") for line in text.splitlines() if line.startswith("| `")]
    assert sorted(rows) == sorted(RULES.values())


def test_rules_are_checked() -> None:
    package = ROOT / "hcs_emulator/vm/linux/agent"
    code = "".join(file.read_text() for file in package.glob("*.py"))
    assert [name for name in RULES if f"rules.{name}" not in code] == []

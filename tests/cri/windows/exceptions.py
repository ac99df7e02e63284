"""The specs of critest that do not pass on the Windows stack, by shim, from exceptions.toml."""

from __future__ import annotations

import tomllib
from pathlib import Path

from attrs import frozen

from tests.cri.windows.node import SHIMS

FILE = Path(__file__).with_name("exceptions.toml")


@frozen
class Rule:
    """Specs that do not pass for the same reason."""

    specs: list[str]
    shims: list[str]
    #: `failed` or `skipped`
    state: str
    reason: str


def read_rules() -> list[Rule]:
    rules = [Rule(**{"shims": list(SHIMS), **entry}) for entry in tomllib.loads(FILE.read_text())["rule"]]
    unknown = {shim for rule in rules for shim in rule.shims} - set(SHIMS)
    assert not unknown, f"{FILE.name}: unknown shims {sorted(unknown)}"
    return rules


def expected_states(shim: str) -> dict[str, str]:
    """The state of every spec that does not pass with this shim."""
    return {spec: rule.state for rule in read_rules() if shim in rule.shims for spec in rule.specs}

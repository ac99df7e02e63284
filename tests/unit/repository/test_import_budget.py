"""The import budget of stages that one import statement reaches, and the launcher's bundle lists."""

from __future__ import annotations

import pytest

from launcher.linux import bundle
from tests.support.import_budget import EXACT, FORBIDDEN, imported_by, matching


@pytest.mark.parametrize("code", FORBIDDEN)
def test_forbidden_modules_are_not_imported(code: str) -> None:
    assert matching(imported_by(code), FORBIDDEN[code]) == set()


def test_ledger_imports_exactly_its_list() -> None:
    assert imported_by("import shim.container.ledger") == EXACT["ledger"]


def test_bundle_lists_match_the_table() -> None:
    """The launcher puts what `start`, `delete` and a daemon import at the front of its bundle."""
    commands = EXACT["start"] | EXACT["delete"]
    assert {name for name in commands if name.startswith("shim")} == bundle.COMMANDS
    assert {name for name in EXACT["daemon"] if name.startswith("shim")} == bundle.DAEMON
    with_options = EXACT["start with options"] - EXACT["start"] - EXACT["daemon"]
    assert with_options | {"shim.api.runtimeoptions"} == bundle.OPTIONS, "TOML options have a message of their own"

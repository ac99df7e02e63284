"""Microsoft's shim still has the defects of docs/findings.md: a new version may have fixed them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.differential.findings import FINDINGS, Reproduction


@pytest.fixture(scope="module")
def reproduction() -> Iterator[Reproduction]:
    reproduction = Reproduction()
    yield reproduction
    reproduction.close()


@pytest.mark.parametrize("name", FINDINGS)
def test_defect_of_microsofts_shim_shows(reproduction: Reproduction, name: str) -> None:
    recorded = reproduction.run(name)
    assert FINDINGS[name].shows(recorded), recorded["run"]["results"]

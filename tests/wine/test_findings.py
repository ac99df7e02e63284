"""Microsoft's shim still has the defects of docs/findings.md: a new version may have fixed them. Ours loses no data."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.differential.findings import FINDINGS, Reproduction, result
from tests.differential.machines import OURS


@pytest.fixture(scope="module")
def reproduction() -> Iterator[Reproduction]:
    reproduction = Reproduction()
    yield reproduction
    reproduction.close()


@pytest.mark.parametrize("name", FINDINGS)
def test_defect_of_microsofts_shim_shows(reproduction: Reproduction, name: str) -> None:
    recorded = reproduction.run(name)
    assert FINDINGS[name].shows(recorded), recorded["run"]["results"]


@pytest.fixture(scope="module")
def our_shim() -> Iterator[Reproduction]:
    reproduction = Reproduction(OURS)
    yield reproduction
    reproduction.close()


@pytest.mark.parametrize(
    ("name", "operation", "text"),
    [("close-io-discards-input", "io()", "line one"), ("failed-create-deletes-host-files", "Create", "/none")],
)
def test_our_shim_loses_no_data(our_shim: Reproduction, name: str, operation: str, text: str) -> None:
    recorded = our_shim.run(name)
    assert text in result(recorded, operation), recorded["run"]["results"]
    assert recorded["left"] == []  # names missing files of the host, too

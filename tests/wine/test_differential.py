"""A short differential run with a fixed seed: Microsoft's shim and ours, under Wine and on Linux, with generated cases.

`make fuzz CAMPAIGN=differential` runs more. A difference that is not in `tests/parity/expected.py` fails.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.differential.generate import cases
from tests.differential.machines import Machines

SEED, CASES = 16, 12


@pytest.fixture
def machines() -> Iterator[Machines]:
    machines = Machines()
    yield machines
    machines.close()


def test_generated_cases_do_not_differ(machines: Machines) -> None:
    found = machines.run(case for _, case in cases(SEED, CASES))
    assert not found, "\n\n".join(report.text() for report in found)

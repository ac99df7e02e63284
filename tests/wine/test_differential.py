"""A short differential run with a fixed seed: Microsoft's shim and ours, under Wine and on Linux, with generated cases.

`make fuzz CAMPAIGN=differential` runs more. A difference that is not in `tests/parity/expected.py` fails.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests.differential.linux_scenarios import linux_scenarios
from tests.differential.machines import Machines
from tests.differential.scenarios import scenarios

CASES = 10


@pytest.fixture
def machines() -> Iterator[Machines]:
    machines = Machines()
    yield machines
    machines.close()


def test_generated_cases_do_not_differ(machines: Machines) -> None:
    found: list[str] = []
    cases = 0

    @seed(16)
    @settings(max_examples=2, database=None, phases=(Phase.generate,), suppress_health_check=list(HealthCheck))
    @given(st.lists(scenarios(), min_size=8, max_size=8), st.lists(linux_scenarios(), min_size=2, max_size=2))
    def run(batch: list[dict[str, Any]], linux: list[dict[str, Any]]) -> None:
        nonlocal cases
        if all(one == batch[0] for one in batch):
            return  # hypothesis begins with the simplest cases
        cases += len(batch) + len(linux)
        found.extend(machines.run(batch))
        found.extend(machines.run(linux))

    run()
    assert not found, "\n\n".join(found)
    assert cases == CASES

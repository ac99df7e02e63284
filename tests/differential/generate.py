"""All kinds of cases, and the cases of a seed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests.differential.host_process_scenarios import host_process_scenarios
from tests.differential.linux_scenarios import (
    crashing_linux_scenarios,
    failing_linux_scenarios,
    linux_pods,
    linux_scenarios,
)
from tests.differential.scenarios import crashing_scenarios, failing_scenarios, outage_scenarios, pods, scenarios

#: The tasks of one case, in sequence: a container, or a pod.
Case = list[dict[str, Any]]

#: How often each kind is generated: a Linux VM takes several times as long as a container on the host.
KINDS: dict[str, tuple[int, st.SearchStrategy[Case]]] = {
    "container": (8, scenarios()),
    "host process": (3, host_process_scenarios()),
    "pod": (3, pods()),
    "fault": (4, failing_scenarios()),
    "crash of the shim": (3, crashing_scenarios()),
    "outage of containerd": (1, outage_scenarios()),
    "Linux container": (3, linux_scenarios()),
    "Linux pod": (1, linux_pods()),
    "Linux fault": (1, failing_linux_scenarios()),
    "Linux crash of the shim": (1, crashing_linux_scenarios()),
}
#: More than a batch has.
MOST_CASES = 1000
_WEIGHTED = [name for name, (weight, _) in KINDS.items() for _ in range(weight)]



def cases(number: int, count: int) -> Iterator[tuple[str, Case]]:
    """Distinct cases of a seed, with their kinds."""
    seen: set[str] = set()
    for index in range(count):
        seed_of_case = number * MOST_CASES + index
        kind = Random(seed_of_case).choice(_WEIGHTED)
        one = _draw(KINDS[kind][1], seed_of_case)
        text = json.dumps(one, sort_keys=True)
        if text not in seen:
            seen.add(text)
            yield kind, one


def _draw(strategy: st.SearchStrategy[Case], number: int) -> Case:
    """hypothesis begins with the simplest case, then draws at random, and then changes parts of what it has drawn, so
    that cases of one run resemble each other. Only the second is used."""
    drawn: list[Case] = []

    @seed(number)
    @settings(
        max_examples=2, database=None, deadline=None, phases=(Phase.generate,), suppress_health_check=list(HealthCheck)
    )
    @given(strategy)
    def collect(one: Case) -> None:
        drawn.append(one)

    collect()
    return drawn[-1]

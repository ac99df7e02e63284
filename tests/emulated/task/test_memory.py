"""A shim keeps nothing of the execs and containers that have ended. Counts of blocks show it, not the size of the
process, which also depends on fragmentation."""

from __future__ import annotations

import json
from random import Random

import pytest

from runhcs.shims import INSPECT
from runhcs.soak.containers import SoakHost
from runhcs.soak.targets import PROBES_PER_RESTART, Target
from shim.api.inspect import InspectRequest, InspectResponse
from tests.support.eventually import eventually

#: Of a leak of one block for each probe, a quarter is allowed.
PROBES = 2 * PROBES_PER_RESTART
ALLOWED = PROBES // 4
NO_STATS = 3600.0
#: For some seconds after an exec the shim has its timeouts. Then the count is the same each time.
SAME_COUNTS = 8
INTERVAL = 0.5


def allocated_blocks(target: Target) -> int:
    request = InspectRequest(properties=True).encode()
    answer = target.shim.client.client.call(INSPECT, "Shim", request)
    return int(json.loads(InspectResponse.decode(answer).json)["allocated_blocks"])


def settled_blocks(target: Target) -> int:
    counts: list[int] = []

    def is_settled() -> bool:
        counts.append(allocated_blocks(target))
        return len(counts) >= SAME_COUNTS and len(set(counts[-SAME_COUNTS:])) == 1

    eventually(is_settled, f"the same number of blocks {SAME_COUNTS} times", interval=INTERVAL)
    return counts[-1]


@pytest.mark.parametrize("kind", ["container", "pod", "vm"])
def test_probes_and_restarts_leave_nothing_allocated(soak_host: SoakHost, kind: str) -> None:
    """The container of the pod is replaced after each forty probes."""
    target = Target(soak_host, kind, Random(1), NO_STATS)

    def run() -> None:
        for _ in range(PROBES):
            target.step()

    run()  # modules are loaded, tables have their size
    before = settled_blocks(target)
    run()
    assert settled_blocks(target) - before <= ALLOWED
    target.end()

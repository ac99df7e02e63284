"""The service keeps nothing of a compute system that has ended. Counts of blocks show it, not the size of the process,
which also depends on fragmentation."""

from __future__ import annotations

from random import Random

import pytest

from runhcs.soak.containers import SoakHost
from runhcs.soak.lifecycles import KINDS
from tests.support.emulator import Emulator
from tests.support.eventually import eventually

#: Before the first count: modules are loaded, tables have their size.
WARM_UP = 4
#: A leak of one block in each lifecycle is twice what is allowed.
LIFECYCLES = 12
ALLOWED = LIFECYCLES // 2


@pytest.mark.parametrize("kind", KINDS)
def test_lifecycle_leaves_nothing_allocated(hcs: Emulator, soak_host: SoakHost, kind: str) -> None:
    random = Random(1)

    def run(lifecycles: int) -> None:
        for _ in range(lifecycles):
            KINDS[kind][1](soak_host, random)
        eventually(lambda: not hcs.descendants(), "no process left")

    run(WARM_UP)
    before = hcs.control("memory")
    run(LIFECYCLES)

    def is_same() -> bool:
        """Polled, because what a response does not wait for may still end."""
        after = hcs.control("memory")
        return all(after[name] - before[name] <= ALLOWED for name in ("blocks", "objects"))

    eventually(is_same, f"{LIFECYCLES} lifecycles leave at most {ALLOWED} blocks and objects more than {before}", 20)

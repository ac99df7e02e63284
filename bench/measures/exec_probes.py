"""Exec probes: one container that is asked again and again whether it is well, and what its shim grows by.

Memory, descriptors and threads of the daemon after each few probes; a slope that is above nothing with confidence is
a leak.
"""

from __future__ import annotations

import time
from contextlib import ExitStack

from bench.harness import bundles
from bench.harness.context import FAILURES, Lab
from bench.harness.driver import Shim
from bench.measures.memory import figures

# Unit, what is a leak if it is exceeded per probe, and how many probes that takes to tell. Memory has a tolerance:
# allocators round up, and a collected heap takes its time to find its size.
LIMITS = {
    "RSS": ("kB", 1.0, 1000),
    "private": ("kB", 1.0, 1000),
    "descriptors": ("", 0.005, 200),
    "threads": ("", 0.005, 200),
}
# The share of probes after which growth is looked at.
SETTLED = 0.5


def measure(lab: Lab) -> None:
    probes = lab.sizes.probes
    every = max(probes // 100, 1)
    with ExitStack() as stack:
        shims = list(lab.running(stack).values())
        found = lab.session.measure("exec probe", "ms")
        for number in range(probes):
            lab.session.progress.step("exec probes", number + 1, probes)
            for shim in list(shims):
                took = lab.attempt(shim.candidate, "", probe, shim, number)
                if took is None:
                    shims.remove(shim)
                    continue
                found.add(shim.candidate.name, took)
                if number % every == 0 and number >= probes * SETTLED:
                    _note(lab, shim, number)
        for shim in shims:
            lab.end(shim)


def _note(lab: Lab, shim: Shim, number: int) -> None:
    try:
        now = figures(shim.pid)
    except FAILURES:
        return  # it has gone, which the next probe tells
    for name, (unit, limit, enough) in LIMITS.items():
        allowed = limit if lab.sizes.probes >= enough else None
        lab.session.run.trend(f"{name} of the shim", unit, "exec probe", limit=allowed).add(
            shim.candidate.name, number, now[name]
        )


def probe(shim: Shim, number: int) -> float:
    """Milliseconds, as kubelet would wait."""
    name = f"probe-{number}"
    begin = time.perf_counter()
    shim.exec(name, bundles.EXEC_ENDS)
    shim.start_task(name)
    status = shim.wait(name)
    took = (time.perf_counter() - begin) * 1e3
    shim.delete_task(name)
    if status:
        raise RuntimeError(f"a probe ended with {status}")
    return took

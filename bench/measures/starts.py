"""One cold start without a container: the `start` command and the first Connect.

This module is no measure of its own: `start_formats` and `loaded_start` run rounds of it.
"""

from __future__ import annotations

import time

from bench.harness.context import SuiteContext
from bench.harness.driver import Shim


def run_once(shim: Shim, stdin: bytes | None = None) -> dict[str, float]:
    """Milliseconds until `start` has exited, and until the response to Connect; then the shim is shut down. `delete`
    has nothing to release then, and that of containerd 1.6's shim fails without a container."""
    begin = time.perf_counter()
    shim.start(stdin)
    started = time.perf_counter()
    shim.connect()
    connected = time.perf_counter()
    shim.shut_down()
    shim.wait_exit()
    return {"start": (started - begin) * 1e3, "start to Connect": (connected - begin) * 1e3}


def add(context: SuiteContext, candidate: str, profile: str, times: dict[str, float], suffix: str = "") -> None:
    for name, milliseconds in times.items():
        context.measure(f"{name}{suffix}", "ms", profile=profile).add(candidate, milliseconds)

"""Lifecycles per second, with several containers concurrently."""

from __future__ import annotations

import threading
import time

from bench.harness.candidates import Candidate
from bench.harness.context import SuiteContext
from bench.harness.driver import Shim

MIN_LIFECYCLES = 4
REPEATS = 2


def measure(context: SuiteContext) -> None:
    series = context.run.series("lifecycles per second", "1/s", "concurrent lifecycles", kind="rate")
    for concurrency in context.sizes.concurrency:
        for candidate, _ in context.rounds(f"{concurrency} concurrent lifecycles", context.central, REPEATS, 0):
            count = max(context.sizes.lifecycles_each * concurrency, MIN_LIFECYCLES)
            rate = measure_rate(context, candidate, concurrency, count)
            if rate:
                series.add(candidate.name, concurrency, rate)


def measure_rate(context: SuiteContext, candidate: Candidate, concurrency: int, count: int) -> float:
    """Lifecycles per second; 0 if one fails."""
    remaining = iter(range(count))
    lock = threading.Lock()
    failed = threading.Event()

    def work() -> None:
        while not failed.is_set():
            with lock:
                if next(remaining, None) is None:
                    return
            if context.attempt(candidate, "", lifecycle, context, candidate) is None:
                failed.set()

    threads = [threading.Thread(target=work, daemon=True) for _ in range(concurrency)]
    begin = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return 0.0 if failed.is_set() else count / (time.perf_counter() - begin)


def lifecycle(context: SuiteContext, candidate: Candidate) -> bool:
    with Shim(candidate, context.node) as shim:
        shim.run()
        shim.stop()
    context.check_events(shim)
    return True

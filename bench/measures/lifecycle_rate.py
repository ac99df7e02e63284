"""Lives per second with several containers coming and going at once."""

from __future__ import annotations

import threading
import time

from bench.harness.candidates import Candidate
from bench.harness.context import Lab
from bench.harness.driver import Shim

FEWEST = 4
REPEATS = 2


def measure(lab: Lab) -> None:
    series = lab.session.run.series("lives per second", "1/s", "lives at once", kind="rate")
    for at_once in lab.sizes.at_once:
        for candidate, _ in lab.rounds(f"lives, {at_once} at once", lab.central, REPEATS, 0):
            rate = together(lab, candidate, at_once, max(lab.sizes.lives_each * at_once, FEWEST))
            if rate:
                series.add(candidate.name, at_once, rate)


def together(lab: Lab, candidate: Candidate, at_once: int, lives: int) -> float:
    """Lives per second; 0 if one fails."""
    left = iter(range(lives))
    lock = threading.Lock()
    failed = threading.Event()

    def work() -> None:
        while not failed.is_set():
            with lock:
                if next(left, None) is None:
                    return
            if lab.attempt(candidate, "", life, lab, candidate) is None:
                failed.set()

    threads = [threading.Thread(target=work, daemon=True) for _ in range(at_once)]
    begin = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return 0.0 if failed.is_set() else lives / (time.perf_counter() - begin)


def life(lab: Lab, candidate: Candidate) -> bool:
    with Shim(candidate, lab.node) as shim:
        shim.run()
        shim.end()
    lab.check_events(candidate, lab.node.events.settle(shim.id))
    return True

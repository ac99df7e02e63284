"""`python -m tests.fuzz CAMPAIGN [--steps N] [--seed S] [--log FILE] [--pause FILE]`: run a campaign until it has made
so many steps.

A campaign runs batches, each with a seed of its own (S, S+1 …), so that a batch that fails can be repeated alone:
`--seed` with the number that the failure names, and `--steps 1`. With a log an interrupted campaign continues: its
steps count, and the next seed is the one after the last.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from pathlib import Path

from tests.fuzz.campaigns import CAMPAIGNS
from tests.fuzz.log import CampaignLog

LONGEST_PAUSE = 3600.0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("campaign", choices=[*CAMPAIGNS, "all"])
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--log", type=Path, default=None, help="where batches are recorded, to continue later")
    parser.add_argument("--pause", type=Path, default=None, help="no batch begins while this file exists")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a campaign in the background cleans up, too
    names = list(CAMPAIGNS) if arguments.campaign == "all" else [arguments.campaign]
    for name in names:
        log = CampaignLog(arguments.log, name)
        seed = log.next_seed(arguments.seed)
        with CAMPAIGNS[name]() as run_batch:
            while log.steps < arguments.steps:
                wait_while_paused(arguments.pause)
                begun = time.monotonic()
                try:
                    steps = run_batch(seed)
                except BaseException:
                    print(f"{name}: failed with --seed {seed} after {log.steps} steps", file=sys.stderr, flush=True)
                    raise
                log.add(seed, steps, time.monotonic() - begun)
                seed += 1
                print(f"{name}: {log.steps} steps, {log.seconds:.0f} s, next seed {seed}", flush=True)
    return 0


def wait_while_paused(file: Path | None) -> None:
    """For a machine that is also used for measurements. The wait is bounded, in case the file is left behind."""
    deadline = time.monotonic() + LONGEST_PAUSE
    while file is not None and file.exists() and time.monotonic() < deadline:
        time.sleep(0.1)


if __name__ == "__main__":
    sys.exit(main())

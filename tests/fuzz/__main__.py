"""`python -m tests.fuzz CAMPAIGN [--steps N] [--seed S]`: run a campaign until it has made that many steps.

A campaign runs batches, each with a seed of its own (S, S+1 …), so that a batch that fails can be repeated alone:
`--seed` with the number that the failure names, and `--steps 1`.
"""

from __future__ import annotations

import argparse
import sys
import time

from tests.fuzz.campaigns import CAMPAIGNS


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("campaign", choices=[*CAMPAIGNS, "all"])
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    names = list(CAMPAIGNS) if arguments.campaign == "all" else [arguments.campaign]
    for name in names:
        begun, steps, seed = time.monotonic(), 0, arguments.seed
        with CAMPAIGNS[name]() as run_batch:
            while steps < arguments.steps:
                try:
                    steps += run_batch(seed)
                except BaseException:
                    print(f"{name}: failed with --seed {seed} after {steps} steps", file=sys.stderr, flush=True)
                    raise
                seed += 1
                print(f"{name}: {steps} steps, {time.monotonic() - begun:.0f} s, next seed {seed}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

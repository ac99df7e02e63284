"""Release what one dead shim leaked, in a process of its own: `python -m runhcs.gc_worker`, run by `runhcs gc`.

The HCS library of a process stays with the instance that it first used, and dead shims may have used several
(HCS_EMULATOR_DIR is set for each): hence one process per ledger. Prints a JSON list of what could not be released.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time

from shim.container.cleanup import release_system
from shim.container.ledger import Ledger

# Ledger entries that HCS did not create.
HOST_KINDS = ("mount", "mount_point", "job", "user")


def release_ledger(bundle: str, seconds: float, hcs_is_gone: bool) -> list[str]:
    """With `hcs_is_gone` the emulator has exited and its resources with it; only those of the host remain."""
    held = Ledger(bundle)
    if hcs_is_gone:
        for entry in held.entries():
            if entry.kind not in HOST_KINDS:
                held.mark_released(entry)
    failures = [str(failure) for failure in held.release_all(seconds)]
    if not failures:
        try:
            os.unlink(held.path)
        except FileNotFoundError:
            pass
    return failures


def main() -> int:
    parser = argparse.ArgumentParser(prog="runhcs.gc_worker", description=__doc__)
    parser.add_argument("--bundle", default="")
    parser.add_argument("--system", default="")
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--hcs-is-gone", action="store_true")
    args = parser.parse_args()
    try:
        failures = release_ledger(args.bundle, args.seconds, args.hcs_is_gone) if args.bundle else []
        if args.system:
            release_system({"id": args.system}, time.monotonic() + args.seconds)
    except Exception as error:
        failures = [str(error)]
    print(json.dumps(failures), flush=True)
    os._exit(0)  # do not wait for a cleanup step that hangs


if __name__ == "__main__":
    sys.exit(main())

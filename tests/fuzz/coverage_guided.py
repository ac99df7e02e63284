"""`python -m tests.fuzz.coverage_guided PARSER RUNS SEED CORPUS [SECONDS]`: one parser with atheris, in a process of
its own, until it has run so many inputs, or for so long.

New inputs that reach new code are added to the directory CORPUS. A finding ends the process with a traceback and leaves
`crash-…` in the current directory.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path


def main(name: str, runs: str, seed: str, corpus: str, seconds: str = "0") -> None:
    import atheris

    with atheris.instrument_imports(include=["shim", "hcs_emulator", "runhcs"]):
        from tests.fuzz.parsers import PARSERS
    from tests.fuzz.seeds import inputs

    Path(corpus).mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(inputs(name)):
        Path(corpus, f"seed-{number}").write_bytes(data)
    atheris.Setup([sys.argv[0], f"-runs={runs}", f"-seed={seed}", "-max_len=4096", "-rss_limit_mb=2048", "-timeout=30",
                   f"-max_total_time={seconds}", "-print_final_stats=1", "-verbosity=0", corpus],
                  PARSERS[name])  # fmt: skip
    atheris.Fuzz()


def is_available() -> bool:
    return importlib.util.find_spec("atheris") is not None


if __name__ == "__main__":
    main(*sys.argv[1:])

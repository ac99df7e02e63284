"""`runhcs bench`: the benchmark suite, with the arguments of `python -m bench`."""

from __future__ import annotations


def main(arguments: list[str]) -> int:
    from bench.__main__ import main as bench_main

    return bench_main(arguments, prog="runhcs bench")

"""Throughput of the stdio relay alone, from a pipe to a FIFO (`stdout_throughput` measures a whole shim).

Our relay (splice, enlarged pipes) against a Go program that copies 32 KiB at a time, as Go shims do. One process
writes, one reads; a round ends when the reader has everything.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.harness.context import RunContext
from bench.harness.go_programs import interop_program
from bench.harness.sizes import count
from bench.report.results import CandidateInfo

GO = "Go, 32 KiB copies"
OURS = "shim relay"


def once(relay: list[str], fifo: Path, size: int) -> float:
    """MiB per second."""
    fifo.unlink(missing_ok=True)
    os.mkfifo(fifo)
    dd = ["dd", "bs=1M", f"count={size}", "status=none", "iflag=fullblock"]
    both_ends = os.open(fifo, os.O_RDWR)  # so that neither open blocks
    try:
        reader = subprocess.Popen([*dd, f"if={fifo}", "of=/dev/null"])
        begin = time.perf_counter()
        writer = subprocess.Popen([*dd, "if=/dev/zero"], stdout=subprocess.PIPE)
        assert writer.stdout is not None
        with open(fifo, "wb", 0) as sink:
            relaying = subprocess.Popen(relay, stdin=writer.stdout, stdout=sink)
        writer.stdout.close()
        if reader.wait(300) or writer.wait(60) or relaying.wait(60):
            raise RuntimeError("a process of the measure failed")
        return size / (time.perf_counter() - begin)
    finally:
        os.close(both_ends)


def measure(context: RunContext, arguments: argparse.Namespace) -> None:
    program = interop_program("measure relay_throughput")
    relays = {GO: [str(program), "pump"], OURS: [sys.executable, "-m", "bench.measures.relay_process"]}
    found = context.measure("relay from a pipe to a FIFO", "MiB/s", "throughput", baseline=GO)
    context.run.add_candidate(CandidateInfo(GO))
    context.run.add_candidate(CandidateInfo(OURS, subject=True))
    with tempfile.TemporaryDirectory(prefix="bench-relay-") as directory:
        for name, is_kept in context.rounds("relay", list(relays), arguments.rounds):
            value = once(relays[name], Path(directory, "fifo"), arguments.size)
            if is_kept:
                found.add(name, value)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rounds", type=count(), default=5, help="rounds of each candidate (default 5)")
    parser.add_argument("--size", type=count(), default=1024, help="MiB per round (default 1024)")

"""A process's output on its way to the client: bytes per second through the relay alone, from a pipe to a FIFO.

Our relay (splice, grown pipes) against a Go program that copies through 32 KiB as Go's shims do. One process writes,
one reads; what is measured is when the reader has everything.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.harness.go_programs import interop_program
from bench.harness.session import Session

GO = "Go, 32 KiB copies"
OURS = "shim relay"


def once(pump: list[str], fifo: Path, size: int) -> float:
    """Megabytes per second."""
    fifo.unlink(missing_ok=True)
    os.mkfifo(fifo)
    count = ["dd", "bs=1M", f"count={size}", "status=none", "iflag=fullblock"]
    held = os.open(fifo, os.O_RDWR)  # nobody waits for the other to open
    try:
        reader = subprocess.Popen([*count, f"if={fifo}", "of=/dev/null"])
        begin = time.perf_counter()
        writer = subprocess.Popen([*count, "if=/dev/zero"], stdout=subprocess.PIPE)
        assert writer.stdout is not None
        with open(fifo, "wb", 0) as sink:
            pumping = subprocess.Popen(pump, stdin=writer.stdout, stdout=sink)
        writer.stdout.close()
        if reader.wait(300) or writer.wait(60) or pumping.wait(60):
            raise RuntimeError("a process of the measure failed")
        return size / (time.perf_counter() - begin)
    finally:
        os.close(held)


def measure(session: Session, arguments: argparse.Namespace) -> None:
    program = interop_program()
    pumps = {GO: [str(program), "pump"], OURS: [sys.executable, "-m", "bench.measures.relay_process"]}
    found = session.measure("relay from a pipe to a FIFO", "MiB/s", "throughput", baseline=GO)
    session.run.about(GO)
    session.run.about(OURS).subject = True
    with tempfile.TemporaryDirectory(prefix="bench-stdio-") as directory:
        for name, kept in session.rounds("relay", list(pumps), arguments.rounds):
            value = once(pumps[name], Path(directory, "fifo"), arguments.size)
            if kept:
                found.add(name, value)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each candidate (default 5)")
    parser.add_argument("--size", type=int, default=1024, help="MiB of a round (default 1024)")

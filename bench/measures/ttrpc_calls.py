"""Unary calls to the ttrpc server alone by Go's client: latency and rate (`state_calls` measures whole shims).

Our server, with the handler in the reading thread, against Go's ttrpc server with the same method; one caller and
sixteen, on one connection.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from bench.harness.context import RunContext
from bench.harness.go_programs import interop_program, ttrpc_calls, ttrpc_server
from bench.harness.sizes import count
from bench.report.results import CandidateInfo

GO = "Go ttrpc server"
OURS = "shim/ttrpc"
CALLERS = 16


def measure(context: RunContext, arguments: argparse.Namespace) -> None:
    program = interop_program("measure ttrpc_calls")
    latency = context.measure("unary call, 1 caller", "us", baseline=GO)
    rate = context.measure(f"unary calls, {CALLERS} callers", "1/s", "rate", baseline=GO)
    context.run.add_candidate(CandidateInfo(GO))
    context.run.add_candidate(CandidateInfo(OURS, subject=True))
    with tempfile.TemporaryDirectory(prefix="bench-ttrpc-") as directory, ExitStack() as servers:
        paths = {GO: Path(directory, "go"), OURS: Path(directory, "ours")}
        servers.enter_context(ttrpc_server([str(program), "serve"], paths[GO]))
        servers.enter_context(ttrpc_server([sys.executable, "-m", "bench.measures.ttrpc_server"], paths[OURS]))
        for name, is_kept in context.rounds("unary calls", list(paths), arguments.rounds):
            one = ttrpc_calls(program, paths[name], 1, arguments.calls)
            many = ttrpc_calls(program, paths[name], CALLERS, arguments.calls * 4)
            if is_kept:
                latency.add(name, one["p50_us"])
                rate.add(name, many["rate"])


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rounds", type=count(), default=7, help="rounds of each candidate (default 7)")
    parser.add_argument("--calls", type=count(), default=5000, help="calls per round with one caller (default 5000)")

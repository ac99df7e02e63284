"""Unary ttrpc calls: latency of one caller and rate of sixteen, on one connection, made by Go's client.

Our server, with the handler in the reading thread, against Go's own ttrpc server with the same method.
"""

from __future__ import annotations

import argparse
import json
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench.harness.go_programs import interop_program
from bench.harness.session import Session

GO = "Go ttrpc server"
OURS = "shim/ttrpc"


def listens(path: Path) -> bool:
    """A socket's file is there before anybody listens at it."""
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(str(path)) == 0


@contextmanager
def server(command: list[str], path: Path) -> Iterator[None]:
    process = subprocess.Popen([*command, str(path)], stdin=subprocess.PIPE)
    try:
        deadline = time.monotonic() + 20
        while not listens(path):
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{command[0]} does not listen")
            time.sleep(0.01)
        yield
    finally:
        process.terminate()
        process.wait(20)
        assert process.stdin is not None
        process.stdin.close()


def calls(program: Path, path: Path, callers: int, count: int, *method: str) -> dict[str, float]:
    """`method`: service, method and the request's field 1, where it is not the echo of the interop server."""
    done = subprocess.run(
        [program, "bench", path, str(callers), str(count), *method], stdout=subprocess.PIPE, check=True, timeout=300
    )
    result: dict[str, float] = json.loads(done.stdout)
    return result


def measure(session: Session, arguments: argparse.Namespace) -> None:
    program = interop_program()
    latency = session.measure("unary call, 1 caller", "us", baseline=GO)
    rate = session.measure("unary calls, 16 callers", "1/s", "rate", baseline=GO)
    session.run.about(GO)
    session.run.about(OURS).subject = True
    with tempfile.TemporaryDirectory(prefix="bench-rpc-") as directory, ExitStack() as running:
        paths = {GO: Path(directory, "go"), OURS: Path(directory, "ours")}
        running.enter_context(server([str(program), "serve"], paths[GO]))
        running.enter_context(server([sys.executable, "-m", "bench.measures.ttrpc_server"], paths[OURS]))
        for name, kept in session.rounds("unary calls", list(paths), arguments.rounds):
            one = calls(program, paths[name], 1, arguments.calls)
            many = calls(program, paths[name], 16, arguments.calls * 4)
            if kept:
                latency.add(name, one["p50_us"])
                rate.add(name, many["rate"])


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rounds", type=int, default=7, help="rounds of each candidate (default 7)")
    parser.add_argument("--calls", type=int, default=5000, help="calls of a round with one caller (default 5000)")

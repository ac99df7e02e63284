"""The cost of measuring itself: a command that does nothing, and a call that returns at once.

Both use the code that runs and calls shims, so they are the lower limit of every latency.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.harness.context import SuiteContext
from bench.harness.driver import read_output, reap
from bench.harness.go_programs import ttrpc_server
from shim.api.wire import put_bytes
from shim.ttrpc.client import Client

COMMANDS = 30
CALLS = 300


def measure(context: SuiteContext) -> None:
    context.progress.stage("harness cost")
    for _ in range(COMMANDS):
        value = command_ms(context.node.environment)
        context.run.harness_cost("harness: a command that does nothing (true)", "ms", value)
    with tempfile.TemporaryDirectory(prefix="bench-", dir="/tmp") as directory:
        path = Path(directory, "s")
        with ttrpc_server([sys.executable, "-m", "bench.measures.ttrpc_server"], path):
            for value in calls_ms(path):
                context.run.harness_cost("harness: a call that does nothing (echo)", "ms", value)


def command_ms(environment: dict[str, str]) -> float:
    begin = time.perf_counter()
    process = subprocess.Popen(
        ["/bin/true"], env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        cwd=os.sep, process_group=0,
    )  # fmt: skip
    read_output(process)
    reap(process)
    return (time.perf_counter() - begin) * 1e3


def calls_ms(path: Path) -> list[float]:
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(str(path))
    client = Client(connection)
    request = put_bytes(b"\n", b"x" * 20)
    times = []
    try:
        for _ in range(CALLS):
            begin = time.perf_counter()
            client.call("interop.Service", "Echo", request, timeout=20)
            times.append((time.perf_counter() - begin) * 1e3)
    finally:
        client.close()
    return times

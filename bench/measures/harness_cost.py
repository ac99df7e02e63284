"""What measuring itself costs: a command that does nothing, and a call that is answered at once.

Both are taken by the very code that runs and calls shims, so they are the floor that every figure stands on.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.harness.context import Lab
from bench.harness.driver import read_output, reap
from bench.measures.ttrpc_calls import server
from shim.api.wire import put_bytes
from shim.ttrpc.client import Client

COMMANDS = 30
CALLS = 300


def measure(lab: Lab) -> None:
    lab.session.progress.say("harness")
    for _ in range(COMMANDS):
        lab.session.run.cost("harness: a command that does nothing (true)", "ms", command_ms(lab.node.environment))
    with tempfile.TemporaryDirectory(prefix="bench-", dir="/tmp") as directory:
        path = Path(directory, "s")
        with server([sys.executable, "-m", "bench.measures.ttrpc_server"], path):
            for value in calls_ms(path):
                lab.session.run.cost("harness: a call that does nothing (echo)", "ms", value)


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

"""What Wine itself costs: the least that a call, a process and a thread cost any shim, by programs in C.

This module is no measure of its own: `wine` and `wine_scaling` report these as costs of the harness.
"""

from __future__ import annotations

import select
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.harness.context import RunContext
from bench.measures.wine_driver import wine_processes
from runhcs.process_stats import process_stats
from runhcs.task_client import TASK_V2
from shim.api.task import StateRequest
from shim.ttrpc.core import REQUEST, encode_frame
from shim.ttrpc.envelope import encode_request, encode_route

SOURCE = Path(__file__).with_name("wine_program.c")
PROGRAM = r"C:\bench\wine_program.exe"
CALLERS = 16
ROUNDS = 5
CALLS = 300
PROCESSES = 10
THREADS = 40
TIMEOUT = 60.0


class ProgramError(Exception):
    """A run of the program failed."""


def build_program(machine: Any) -> None:
    directory = machine.drive / "bench"
    directory.mkdir(exist_ok=True)
    command = ["x86_64-w64-mingw32-gcc", "-O2", "-s", "-mconsole", str(SOURCE)]
    subprocess.run([*command, "-o", str(directory / "wine_program.exe")], check=True)


def measure(context: RunContext, machine: Any) -> None:
    for number in range(ROUNDS):
        context.progress.step("costs of Wine", number + 1, ROUNDS)
        _add(context, "a call", "us", 1e6 / _rate(machine, 1))
        _add(context, f"calls of {CALLERS} callers", "1/s", _rate(machine, CALLERS))
        _add(context, "a process, from CreateProcess to its exit", "ms", run(machine, "spawn", str(PROCESSES)))
    none, many = (_private_memory(machine, count) for count in (0, THREADS))
    _add(context, "an idle thread, private memory", "kB", (many - none) / THREADS)


def _add(context: RunContext, name: str, unit: str, value: float) -> None:
    context.run.harness_cost(f"Wine: {name}", unit, value, note="programs in C")


def _rate(machine: Any, callers: int) -> float:
    pipes = [rf"\\.\pipe\bench-server-{number}" for number in range(callers)]
    with _running(machine, "serve", *pipes):
        return call(machine, [(pipe, "x") for pipe in pipes], callers, CALLS)


def _private_memory(machine: Any, threads: int) -> float:
    with _running(machine, "threads", str(threads)):
        (pid,) = wine_processes(machine.prefix, PROGRAM, "threads")
        return process_stats(pid)["private"]


def call(machine: Any, tasks: Sequence[tuple[str, str]], callers: int, calls: int) -> float:
    """State calls per second of concurrent callers, each of which calls all tasks in turn: pipe and id of each."""
    lines = []
    for pipe, task in tasks:
        request = encode_request(encode_route(TASK_V2, "State"), StateRequest(id=task).encode())
        lines.append(f"{pipe} {encode_frame(1, REQUEST, 0, request).hex()}\n")
    (machine.drive / "bench" / "tasks").write_text("".join(lines))
    return run(machine, "calls", str(callers), str(calls), r"C:\bench\tasks")


def run(machine: Any, *words: str) -> float:
    """The number that the program prints. Raises ProgramError."""
    done = machine.run(PROGRAM, *words)
    text = done.stdout.decode(errors="replace").strip()
    if done.returncode:
        raise ProgramError(f"{words[0]} failed with {done.returncode}: {text}")
    return float(text)


@contextmanager
def _running(machine: Any, *words: str) -> Iterator[None]:
    """The program, once it is ready. It exits by itself at the end of its stdin, or when its clients have left."""
    running = subprocess.Popen(
        ["wine", PROGRAM, *words], env=machine.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    assert running.stdin is not None and running.stdout is not None
    try:
        if not select.select([running.stdout], [], [], TIMEOUT)[0] or running.stdout.readline().strip() != b"ready":
            raise ProgramError(f"{words[0]} is not ready")
        yield
        running.stdin.close()
        running.wait(TIMEOUT)
    finally:
        running.kill()
        running.wait()
        running.stdout.close()

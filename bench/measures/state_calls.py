"""Calls that a shim answers from memory, made by Go's ttrpc client as containerd makes them: latency and rate.

State of a running container, by one caller and by sixteen on one connection, of shims as they are.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from bench.harness.candidates import Candidate
from bench.harness.context import Lab
from bench.harness.driver import Shim
from bench.harness.go_programs import interop_program
from bench.measures.ttrpc_calls import calls

CALLERS = 16
CALLS = 2000


def measure(lab: Lab) -> None:
    try:
        program = interop_program()
    except FileNotFoundError as error:
        lab.session.run.settings["calls"] = f"left out: {error}"
        return
    with ExitStack() as stack:
        shims = lab.running(stack)
        able = [shim.candidate for shim in shims.values()]
        for candidate, kept in lab.rounds("calls", able, lab.sizes.call_rounds, 1):
            found = lab.attempt(candidate, "", ask, program, shims[candidate.name])
            if kept and found is not None:
                _enter(lab, candidate, *found)
        for shim in shims.values():
            lab.end(shim)


def ask(program: Path, shim: Shim) -> tuple[float, float, float]:
    """Median latency in microseconds of one caller, calls per second of many, and CPU microseconds of the shim per call
    of many."""
    path, method = Path(shim.endpoint.path), (shim.endpoint.service, "State", shim.id)
    one = calls(program, path, 1, CALLS, *method)
    before = shim.cpu()
    many = calls(program, path, CALLERS, CALLS * 4, *method)
    return one["p50_us"], many["rate"], (shim.cpu() - before) / (CALLS * 4) * 1e6


def _enter(lab: Lab, candidate: Candidate, latency: float, rate: float, cpu: float) -> None:
    lab.session.measure("State, 1 caller", "us").add(candidate.name, latency)
    lab.session.measure(f"State, {CALLERS} callers", "1/s", "rate").add(candidate.name, rate)
    lab.session.measure(f"CPU per call, {CALLERS} callers", "us", "cpu").add(candidate.name, cpu)

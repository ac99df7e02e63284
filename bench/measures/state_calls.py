"""State calls to whole shims by Go's ttrpc client: latency and rate (`ttrpc_calls` measures the ttrpc server alone).

State of a running container, which a shim answers from memory, by one caller and by sixteen on one connection.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from bench.harness.candidates import Candidate
from bench.harness.context import SuiteContext
from bench.harness.driver import Shim
from bench.harness.go_programs import interop_program, ttrpc_calls

CALLERS = 16
CALLS = 2000


def measure(context: SuiteContext) -> None:
    program = interop_program("measure state_calls")
    with ExitStack() as stack:
        shims = context.running_shims(stack)
        candidates = [shim.candidate for shim in shims.values()]
        for candidate, is_kept in context.rounds("State calls", candidates, context.sizes.call_rounds, 1):
            found = context.attempt(candidate, "", call_state, program, shims[candidate.name])
            if is_kept and found is not None:
                _add_results(context, candidate, *found)
        for shim in shims.values():
            context.stop_shim(shim)


def call_state(program: Path, shim: Shim) -> tuple[float, float, float]:
    """Median latency in microseconds of one caller, calls per second of many, and CPU microseconds of the shim per call
    of many."""
    path, method = Path(shim.endpoint.path), (shim.endpoint.service, "State", shim.id)
    one = ttrpc_calls(program, path, 1, CALLS, *method)
    before = shim.cpu()
    many = ttrpc_calls(program, path, CALLERS, CALLS * 4, *method)
    return one["p50_us"], many["rate"], (shim.cpu() - before) / (CALLS * 4) * 1e6


def _add_results(context: SuiteContext, candidate: Candidate, latency: float, rate: float, cpu: float) -> None:
    context.measure("State, 1 caller", "us").add(candidate.name, latency)
    context.measure(f"State, {CALLERS} callers", "1/s", "rate").add(candidate.name, rate)
    context.measure(f"CPU per call, {CALLERS} callers", "us", "cpu").add(candidate.name, cpu)

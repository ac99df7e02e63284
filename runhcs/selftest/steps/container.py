"""A process-isolated container."""

from __future__ import annotations

from collections.abc import Callable

from runhcs.selftest import scenarios
from runhcs.selftest.runner import Context, Step, StepFailed
from runhcs.selftest.scenarios import EXECS, INPUT_LINES, LINES, Observation, expect


def _step(name: str, verifies: str, check: Callable[[Observation], str], timeout: float = 120.0) -> Step:
    def run(context: Context) -> str:
        observed = scenarios.SCENARIOS[name](context, context.node.new_id(name), "")
        context.details["observed"] = observed
        context.node.recording.scenarios[name] = observed
        return check(observed)

    return Step(f"container-{name}", verifies, run, timeout)


def _lifecycle(observed: Observation) -> str:
    expect(observed, {
        "stdout": "out", "stderr": "err", "exit status": 3, "deleted": 3, "states": ["created", "stopped"],
        "has pid": True, "events": ["create", "start", "exit", "delete"],
    })  # fmt: skip
    return "output on both streams, exit status 3, four events, nothing left"


def _large_output(observed: Observation) -> str:
    expect(observed, {"exit status": 0, "lines": LINES, "intact": True})
    return f"{LINES} lines of 1 KB on stdout"


def _stdin(observed: Observation) -> str:
    expect(observed, {"exit status": 0, "lines": INPUT_LINES, "intact": True})
    return f"{INPUT_LINES} lines of 1 KB on stdin, then EOF"


def _execs(observed: Observation) -> str:
    expect(observed, {"exit statuses": [7], "count": EXECS, "state": "running"})
    if not observed["early delete"]:
        raise StepFailed("Delete of a running container is not refused")
    return f"{EXECS} execs exit with 7 while the container runs"


def _signals(observed: Observation) -> str:
    expect(observed, {"state": "running"})
    for name in ("killed exec", "terminated"):
        if observed[name] == 0:
            raise StepFailed(f"{name}: the exit status is 0 although the process was stopped by a signal")
    if not observed["missing exec"]:
        raise StepFailed("Kill of an exec that does not exist is not refused")
    return "SIGKILL stops an exec, SIGTERM stops the container"


def _failures(observed: Observation) -> str:
    for name in ("second create", "start"):
        if not observed[name]:
            raise StepFailed(f"{name} is not refused")
    return f"a missing program: {observed['start'][:80]}"


STEPS = [
    _step("lifecycle", "a container runs, prints, exits with its code, and nothing is left", _lifecycle),
    _step("large-output", "10 MB of stdout arrive complete", _large_output),
    _step("stdin", "1 MB of stdin and its end reach a process", _stdin),
    _step("execs", f"{EXECS} execs in a running container return their exit code", _execs, 180.0),
    _step("signals", "signals stop a container and an exec", _signals),
    _step("failures", "a program that does not exist and calls in the wrong order are refused", _failures),
]

"""A process-isolated container."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable

from runhcs.selftest import scenarios
from runhcs.selftest.runner import Context, Step, StepFailed
from runhcs.selftest.scenarios import EXECS, INPUT_LINES, LINES, Observation, expect
from runhcs.selftest.shim_driver import ShimDriver
from shim.hcs_bindings.system import ComputeSystem
from shim.platform import host
from shim.platform.hcs_library import close_handle


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
    return f"a missing program: {observed['start']['text'][:80]}"


def stdio_handles(context: Context) -> str:
    """The pump needs pipes whose reads do not block: overlapped handles on Windows, descriptors on Linux."""
    shim = ShimDriver(context, context.node.new_id("handles"), scenarios.windows_spec(scenarios.FOREVER))
    shim.create().start()
    parameters = {
        "CommandLine": f"cmd /c {scenarios.FOREVER}", "WorkingDirectory": "C:\\", "CreateStdInPipe": True,
        "CreateStdOutPipe": True, "CreateStdErrPipe": True,
    }  # fmt: skip
    with ComputeSystem.open(shim.id) as system, system.create_process(parameters) as process:
        handles = {"stdin": process.stdin, "stdout": process.stdout, "stderr": process.stderr}
        try:
            kinds = {name: _handle_kind(name, handle or 0) for name, handle in handles.items()}
        finally:
            process.terminate()
            for handle in handles.values():
                if handle:
                    close_handle(handle)
    context.details["kinds"] = kinds
    context.node.recording.queries.append({"call": "HcsCreateProcess", "query": "stdio handles", "answer": kinds})
    wrong = [f"{name} is {kind}" for name, kind in kinds.items() if kind not in ("pipe", "overlapped pipe")]
    if wrong:
        raise StepFailed("; ".join(wrong), "report the build: Kill and Delete can block on such a handle")
    return ", ".join(f"{name}: {kind}" for name, kind in kinds.items())


def _handle_kind(name: str, handle: int) -> str:
    if not host.IS_EMULATED:
        from runhcs.selftest import windows

        return str(windows.handle_kind(handle, reads=name != "stdin"))
    mode = os.fstat(handle).st_mode
    return "pipe" if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) else stat.filemode(mode)


STEPS = [
    _step("lifecycle", "a container runs, prints, exits with its code, and nothing is left", _lifecycle),
    _step("large-output", "10 MB of stdout arrive complete", _large_output),
    _step("stdin", "1 MB of stdin and its end reach a process", _stdin),
    _step("execs", f"{EXECS} execs in a running container return their exit code", _execs, 180.0),
    _step("signals", "signals stop a container and an exec", _signals),
    Step("container-handles", "HCS returns pipes for stdio that can be read without blocking", stdio_handles),
    _step("failures", "a program that does not exist and calls in the wrong order are refused", _failures),
]

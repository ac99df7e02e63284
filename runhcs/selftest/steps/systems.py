"""Calls on a compute system that its state does not allow, with the code of each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from runhcs.selftest.runner import Context, Step, StepFailed
from runhcs.selftest.scenarios import FOREVER, SIGKILL, windows_spec
from runhcs.selftest.shim_driver import ShimDriver
from shim.hcs_bindings.errors import HcsError
from shim.hcs_bindings.system import ComputeSystem

CALL_SECONDS = 30.0
EMPTY = {"SchemaVersion": {"Major": 2, "Minor": 1}, "Owner": "selftest", "Container": {}}
MISSING_PROGRAM = {"CommandLine": "no-such-program.exe", "WorkingDirectory": "C:\\"}
PROGRAM = {"CommandLine": "cmd /c exit 0", "WorkingDirectory": "C:\\"}
UNKNOWN_RESOURCE = {"ResourcePath": "Container/NoSuchResource", "RequestType": "Update", "Settings": {}}
NO_PROCESS = 0x7FFFFFF0

Calls = dict[str, Callable[[], Any]]


def _while_running(system: ComputeSystem) -> Calls:
    return {
        "create a system with the id of another": lambda: ComputeSystem.create(system.id, EMPTY, CALL_SECONDS),
        "start a running system": lambda: system.start(timeout=CALL_SECONDS),
        "resume a running system": lambda: system.resume(timeout=CALL_SECONDS),
        "modify an unknown resource": lambda: system.modify(UNKNOWN_RESOURCE, CALL_SECONDS),
        "open a missing process": lambda: system.open_process(NO_PROCESS),
        "create a process of a missing program": lambda: system.create_process(MISSING_PROGRAM, CALL_SECONDS),
    }


def _after_exit(system: ComputeSystem) -> Calls:
    return {
        "start an exited system": lambda: system.start(timeout=CALL_SECONDS),
        "create a process in an exited system": lambda: system.create_process(PROGRAM, CALL_SECONDS),
        "pause an exited system": lambda: system.pause(timeout=CALL_SECONDS),
        "modify an exited system": lambda: system.modify(UNKNOWN_RESOURCE, CALL_SECONDS),
        "query an exited system": lambda: system.properties("Memory", timeout=CALL_SECONDS),
        "open an exited system": lambda: ComputeSystem.open(system.id).close(),
    }


def _run(calls: Calls) -> dict[str, str]:
    codes = {}
    for name, call in calls.items():
        try:
            opened = call()
        except HcsError as error:
            codes[name] = f"0x{error.code:08X}"
            continue
        codes[name] = "0x00000000"
        if hasattr(opened, "close"):
            opened.close()
    return codes


def systems(context: Context) -> str:
    shim = ShimDriver(context, context.node.new_id("systems"), windows_spec(FOREVER))
    task = shim.create()
    task.start()
    with ComputeSystem.open(shim.id) as system:
        codes = _run(_while_running(system))
        task.kill(SIGKILL)
        task.wait()
        system.terminate()
        system.wait_exit(CALL_SECONDS)
        codes |= _run(_after_exit(system))
    task.delete()
    shim.shutdown()
    context.details["codes"] = codes
    context.node.recording.systems += [{"call": name, "result": code} for name, code in codes.items()]
    accepted = [name for name, code in codes.items() if code == "0x00000000" and not name.startswith("open an exited")]
    if accepted:
        raise StepFailed(f"HCS accepts: {', '.join(accepted)}", "report the build; see --json for the codes")
    return f"{len(codes)} calls are refused, each with a code"


STEPS = [Step("systems", "HCS refuses calls that the state of a system does not allow", systems, 240.0)]

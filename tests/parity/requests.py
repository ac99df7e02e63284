"""The requests of the recordings as messages."""

from __future__ import annotations

import re
from typing import Any

from shim.api.runhcs_options import Options
from shim.api.wellknown import Any as PackedAny

# The defaults of the driver of the recordings, where a step has no argument.
EXEC = {
    "args": ["C:\\tool.exe", "exit", "7"],
    "cwd": "C:\\",
    "env": ["A=b"],
    "user": {"username": "ContainerUser"},
}
UPDATE = {"memory": {"limit": 256 << 20}, "cpu": {"maximum": 5000}}
INPUT = b"line one\nline two\n"
SIZE = (120, 40)
# What the driver under Wine prints before the name of the file with results.
DONE = "recorded"
# Between the two steps of `pair`.
PAIR = "&"
DELAY_SECONDS = 30
SLOW_SECONDS = 0.5
UPDATE_TYPES = {
    "WindowsResources": "types.containerd.io/opencontainers/runtime-spec/1/WindowsResources",
    "LinuxResources": "types.containerd.io/opencontainers/runtime-spec/1/LinuxResources",
    "Process": "types.containerd.io/opencontainers/runtime-spec/1/Process",
    "ContainerMount": "github.com/Microsoft/hcsshim/pkg/ctrdtaskapi/ContainerMount",
}


def options(given: dict[str, Any] | None) -> PackedAny | None:
    """Runtime options by their JSON names."""
    if given is None:
        return None
    values = {re.sub(r"(?<=[a-z])([A-Z])", r"_\1", name).lower(): value for name, value in given.items()}
    for enumeration in ("sandbox_isolation", "debug_type"):
        if enumeration in values:
            kind = Options.SandboxIsolation if enumeration == "sandbox_isolation" else Options.DebugType
            values[enumeration] = getattr(kind, values[enumeration])
    names = {name.lower(): name for name in Options.__slots__}
    message = Options(**{names[name]: value for name, value in values.items()})
    return PackedAny(type_url=Options.FULL_NAME, value=message.encode())


def fault(text: str) -> dict[str, Any]:
    """A fault of a case, for the emulator: `CALL=CODE` fails the first such call; for a request of a Linux guest,
    `CALL=crash` and `CALL=delay`. `CALL=slow` delays less than any timeout. `@2` at the end means the second one."""
    call, _, effect = text.partition("=")
    effect, _, number = effect.partition("@")
    given: dict[str, Any] = {"call": call, "nth": int(number or 1)}
    if effect == "crash":
        return {**given, "crash_vm": True}
    if effect == "delay":
        return {**given, "delay": DELAY_SECONDS}
    if effect == "slow":
        return {**given, "delay": SLOW_SECONDS}
    return {**given, "error": int(effect, 16)}

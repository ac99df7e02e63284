"""Defects of Microsoft's shim, each with a case that shows it: docs/findings.md explains them.

`python -m tests.differential.findings [NAME …]` runs the cases with Microsoft's unmodified shim under Wine and prints
its responses, whether the defect shows, and the compute systems that are left. It has the prerequisites of tests/wine.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

from tests.differential.host_process_scenarios import HOST_PROCESS, INHERIT_USER
from tests.differential.scenarios import plain
from tests.differential.sequences import HOST_USER, WINDOWS
from tests.differential.wine_lane import WineLane
from tests.parity import lcow_specs
from tests.parity.record import MICROSOFT, rootfs
from tests.parity.scenarios import EXEC, FOREVER, HYPERVISOR, SLEEP

ONE_CASE = 400.0
CREATE = ["start", "connect", "create"]
END = ["kill:,9", "wait", "delete", "shutdown", "events"]

Recorded = dict[str, Any]


class Finding:
    def __init__(self, scenario: dict[str, Any], shows: Callable[[Recorded], bool]) -> None:
        """`shows`: whether the recorded case has the defect."""
        self.scenario = {"options": None, "execs": {}, **scenario}
        self.shows = shows


def result(recorded: Recorded, operation: str, which: int = 0) -> str:
    """The error, or the response, of a call; empty if it was not made."""
    found = [one for one in recorded["run"]["results"] if one["op"] == operation]
    return str(found[which].get("error") or found[which].get("result", "")) if len(found) > which else ""


def calls(recorded: Recorded) -> list[str]:
    return [str(entry.get("call") or entry.get("guest")) for entry in recorded["calls"]]


def _spec(in_vm: bool = False, without: str = "", **members: Any) -> dict[str, Any]:
    spec = {**plain(in_vm), **members}
    spec.pop(without, None)
    return spec


def _host_process_spec() -> dict[str, Any]:
    annotations = {HOST_PROCESS: "true", INHERIT_USER: "true"}
    return _spec(process={"user": HOST_USER, "cwd": "C:\\", **FOREVER}, annotations=annotations)


_PIPE = "\\\\.\\pipe\\docker_engine"
_LINUX_MOUNT = {"type": "bind", "source": "C:\\hostdir", "destination": "/a", "options": ["rbind"]}
_LINUX_USER = {"args": ["/bin/id"], "user": {"uid": 0, "gid": 0, "username": "daemon"}}

FINDINGS = {
    "spec-without-annotations": Finding(
        {"spec": _spec(True, "annotations"), "options": {**HYPERVISOR, "vmProcessorCount": 2}, "steps": CREATE},
        lambda seen: "closed" in result(seen, "Create"),
    ),
    "default-annotations-without-annotations": Finding(
        {
            "spec": _spec(False, "annotations"), "steps": CREATE,
            "options": {"defaultContainerAnnotations": {"io.microsoft.container.memory.sizeinmb": "300"}},
        },
        lambda seen: "closed" in result(seen, "Create"),
    ),
    "spec-without-windows": Finding(
        {"spec": _spec(without="windows"), "steps": CREATE},
        lambda seen: "closed" in result(seen, "Create") or "exit status" in result(seen, "start"),
    ),
    "stdio-after-failed-create": Finding(
        {"spec": _spec(mounts=[{"source": "C:\\none", "destination": "C:\\mnt"}]), "steps": CREATE},
        lambda seen: "still held" in result(seen, "after-failed-create"),
    ),
    "second-create": Finding(
        {"spec": _spec(), "steps": [*CREATE, "create"]},
        lambda seen: "Unknown" in result(seen, "Create", 1) and calls(seen).count("ActivateLayer") == 2,
    ),
    "failed-vm-start": Finding(
        {
            "spec": _spec(True), "options": HYPERVISOR, "steps": CREATE, "fail": "HcsStartComputeSystem=0x80070005",
        },
        lambda seen: "handle has already been closed" in result(seen, "Create"),
    ),
    "exec-with-the-id-of-the-task": Finding(
        {"spec": _spec(), "steps": [*CREATE, "run", "exec:ID", "run:ID", *END], "execs": {"ID": {**EXEC, **SLEEP}}},
        lambda seen: result(seen, "Exec(ID)") == "{}" and "hcs::System::Start" in result(seen, "Start", 1),
    ),
    "pipe-at-a-path": Finding(
        {
            "spec": _spec(mounts=[{"source": _PIPE, "destination": "C:\\mnt"}]),
            "steps": [*CREATE, "run", *END],
        },
        lambda seen: result(seen, "Start").startswith("{") and "docker_engine" not in json.dumps(seen["calls"]),
    ),
    "delete-after-a-crash": Finding(
        {"spec": _spec(), "steps": [*CREATE, "run", "killshim", "deletecmd"]},
        lambda seen: '"exitStatus": 255' in result(seen, "delete-cmd") and "UnprepareLayer" not in calls(seen),
    ),
    "stats-after-the-exit": Finding(
        {"spec": _spec(), "steps": [*CREATE, "run", "kill:,9", "wait", "stats", "delete", "shutdown"]},
        lambda seen: "handle has already been closed" in result(seen, "Stats"),
    ),
    "delete-of-a-created-linux-container": Finding(
        {
            "spec": lcow_specs.spec(process=dict(lcow_specs.SLEEP)), "options": lcow_specs.LCOW,
            "steps": [*CREATE, "delete", "shutdown", "events"],
        },
        lambda seen: "Unknown" in result(seen, "Delete()"),
    ),
    "delete-of-a-created-host-process-container": Finding(
        {"spec": _host_process_spec(), "steps": [*CREATE, "delete", "shutdown", "events"]},
        lambda seen: "Unknown" in result(seen, "Delete()") and "UnprepareLayer" not in calls(seen),
    ),
    "failed-create-deletes-host-files": Finding(
        {
            "spec": lcow_specs.spec(process={"args": ["/none"]}, mounts=[_LINUX_MOUNT]), "options": lcow_specs.LCOW,
            "steps": CREATE,
        },
        lambda seen: "/none" in result(seen, "Create") and "no file.txt" in seen["left"],
    ),
    "close-io-discards-input": Finding(
        {
            "spec": _spec(process={"user": {"username": "ContainerUser"}, "cwd": "C:\\", "args": WINDOWS.reading}),
            "steps": [*CREATE, "stdin:", "closeio", "run", "wait", "io", "delete", "shutdown"],
        },
        lambda seen: result(seen, "CloseIO") == "{}" and 'stdout=""' in result(seen, "io()"),
    ),
    "linux-user-by-name": Finding(
        {
            "spec": lcow_specs.spec(process=_LINUX_USER), "options": lcow_specs.LCOW,
            "steps": [*CREATE, "run", "wait", "io", "delete", "shutdown"],
        },
        lambda seen: "uid=0(root)" in result(seen, "io()"),
    ),
}  # fmt: skip


class Reproduction:
    """Microsoft's shim under Wine, or another one, on an emulator of its own."""

    def __init__(self, program: str = MICROSOFT) -> None:
        self._lane = WineLane(program)

    def run(self, name: str) -> Recorded:
        scenario = FINDINGS[name].scenario
        text = json.dumps(scenario).replace('"ID"', f'"{name}"').replace(":ID", f":{name}")
        scenario = json.loads(text)
        given = lcow_specs.layer(name) if "linux" in scenario["spec"] else rootfs(name)
        recorded = self._lane.submit(name, name, {**scenario, "rootfs": given}, True).result(ONE_CASE)
        if isinstance(recorded, Exception):
            raise recorded
        return json.loads(json.dumps(recorded).replace(f"Exec({name})", "Exec(ID)"))  # type: ignore[no-any-return]

    def close(self) -> None:
        self._lane.close()


def main(names: list[str]) -> int:
    reproduction = Reproduction()
    try:
        shown = True
        for name in names or FINDINGS:
            recorded = reproduction.run(name)
            shows = FINDINGS[name].shows(recorded)
            shown = shown and shows
            print(f"{name}: {'shown' if shows else 'NOT shown'}; left: {recorded['left'] or 'nothing'}")
            for one in recorded["run"]["results"]:
                print(f"    {one['op']}: {one.get('error') or one.get('result', '')}"[:300], flush=True)
        return 0 if shown else 1
    finally:
        reproduction.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

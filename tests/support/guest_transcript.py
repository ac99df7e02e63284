"""The same messages to both Linux guests, and what they answer, made comparable.

A scenario drives a VM through a `Transcript`, which records every answer under a label. Pids, times and counters are
left out; results, members, error texts, exit codes and output stay.
"""

from __future__ import annotations

import json
import re
from typing import Any

from hcs_emulator.vm import bridge_frames
from tests.support import documents
from tests.support.guest_host import NULL, Bridge
from tests.support.linux_vm import LinuxVm, Process, oci_process

_CHANGING = (
    (re.compile(r'time="[^"]*"|time=\\"[^"]*\\"'), "time"),
    (re.compile(r"\bpid:? \d+"), "pid"),
    (re.compile(r"\b0x[0-9a-f]{8,16}\b(?=[,)])"), "address"),
    (re.compile(r"/var/run/gcsrunc/[^ :]*"), "/var/run/gcsrunc"),
)


def comparable(text: str) -> str:
    for pattern, replacement in _CHANGING:
        text = pattern.sub(replacement, text)
    return text.strip()


class Transcript:
    """`entries` are pairs of a label and what the guest answered."""

    def __init__(self, vm: LinuxVm, bridge: Bridge) -> None:
        self.vm = vm
        self.bridge = bridge
        self.entries: list[tuple[str, Any]] = []
        self.processes: list[Process] = []  # their streams stay open until the VM is terminated

    def record(self, label: str, value: Any) -> None:
        self.entries.append((label, value))

    def call(self, label: str, procedure: int, container: str, *, text: bool = True, **members: Any) -> dict[str, Any]:
        """A request; without `text` the words of an error are left out."""
        response = self.bridge.call(procedure, container, **members)
        self.answer(label, response, text=text)
        return response

    def answer(self, label: str, response: dict[str, Any], *, text: bool = True) -> None:
        shown = {name: value for name, value in response.items() if name not in ("ErrorMessage", "ErrorRecords")}
        shown["Result"] = f"{response['Result'] & 0xFFFFFFFF:08X}"
        if "ProcessId" in shown:
            shown["ProcessId"] = "a pid"
        if "Properties" in shown:
            shown["Properties"] = shape(json.loads(shown["Properties"]))
        if text and "ErrorMessage" in response:
            shown["ErrorMessage"] = comparable(response["ErrorMessage"])
            shown["ErrorRecords"] = [
                sorted(set(record) - {"StackTrace", "FunctionName"}) for record in response["ErrorRecords"]
            ]
        self.record(label, shown)

    def modify(
        self, label: str, kind: str, change: str, settings: Any, container: str = NULL, *, text: bool = True
    ) -> int:
        response = self.bridge.modify(kind, change, settings, container)
        self.answer(label, response, text=text)
        return int(response["Result"])

    def create(self, label: str, container: str, spec: dict[str, Any] | None, **members: Any) -> dict[str, Any]:
        root = f"/run/gcs/c/{container}"
        config = {
            "SchemaVersion": documents.VERSION,
            "OciBundlePath": root,
            "OciSpecification": spec,
            "ScratchDirPath": f"{root}/scratch/{container}",
        } | members
        return self.call(label, bridge_frames.CREATE, container, ContainerConfig=json.dumps(config))

    def start(self, container: str, **streams: bool) -> Process:
        self.processes.append(self.vm.execute(self.bridge, container, None, **streams))
        return self.processes[-1]

    def run(self, label: str, container: str, *args: str, **process: Any) -> str:
        """Exec a command, and record its output and exit code."""
        parameters = oci_process(*args)
        parameters["OciProcess"] |= process
        running = self.vm.execute(self.bridge, container, parameters, StdOut=True)
        output = running.read().decode()
        self.record(label, (running.wait(), output))
        return output

    def refused_exec(self, label: str, container: str, *args: str, **process: Any) -> None:
        parameters = oci_process(*args)
        parameters["OciProcess"] |= process
        settings = {"ProcessParameters": json.dumps(parameters)}
        self.call(label, bridge_frames.EXECUTE_PROCESS, container, Settings=settings)

    def notification(self, label: str, container: str) -> None:
        self.record(label, self.bridge.wait_notification(container))


# Numbers of statistics that no container has zero of; others are left out when they are zero.
_NEVER_ZERO = {"usage", "limit", "max", "current", "total", "per_cpu", "cache", "rss", "hierarchical_memory_limit"}


def shape(value: Any) -> Any:
    """The members of a document, without its numbers and those that may be zero."""
    if isinstance(value, dict):
        present = {name: member for name, member in value.items() if not isinstance(member, int) or name in _NEVER_ZERO}
        return {name: shape(member) for name, member in sorted(present.items())} | (
            {"ProcessId": "a pid"} if "ProcessId" in value else {}
        )
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return type(value).__name__

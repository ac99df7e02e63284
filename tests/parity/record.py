"""Records more cases: Microsoft's unmodified shim, under Wine, with the emulator.

`python -m tests.parity.record [NAME …]` runs the scenarios of `scenarios.py` and writes `cases/own-NAME.json`, in the
format of the other recordings. It has the prerequisites of tests/wine.
"""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.parity import calls
from tests.parity.cases import CASES
from tests.parity.driver_process import DriverProcess
from tests.parity.environment import (
    HOST_FILES,
    TOOL,
    create_files,
    create_linux_files,
    create_networks,
    create_pipe,
    create_scratch,
)
from tests.parity.requests import fault
from tests.parity.scenarios import SCENARIOS
from tests.wine.conftest import ROOT, Machine, go_programs, with_pdeathsig

BUILD = "18362"
# While a shim runs: how long it makes no call until its calls are complete. After its exit: how long the emulator may
# take to close its handles.
SETTLE_SECONDS = 0.5
RELEASE_SECONDS = 5.0
LINUX_CAPABILITIES = (
    "NamespaceAddRequestSupported", "SignalProcessSupported", "DumpStacksSupported", "DeleteContainerStateSupported",
)  # fmt: skip
PROGRAM = "containerd-shim-runhcs-v1.exe"
MICROSOFT = rf"C:\hcsshim\{PROGRAM}"


class RecordingMachine(Machine):
    """The machine of the tests under Wine, with a journal, and with the files that the cases require."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._networks: set[str] = set()
        self._drivers: dict[str, DriverProcess] = {}

    @property
    def journal(self) -> Path:
        return self.directory / "journal.jsonl"

    def start_service(self) -> None:
        self.emulator.mkdir(mode=0o700)
        command = with_pdeathsig([sys.executable, "-m", "hcs_emulator.service", "--directory", str(self.emulator)])
        command += ["--wine-prefix", str(self.prefix), "--wine-run", r"C:\windows\system32\wine-run.exe"]
        command += ["--build", BUILD, "--journal", str(self.journal)]
        with open(self.directory / "service.log", "wb") as log:
            self._service = subprocess.Popen(command, cwd=ROOT, env=self.environment, stderr=log, stdout=log)
        deadline = time.monotonic() + 60
        while not (self.emulator / "loopback").exists():
            log_text = (self.directory / "service.log").read_text()
            assert self._service.poll() is None and time.monotonic() < deadline, log_text
            time.sleep(0.05)

    def create_case_files(self) -> None:
        create_pipe(self.emulator)
        # Without the bind filter Microsoft's shim needs no silo, which Wine lacks, for a host process container.
        (self.drive / "windows" / "system32" / "bindfltapi.dll").unlink()
        (self.drive / "hcsshim").mkdir()
        shutil.copy(go_programs("hcsshim") / PROGRAM, self.drive / "hcsshim")
        for path in ("bundles", "snapshots"):
            (self.drive / path).mkdir()
        create_files(self.drive)
        create_linux_files(self.drive, self.drive / "hcsshim" / "LinuxBootFiles", "gcs", [])
        # A VM runs programs of this machine, a container on the host runs Windows programs under Wine.
        tool = [TOOL, "-o", self.drive / "tool.exe"]
        subprocess.run(["x86_64-w64-mingw32-gcc", "-O1", "-s", *tool], check=True)

    def record(
        self, scenarios: dict[str, dict[str, Any]], program: str = MICROSOFT
    ) -> dict[str, dict[str, Any]]:
        """The recorded cases by name: one, or those of a pod, with this shim."""
        group = next(iter(scenarios))
        last = next(reversed(scenarios))
        return {name: self.record_one(group, name, one, program, name == last) for name, one in scenarios.items()}

    def record_one(
        self, group: str, name: str, scenario: dict[str, Any], program: str = MICROSOFT, is_last: bool = True
    ) -> dict[str, Any]:
        """One case. Scenarios of one pod have the same group, and are recorded in sequence."""
        scenario = {"id": name, "rootfs": rootfs(name), **scenario}
        if "linux" in scenario["spec"]:
            create_scratch(self.drive, scenario["spec"], scenario["rootfs"])
        create_networks([scenario["spec"]], self.environment, self._networks)
        begin = self._journal_size()
        if text := scenario.get("fail"):
            self.control("fault-add", **fault(text))
        try:
            results = self._driver(program, group).run(group, scenario, self.drive / "bundles" / f"{name}.results")
        finally:
            self.control("fault-clear")
        self._expect_end_of_calls(is_last)
        members = ("options", "rootfs", "steps", "execs", "updates", "environment")
        run = {key: scenario.get(key) for key in members if scenario.get(key)}
        run |= {"results": results, "scenario": scenario["id"], "fail": scenario.get("fail", "")}
        with self.journal.open("rb") as file:
            file.seek(begin)
            lines = [json.loads(line) for line in file]
        written = _written(*calls.replayed(lines, self._recorded), "linux" in scenario["spec"])
        return {"spec": scenario["spec"], "run": run, "calls": written}

    def left(self) -> list[str]:
        """Compute systems that exist, and files of the host that exist no more."""
        missing = [f"no {name}" for name in HOST_FILES if not (self.drive / "hostdir" / name).exists()]
        return missing + sorted(str(system["Id"]) for system in self.control("status")["systems"])

    def close_drivers(self) -> None:
        for driver in self._drivers.values():
            driver.close()
        self._drivers.clear()

    def tear_down(self) -> None:
        self.close_drivers()
        super().tear_down()

    def _driver(self, program: str, group: str) -> DriverProcess:
        if program in self._drivers and self._drivers[program].is_exhausted(group):
            self._drivers.pop(program).close()
        if program not in self._drivers:
            self._drivers[program] = DriverProcess(self, program)
        return self._drivers[program]

    def _journal_size(self) -> int:
        return self.journal.stat().st_size if self.journal.exists() else 0

    def _expect_end_of_calls(self, is_last: bool) -> None:
        """The journal is complete: no shim has a handle, or, while one runs, there is no call for a while."""
        if is_last:
            _wait(lambda: self.control("status")["handles"] == 0)
        size = -1
        while size != self._journal_size():
            size = self._journal_size()
            if not is_last:
                time.sleep(SETTLE_SECONDS)
            self.control("status")  # answered after the calls that arrived before

    def control(self, command: str, **arguments: Any) -> dict[str, Any]:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(60)
            connection.connect(str(self.emulator / "control.sock"))
            connection.sendall(json.dumps({"command": command, **arguments}).encode() + b"\n")
            response: dict[str, Any] = json.loads(connection.makefile().readline())
        assert response["ok"], response
        return response

    def _recorded(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {self._recorded(key): self._recorded(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self._recorded(item) for item in value]
        if not isinstance(value, str):
            return value
        return re.sub(
            re.escape(str(self.drive)) + r"(/[^\s\"\]]*)?",
            lambda match: "C:" + (match[1] or "/").replace("/", "\\"),
            value,
        )


def _wait(condition: Callable[[], bool]) -> None:
    """For what a shim does not always do: what follows shows what it did not."""
    deadline = time.monotonic() + RELEASE_SECONDS
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)


def rootfs(name: str) -> list[dict[str, Any]]:
    parents = 'parentLayerPaths=["C:\\\\layers\\\\2","C:\\\\layers\\\\1"]'
    return [{"type": "windows-layer", "source": f"C:\\snapshots\\{name}", "options": ["rw", parents]}]


def _written(hcs: list[calls.Call], guest: list[calls.Call], linux: bool) -> list[dict[str, Any]]:
    """The calls in the format of the other recordings."""
    entries: list[dict[str, Any]] = []
    for call in hcs:
        entry: dict[str, Any] = {"dll": "hcs", "call": call.name}
        if call.name == "event":
            entry |= {
                "call": "->",
                "id": call.about,
                "doc": {"ProcessId": 0} if call.document == "ProcessExited" else {},
            }
        elif isinstance(call.document, str):
            entry["args"] = call.document
        else:
            entry["id"] = call.about
            if call.document is not None:
                entry["doc"] = call.document
        entries.append(entry)
    if guest:
        supported = dict.fromkeys(LINUX_CAPABILITIES if linux else ["LogForwardingSupported"], True)
        offered = {"Capabilities": {"GuestDefinedCapabilities": supported}}
        entries.append({"guest": "reply NegotiateProtocol", "id": 0, "doc": offered})
    for call in guest:
        document = {"ContainerId": call.about, **call.document}
        entries.append({"guest": f"request {call.name.removeprefix('guest:')}", "id": 0, "doc": document})
    return entries


def main(names: list[str]) -> None:
    directory = Path(tempfile.mkdtemp(prefix="record-"))
    machine = RecordingMachine(directory)
    try:
        machine.set_up()
        machine.create_case_files()
        for name, scenario in SCENARIOS.items():
            if names and name not in names:
                continue
            members = scenario.get("pod") or {"": scenario}
            recorded = machine.record({f"own-{name}{member}": one for member, one in members.items()})
            for full, case in recorded.items():
                (CASES / f"{full}.json").write_text(json.dumps(case, indent=1) + "\n")
                print(full, flush=True)
    finally:
        machine.tear_down()
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main(sys.argv[1:])

"""Runs the same cases with the three shims and returns what differs."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.differential.linux_scenarios import sandbox_spec
from tests.differential.shrink import shrink
from tests.parity import answers, calls, compare, differences
from tests.parity.cases import Case
from tests.parity.environment import KERNELS, CaseEnvironment, create_linux_files, create_networks, create_scratch
from tests.parity.expected import EXPECTED
from tests.parity.lcow_specs import layer
from tests.parity.record import BUILD, RecordingMachine, rootfs
from tests.parity.replay import Replay
from tests.support.emulator import Emulator
from tests.support.eventually import eventually
from tests.support.lcow_image import make_boot_files
from tests.support.shims import Shims

# Times are left out of a response while they are zero. A call that is made twice, for a length and for the text, counts
# once, unless the call of another system comes between.
VOLATILE = re.compile(r"answer Pids: \[\d+\]\.details\.\w+Time100Ns is missing|hcs [+-] GetLayerMountPath")
OURS = r"C:\node\containerd-shim-runhcs-v1.exe"


class Machines:
    """Wine with both Windows shims, and Linux with ours."""

    def __init__(self) -> None:
        self._directory = Path(tempfile.mkdtemp(prefix="differential-"))
        self._wine = RecordingMachine(self._directory)
        self._count = 0
        self._wine.set_up()
        self._wine.create_case_files()
        make_boot_files(self._wine.drive / "node" / "LinuxBootFiles", KERNELS, "gcs")
        self._emulator = Emulator("--build", BUILD)
        create_networks([sandbox_spec({})], self._emulator.env)
        self._shims = Shims(self._emulator.env)
        self._shims.env["TZ"] = "UTC"
        self._environment = CaseEnvironment(self._emulator, self._shims.directory, [])
        create_linux_files(self._environment.root, self._emulator.directory / "LinuxBootFiles", "emulated", [])
        self._replay = Replay(self._emulator, self._shims, self._environment)

    def close(self) -> None:
        self._replay.close()
        try:
            self._shims.close()
            self._emulator.stop()
        finally:
            self._wine.tear_down()
            shutil.rmtree(self._directory, ignore_errors=True)

    def run(self, scenarios: Sequence[dict[str, Any]]) -> list[str]:
        """Run containers one after the other. Returns the unlisted differences, each with its case."""
        self._count += 1
        named = {f"d{self._count}x{number}": one for number, one in enumerate(scenarios)}
        return self._run({name: {**one, "rootfs": _rootfs(one, name)} for name, one in named.items()})

    def run_and_shrink(self, scenarios: Sequence[dict[str, Any]]) -> Iterator[str]:
        """As `run`; a case that differs in the same way when it runs alone is made as small as possible."""
        for report in self.run(scenarios):
            scenario, lines = json.loads(report.partition("\n")[0]), _differences(report)

            def differs(one: dict[str, Any], lines: set[str] = lines) -> bool:
                return any(_differences(again) & lines for again in self.run([one]))

            if differs(scenario):
                smallest = shrink(scenario, differs)
                yield f"{report}\nsmallest: {json.dumps(smallest)}"
            else:
                yield f"{report}\nnot repeated when it ran alone"

    def run_pod(self, scenarios: Sequence[dict[str, Any]]) -> list[str]:
        """The first and the last are the sandbox's."""
        self._count += 1
        pod = f"d{self._count}x0"
        named = {}
        for number, scenario in enumerate(scenarios):
            text = json.dumps(scenario).replace('"POD"', f'"{pod}"')
            task = pod if number in (0, len(scenarios) - 1) else f"d{self._count}x{number}"
            named[f"d{self._count}n{number}"] = {**json.loads(text), "id": task, "rootfs": _rootfs(scenario, task)}
        return self._run(named)

    def _run(self, named: dict[str, dict[str, Any]]) -> list[str]:
        theirs = self._record(named)
        ours = self._record(named, OURS)
        found = []
        self._replay = Replay(self._emulator, self._shims, self._environment)
        for name, recorded in theirs.items():
            case = Case(name, recorded["spec"], recorded["run"], recorded["calls"])
            lines = [f"Wine: {line}" for line in _unlisted(case, _between(case, ours[name]))]
            lines += [f"Linux: {line}" for line in _unlisted(case, self._on_linux(case))]
            if lines:
                results = ours[name]["run"]["results"]
                errors = [f"ours: {one['op']}: {one['error']}" for one in results if "error" in one]
                found.append("\n".join([json.dumps(named[name]), *lines, *errors]))
        return found

    def _record(self, named: dict[str, dict[str, Any]], program: str = "") -> dict[str, dict[str, Any]]:
        recorded = self._wine.record(named, program) if program else self._wine.record(named)
        for name, scenario in named.items():
            for parent in ("bundles", "snapshots"):
                shutil.rmtree(self._wine.drive / parent / scenario.get("id", name), ignore_errors=True)
        return recorded

    def _on_linux(self, case: Case) -> list[str]:
        if case.is_linux:
            create_scratch(self._environment.root, case.spec, case.run.get("rootfs") or [])
        begin = len(self._emulator.journal())
        given = self._replay.run(case)
        if not case.pod or case.attaches:
            self._expect_nothing_left()
        eventually(lambda: self._is_quiet(), "the end of all calls")
        journal = self._emulator.journal()[begin:]
        return differences.of(case, given, journal, self._environment)

    def _expect_nothing_left(self) -> None:
        """The shims have been told to shut down."""
        for shim in reversed(self._shims.shims):
            eventually(lambda shim=shim: not shim.alive, "the exit after Shutdown")  # type: ignore[misc]
            shim.delete_command()
        status = self._emulator.control
        eventually(lambda: status("status")["systems"] == [] and not self._emulator.descendants(), "nothing left")
        self._shims.shims.clear()
        self._replay.close()

    def _is_quiet(self) -> bool:
        before = self._emulator.journal_path.stat().st_size
        self._emulator.control("status")
        return self._emulator.journal_path.stat().st_size == before


def _differences(report: str) -> set[str]:
    return {line for line in report.splitlines()[1:] if line.startswith(("Wine: ", "Linux: "))}


def _rootfs(scenario: dict[str, Any], id: str) -> list[dict[str, Any]]:
    return layer(id) if "linux" in scenario["spec"] else rootfs(id)


def _between(case: Case, ours: dict[str, Any]) -> list[str]:
    """What differs between two recordings."""
    given = [answers.recorded(result) for result in ours["run"]["results"]]
    recorded = [answers.recorded(result) for result in case.run["results"]]
    lines = [f"answer {line}" for line in compare.answers(recorded, given)]
    for kind, their, our in zip(
        ("hcs", "guest"), calls.recorded(case.calls), calls.recorded(ours["calls"]), strict=True
    ):
        lines += [f"{kind} {line}" for line in compare.calls(their, our)]
    return [differences.normalize(case, line) for line in lines]


def _unlisted(case: Case, found: list[str]) -> list[str]:
    recording = differences.outline(case)
    return [
        line for line in found
        if not VOLATILE.fullmatch(line) and not any(entry.allows(line, recording) for entry in EXPECTED)
    ]  # fmt: skip

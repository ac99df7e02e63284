"""Runs the same cases with the three shims and returns what differs.

The two shims under Wine run at the same time, and ours on Linux as soon as Microsoft's has finished a case.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from typing import Any

from tests.differential.linux_lane import LinuxLane
from tests.differential.shrink import shrink
from tests.differential.wine_lane import WineLane
from tests.parity import answers, calls, compare, differences
from tests.parity.cases import Case
from tests.parity.expected import EXPECTED
from tests.parity.lcow_specs import layer
from tests.parity.record import MICROSOFT, rootfs

# Times and counters of I/O are left out of a response while they are zero. A call that is made twice, for a length and
# for the text, counts once, unless the call of another system comes between.
VOLATILE = re.compile(
    r"answer Pids: \[\d+\]\.details\.\w+Time100Ns is missing"
    r"|answer Stats: values\.windows\.(processor|storage)\.\w+ is missing"
    r"|hcs [+-] GetLayerMountPath"
)
OURS = r"C:\node\containerd-shim-runhcs-v1.exe"
LONGEST_CASE = 600.0
#: Before a case that was made smaller.
SMALLEST = "smallest: "

Scenarios = Sequence[dict[str, Any]]
#: A recorded case, or why there is none.
Recording = dict[str, Any] | Exception


class Machines:
    """Wine with Microsoft's shim, Wine with ours, and Linux with ours."""

    def __init__(self) -> None:
        self._theirs = WineLane(MICROSOFT)
        self._ours = WineLane(OURS)
        self._linux = LinuxLane()
        self._count = 0

    def close(self) -> None:
        try:
            self._linux.close()
        finally:
            self._ours.close()
            self._theirs.close()

    def run(self, scenarios: Scenarios) -> list[str]:
        """Run containers one after the other. Returns the unlisted differences, each with its case."""
        self._count += 1
        named = {f"d{self._count}x{number}": one for number, one in enumerate(scenarios)}
        return self._run({name: {name: {**one, "rootfs": _rootfs(one, name)}} for name, one in named.items()})

    def run_and_shrink(self, scenarios: Scenarios) -> Iterator[str]:
        """As `run`; a case that differs in the same way when it runs alone is made as small as possible, which follows
        its report."""
        for report in self.run(scenarios):
            yield report
            scenario, lines = json.loads(report.partition("\n")[0]), _differences(report)

            def differs(one: dict[str, Any], lines: set[str] = lines) -> bool:
                return any(_differences(again) & lines for again in self.run([one]))

            if differs(scenario):
                yield f"{SMALLEST}{json.dumps(shrink(scenario, differs))}"

    def run_pod(self, scenarios: Scenarios) -> list[str]:
        """The first and the last are the sandbox's."""
        self._count += 1
        pod = f"d{self._count}x0"
        named = {}
        for number, scenario in enumerate(scenarios):
            text = json.dumps(scenario).replace('"POD"', f'"{pod}"')
            task = pod if number in (0, len(scenarios) - 1) else f"d{self._count}x{number}"
            named[f"d{self._count}n{number}"] = {**json.loads(text), "id": task, "rootfs": _rootfs(scenario, task)}
        return self._run({pod: named})

    def run_and_shrink_pod(self, scenarios: Scenarios) -> Iterator[str]:
        """As `run_pod`; the containers of a pod that differs again are made smaller, one after the other."""
        found = self.run_pod(scenarios)
        yield from found
        lines = {line for report in found for line in _differences(report)}
        smallest = list(scenarios)
        for number in range(1, len(smallest) - 1) if lines else ():

            def differs(one: dict[str, Any], number: int = number) -> bool:
                changed = [*smallest[:number], one, *smallest[number + 1 :]]
                return any(_differences(again) & lines for again in self.run_pod(changed))

            if not differs(smallest[number]):
                return
            smallest[number] = shrink(smallest[number], differs)
        if lines:
            yield f"{SMALLEST}{json.dumps(smallest)}"

    def _run(self, groups: dict[str, dict[str, dict[str, Any]]]) -> list[str]:
        """Groups of cases by name, each with its cases by name."""
        lanes = (self._theirs, self._ours)
        recordings = {
            name: [lane.submit(group, name, scenario, name == next(reversed(named))) for lane in lanes]
            for group, named in groups.items()
            for name, scenario in named.items()
        }
        found = []
        for named in groups.values():
            for name, scenario in named.items():
                is_last = name == next(reversed(named))
                theirs, ours = recordings[name]
                lines = self._compare(name, theirs.result(LONGEST_CASE), ours, is_last)
                if lines:
                    found.append("\n".join([json.dumps(scenario), *lines]))
        return found

    def _compare(self, name: str, theirs: Recording, ours: Future[Recording], is_last: bool) -> list[str]:
        if isinstance(theirs, Exception):
            ours.result(LONGEST_CASE)
            self._linux.reset()
            return [f"Microsoft: not recorded: {theirs}"]
        case = Case(name, theirs["spec"], theirs["run"], theirs["calls"])
        found = []
        try:
            found += [f"Linux: {line}" for line in _unlisted(case, self._linux.run(case, is_last))]
        except AssertionError as error:
            self._linux.reset()
            found.append(f"Linux: not replayed: {error}")
        mine = ours.result(LONGEST_CASE)
        if isinstance(mine, Exception):
            return [*found, f"Wine: not recorded: {mine}"]
        found += [f"Wine: {line}" for line in _unlisted(case, _between(case, mine))]
        found += [f"Wine: left {system}" for system in mine["left"]]
        if found:
            found += [f"ours: {one['op']}: {one['error']}" for one in mine["run"]["results"] if "error" in one]
        return found


def _differences(report: str) -> set[str]:
    return {line for line in report.splitlines()[1:] if line.startswith(("Wine: ", "Linux: ", "Microsoft: "))}


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
        lines += [f"{kind} {line}" for line in compare.calls(their, our, not case.has_pairs)]
    return [differences.normalize(case, line) for line in lines]


def _unlisted(case: Case, found: list[str]) -> list[str]:
    recording = differences.outline(case)
    return [
        line for line in found
        if not VOLATILE.fullmatch(line) and not any(entry.allows(line, recording) for entry in EXPECTED)
    ]  # fmt: skip

"""Runs the same cases with the three shims and returns what differs.

A column is Wine with Microsoft's shim, Wine with ours, and Linux with ours. In a column the two shims under Wine run at
the same time, and ours on Linux as soon as Microsoft's has finished a case. Columns work side by side, since a case
waits most of its time.
"""

from __future__ import annotations

import itertools
import json
import re
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from tests.differential.generate import Case as Tasks
from tests.differential.host_process_scenarios import TASK
from tests.differential.linux_lane import LinuxLane
from tests.differential.shrink import shrink
from tests.differential.wine_lane import WineLane
from tests.parity import answers, calls, compare, differences
from tests.parity.cases import Case
from tests.parity.expected import EXPECTED, Expected
from tests.parity.lcow_specs import layer
from tests.parity.record import MICROSOFT, rootfs

# Times and counters of I/O are left out of a response while they are zero. A call that is made twice, for a length and
# for the text, counts once, unless the call of another system comes between.
VOLATILE = re.compile(
    r"answer Pids: \[\d+\]\.details\.\w+Time100Ns is missing"
    r"|answer Stats: values\.windows\.((processor|storage)\.\w+|memory\.memoryUsageCommitBytes) is missing"
    r"|answer Stats: values\.linux\.(cpu\.usage|memory)\.\w+ is missing"
    r"|hcs [+-] GetLayerMountPath"
)
ENTRIES = [entry for entry in EXPECTED if not entry.recorded_only]
OURS = r"C:\node\containerd-shim-runhcs-v1.exe"
LONGEST_CASE = 600.0
# How many cases the shims under Wine are ahead of the comparison, so that they need not wait for each other.
AHEAD = 4

# Of a call, in the list of all calls of a case that differs.
LONGEST_DOCUMENT = 120

#: A recorded case, or why there is none.
Recording = dict[str, Any] | Exception


@dataclass(frozen=True)
class Report:
    """What differs in one case: each task with its lines."""

    tasks: Tasks
    found: dict[int, list[str]]

    @property
    def differences(self) -> set[str]:
        lines = [line for found in self.found.values() for line in found]
        return {line for line in lines if line.startswith(("Wine: ", "Linux: ", "Microsoft: "))}

    def text(self) -> str:
        lines = [line for number, found in self.found.items() for line in (f"task {number}:", *found)]
        return "\n".join([json.dumps(self.tasks), *lines])


class Column:
    """The three shims, each on an emulator of its own."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._theirs = WineLane(MICROSOFT)
        self._ours = WineLane(OURS)
        self._thread = ThreadPoolExecutor(1, f"column-{name}")
        self._count = 0
        #: How many lines only this entry allowed.
        self.needed: Counter[Expected] = Counter()
        self._linux = self._thread.submit(LinuxLane)

    def start(self, source: Callable[[], Tasks | None]) -> Future[list[Report]]:
        """Run cases until the source has no more. Returns those that differ."""
        return self._thread.submit(self._run, source)

    def close(self) -> None:
        try:
            self._thread.submit(self._linux.result().close).result(LONGEST_CASE)
        finally:
            self._thread.shutdown()
            self._ours.close()
            self._theirs.close()

    def _run(self, source: Callable[[], Tasks | None]) -> list[Report]:
        waiting: deque[tuple[Tasks, list[tuple[str, list[Future[Recording]]]]]] = deque()
        reports = []
        while True:
            while len(waiting) < AHEAD and (tasks := source()) is not None:
                waiting.append((tasks, self._submit(tasks)))
            if not waiting:
                return reports
            report = self._compare(*waiting.popleft())
            if report.found:
                reports.append(report)

    def _submit(self, tasks: Tasks) -> list[tuple[str, list[Future[Recording]]]]:
        """The names of the tasks in recordings, and the recordings to be."""
        self._count += 1
        group = f"{self._name}{self._count}"
        submitted = []
        for number, task in enumerate(tasks):
            is_last = number == len(tasks) - 1
            # The first and the last task of a pod are those of the sandbox.
            task_id = f"{group}x0" if is_last else f"{group}x{number}"
            text = json.dumps(task).replace('"POD"', f'"{group}x0"').replace(TASK, task_id)
            named = {**json.loads(text), "id": task_id, "rootfs": _rootfs(task, task_id)}
            name = f"{group}n{number}"
            lanes = (self._theirs, self._ours)
            submitted.append((name, [lane.submit(group, name, named, is_last) for lane in lanes]))
        return submitted

    def _compare(self, tasks: Tasks, submitted: list[tuple[str, list[Future[Recording]]]]) -> Report:
        found = {}
        for number, (name, (theirs, ours)) in enumerate(submitted):
            lines = self._compare_task(name, theirs.result(LONGEST_CASE), ours, number == len(tasks) - 1)
            if lines:
                found[number] = lines
        return Report(tasks, found)

    def _compare_task(self, name: str, theirs: Recording, ours: Future[Recording], is_last: bool) -> list[str]:
        linux = self._linux.result()
        if isinstance(theirs, Exception):
            ours.result(LONGEST_CASE)
            linux.reset()
            return [f"Microsoft: not recorded: {theirs}"]
        case = Case(name, theirs["spec"], theirs["run"], theirs["calls"])
        found = []
        try:
            found += [f"Linux: {line}" for line in self._unlisted(case, linux.run(case, is_last))]
        except AssertionError as error:
            linux.reset()
            found.append(f"Linux: not replayed: {error}")
        mine = ours.result(LONGEST_CASE)
        if isinstance(mine, Exception):
            return [*found, f"Wine: not recorded: {mine}"]
        found += [f"Wine: {line}" for line in self._unlisted(case, _between(case, mine))]
        found += [f"Wine: left {system}" for system in mine["left"]]
        if found:
            found += [f"theirs: {one['op']}: {one['error']}" for one in theirs["run"]["results"] if "error" in one]
            found += [f"ours: {one['op']}: {one['error']}" for one in mine["run"]["results"] if "error" in one]
            found += [*_sequences("theirs", theirs, found), *_sequences("ours", mine, found)]
        return found

    def _unlisted(self, case: Case, found: list[str]) -> list[str]:
        recording = differences.outline(case)
        unlisted = []
        for line in found:
            if VOLATILE.fullmatch(line):
                continue
            allowing = [entry for entry in ENTRIES if entry.allows(line, recording)]
            if not allowing:
                unlisted.append(line)
            elif len(allowing) == 1:
                self.needed[allowing[0]] += 1
        return unlisted


class Machines:
    def __init__(self, columns: int = 1) -> None:
        self._columns = [Column(f"d{number}c") for number in range(columns)]

    def close(self) -> None:
        for column in self._columns:
            column.close()

    def run(self, cases: Iterable[Tasks]) -> list[Report]:
        """The cases with unlisted differences."""
        lock, remaining, is_stopped = threading.Lock(), iter(cases), threading.Event()

        def source() -> Tasks | None:
            with lock:
                return None if is_stopped.is_set() else next(remaining, None)

        running = [column.start(source) for column in self._columns]
        try:
            return list(itertools.chain(*[one.result() for one in running]))
        finally:
            is_stopped.set()  # after Ctrl-C

    def needed(self) -> list[str]:
        """The listed differences, with how many lines each of them alone allowed: one that never does is outdated, too
        wide, or rare."""
        counts: Counter[Expected] = sum((column.needed for column in self._columns), Counter())
        return [f"{counts[entry]:6} {entry.reason}: {entry.difference}" for entry in ENTRIES]

    def smallest(self, report: Report) -> Tasks | None:
        """The case made as small as possible; None if it does not differ in the same way when it runs alone."""
        smallest, lines = list(report.tasks), report.differences

        def differs(tasks: Tasks) -> bool:
            return any(again.differences & lines for again in self.run([tasks]))

        if not differs(smallest):
            return None
        # Of a pod, only the containers between the start and the stop of the sandbox.
        for number in [0] if len(smallest) == 1 else range(1, len(smallest) - 1):

            def is_smaller(one: dict[str, Any], number: int = number) -> bool:
                return differs([*smallest[:number], one, *smallest[number + 1 :]])

            smallest[number] = shrink(smallest[number], is_smaller)
        return smallest


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


def _sequences(whose: str, recording: dict[str, Any], found: list[str]) -> list[str]:
    """All calls, if some differ: without their order a race cannot be explained."""

    def text(call: calls.Call) -> str:
        return f"{call.key} {json.dumps(call.document)[:LONGEST_DOCUMENT]}"

    return [
        f"{whose}: {kind}: {'; '.join(map(text, sequence))}"
        for kind, sequence in zip(("hcs", "guest"), calls.recorded(recording["calls"]), strict=True)
        if any(re.match(rf"(Wine|Linux): {kind} ", line) for line in found)
    ]

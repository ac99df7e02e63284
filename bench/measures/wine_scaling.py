"""Many pods with the Windows shim, for each shim scope, beside Microsoft's Go shim: all under Wine, on one emulator.

A pod is a sandbox and one container, each with a process. Pods are started one after the other and keep running. At
each number of pods all candidates are measured in turn: time and private memory per pod. At the highest number also
State with sixteen callers that each call all pods in turn, over one connection to each pod; the output of sixteen
containers at once; and the CPU time of all shims while Stats of every sandbox and container is called once in ten
seconds. Callers, writers and readers are programs in C.

Each pod takes about 55 file descriptors of Wine's server, besides memory. When one of the two runs short, candidates
are left out: first the shim of one pod, which `wine` measures too, then the scope `node`.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from bench.harness.context import RunContext
from bench.harness.goals import WINE_COLD, WINE_NAMESPACE, WINE_NODE
from bench.harness.process_stats import total_stats
from bench.harness.sizes import count
from bench.measures import wine, wine_costs
from bench.measures.overhead import Interval, hcs_intervals, overhead_seconds
from bench.measures.pods import MIN_AVAILABLE_KB, available_memory
from bench.measures.scaling import SETTLE_SECONDS
from bench.measures.wine_costs import CALLERS, PROGRAM, ProgramError
from bench.measures.wine_driver import SHIM, Script, Shim, wine_processes

PROFILE = "wine"
CALLS = 200  # of each caller
OUTPUT_MIB = 16
STATS_SECONDS = 10.0
EXIT_TIMEOUT = 60.0
# For the connections of the programs that call and write.
MIN_DESCRIPTORS = 1500
LEFT_OUT_FIRST = (WINE_COLD, WINE_NODE, WINE_NAMESPACE)


class PodError(Exception):
    """A request to the driver in Wine failed."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--pods", type=increasing, default=[10, 50, 110], help="numbers of pods (default 10,50,110)")
    parser.add_argument("--call-rounds", type=count(0), default=6, help="rounds of State calls (default 6)")
    parser.add_argument("--output-rounds", type=count(0), default=6, help="rounds of the output (default 6)")
    parser.add_argument("--stats-rounds", type=count(0), default=6, help="ten seconds of Stats each (default 6)")


def increasing(text: str) -> list[int]:
    """An argparse type: 10,50,110."""
    parse = count()
    numbers = [parse(part) for part in text.split(",")]
    if sorted(set(numbers)) != numbers:
        raise argparse.ArgumentTypeError(f"{text!r}: give increasing numbers, such as 10,50,110")
    return numbers


class PodDriver(Script):
    """Runs wine_pods.py in the prefix."""

    name = "wine_pods.py"

    def request(self, **request: Any) -> dict[str, Any]:
        self.send(request)
        response = self.receive()
        if "error" in response:
            raise PodError(response["error"])
        return response


class Pods:
    """The running pods of a candidate. One that fails is left out from then on."""

    def __init__(self, context: RunContext, driver: PodDriver, shim: Shim) -> None:
        self.shim = shim
        self.name = shim.name
        #: The pipe of the shim of each pod.
        self.pipes: dict[str, str] = {}
        self.is_left_out = False
        self._context = context
        self._driver = driver
        self._machine = driver.machine
        #: Begin and end of the start of pods, in seconds since the epoch.
        self._pods_times: list[Interval] = []

    def leave_out(self, reason: str) -> None:
        """Ends its pods, so that the others have what they took."""
        self._context.run.skip("wine_scaling", f"{self.name}: stopped at {len(self.pipes)} pods, since {reason}")
        self.attempt(self.stop)
        self.is_left_out = True

    def attempt(self, action: Callable[[], None]) -> None:
        """A failure is a violation."""
        if self.is_left_out:
            return
        try:
            action()
        except (PodError, ProgramError) as error:
            self.is_left_out = True
            self._context.run.violation(self.name, "error", str(error), PROFILE)

    def grow(self, number: int) -> None:
        """Starts a pod on the way to this number of pods. Raises PodError."""
        name = f"{self.shim.file.parent.name}-{len(self.pipes) + 1}"
        directory = self._machine.drive / "bench" / name
        directory.mkdir(parents=True)
        found = self._driver.request(
            start={
                "program": self.shim.program, "directory": rf"C:\bench\{name}", "id": name, "scope": self.shim.scope,
                "command": f"{PROGRAM} wait", "environment": {"RUNHCS_STANDBY": "0"},
            }
        )  # fmt: skip
        self.pipes[name] = found["pipe"]
        begin, sandbox, end = found["times"]
        self._add("start to running of a sandbox", "ms", "latency", (sandbox - begin) * 1e3)
        self._add("start to running of a pod", "ms", "latency", (end - begin) * 1e3)
        self._pods_times.append((begin, end))
        series = self._context.run.series("time per pod", "ms", "pods", kind="latency", profile=PROFILE)
        series.add(self.name, number, (end - begin) * 1e3)

    def add_overheads(self, hcs: Sequence[Interval]) -> None:
        """Of all pods that were started so far."""
        for begin, end in self._pods_times:
            seconds = overhead_seconds(hcs, begin, end)
            self._add("start to running of a pod without HCS", "ms", "latency", seconds * 1e3)
        self._pods_times.clear()

    def add_memory(self) -> None:
        count, stats = len(self.pipes), total_stats(self.processes())
        each = stats["private"] / count
        series = self._context.run.series("memory per pod", "kB", "pods", kind="memory", profile=PROFILE)
        series.add(self.name, count, each)
        self._add(f"memory per pod of {count}", "kB", "memory", each)
        self._add(f"threads per pod of {count}", "", "count", stats["threads"] / count)

    def processes(self) -> set[int]:
        return wine_processes(self._machine.prefix, self.shim.program, "serve")

    def call_state(self) -> None:
        rate = wine_costs.call(self._machine, [(pipe, name) for name, pipe in self.pipes.items()], CALLERS, CALLS)
        self._add(f"State, {CALLERS} callers over {len(self.pipes)} pods", "1/s", "rate", rate)

    def write_output(self) -> None:
        ids = spread(list(self.pipes), CALLERS)
        before = cpu_seconds(self.processes())
        found = self._driver.request(output=ids, program=PROGRAM, size=OUTPUT_MIB << 20)
        cpu = cpu_seconds(self.processes()) - before
        size = OUTPUT_MIB * len(ids)
        if found["bytes"] != size << 20:
            raise PodError(f"{found['bytes']} of {size << 20} bytes of output arrived")
        self._add(f"output of {CALLERS} containers", "MiB/s", "throughput", size / found["seconds"])
        self._add(f"CPU per GiB of output of {CALLERS} containers", "s", "cpu", cpu * 1024 / size)

    def call_stats(self) -> None:
        """The CPU time of ten seconds, also if the calls take longer than that."""
        pids, pods = self.processes(), list(self.pipes)
        before = cpu_seconds(pids)
        found = self._driver.request(stats=pods, seconds=STATS_SECONDS)
        cpu = (cpu_seconds(pids) - before) * STATS_SECONDS / found["seconds"]
        self._add(f"CPU of {len(pods)} pods with Stats every 10 s", "ms", "cpu", cpu * 1e3)

    def stop(self) -> None:
        """Raises PodError if a pod or a process stays."""
        count = len(self.pipes)
        for number, name in enumerate(list(self.pipes)):
            self._context.progress.step("scaling down", number + 1, count, self.name)
            del self.pipes[name]
            self._driver.request(stop=name)
        deadline = time.monotonic() + EXIT_TIMEOUT
        while left := self.processes():
            if time.monotonic() > deadline:
                raise PodError(f"{len(left)} shims still run after the end of the last pod")
            time.sleep(0.1)

    def _add(self, name: str, unit: str, kind: str, value: float) -> None:
        self._context.measure(name, unit, kind, PROFILE).add(self.name, value)


def measure(context: RunContext, arguments: argparse.Namespace) -> None:
    with wine.wine_machine() as machine:
        wine_costs.build_program(machine)
        wine_costs.measure(context, machine)
        shims = candidates(machine)
        wine.add_candidates(context, shims)
        with PodDriver(machine) as driver:
            scale(context, [Pods(context, driver, shim) for shim in shims], arguments, machine)


def scale(context: RunContext, pods: Sequence[Pods], arguments: argparse.Namespace, machine: Any) -> None:
    started = 0
    for number in arguments.pods:
        for one, _ in context.rounds(f"{number} pods", pods, number - started, warm_up=0):
            if not one.is_left_out and (reason := shortage(machine)):
                least_important(pods).leave_out(reason)
            one.attempt(partial(one.grow, number))
        started = number
        time.sleep(SETTLE_SECONDS)
        for one in pods:
            one.attempt(one.add_memory)
    journal = Path(machine.environment["HCS_EMULATOR_JOURNAL"])
    hcs = sorted(hcs_intervals(journal.read_text().splitlines())) if journal.exists() else []
    for one in pods:
        one.add_overheads(hcs)
    for stage, action, rounds in (
        ("State calls", Pods.call_state, arguments.call_rounds),
        ("output", Pods.write_output, arguments.output_rounds),
        ("Stats", Pods.call_stats, arguments.stats_rounds),
    ):
        for one, _ in context.rounds(stage, pods, rounds, warm_up=0):
            one.attempt(partial(action, one))
    for one in pods:
        one.attempt(one.stop)


def shortage(machine: Any) -> str:
    """Why no more pods can be started; "" if they can."""
    if (available := available_memory()) < MIN_AVAILABLE_KB:
        return f"{available >> 10} MiB of memory were available"
    used, limit = descriptors(machine.wine.server_pid)
    return f"Wine's server had {used} of {limit} file descriptors" if used > limit - MIN_DESCRIPTORS else ""


def descriptors(pid: int) -> tuple[int, int]:
    """How many a process has, and may have."""
    used = len(os.listdir(f"/proc/{pid}/fd"))
    return used, resource.prlimit(pid, resource.RLIMIT_NOFILE)[0]


def least_important(pods: Sequence[Pods]) -> Pods:
    """The next one to leave out."""
    left = [one for one in pods if not one.is_left_out]
    return min(left, key=lambda one: LEFT_OUT_FIRST.index(one.name) if one.name in LEFT_OUT_FIRST else len(pods))


def candidates(machine: Any) -> list[Shim]:
    """Each scope has a copy of the distribution: the processes of a candidate are those of its program."""
    ours, _, microsoft = wine.candidates(machine)
    found = [ours]
    for name, scope in ((WINE_NAMESPACE, "namespace"), (WINE_NODE, "node")):
        directory = machine.drive / f"shared-{scope}"
        shutil.copytree(ours.file.parent, directory)
        found.append(Shim(name, rf"C:\{directory.name}\{SHIM}", directory / SHIM, scope=scope))
    return [*found, microsoft]


def spread(ids: Sequence[str], number: int) -> list[str]:
    """This many of them, evenly spaced; all, if there are fewer."""
    number = min(number, len(ids))
    return [ids[place * len(ids) // number] for place in range(number)]


def cpu_seconds(pids: Iterable[int]) -> float:
    """The CPU time of processes so far; those that have exited count as zero."""
    total = 0.0
    for pid in pids:
        try:
            total += time.clock_gettime(~pid << 3 | 2)
        except OSError:
            continue
    return total

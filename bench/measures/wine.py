"""The Windows shim as distributed against Microsoft's Go shim: both under Wine, in one prefix, on one emulator.

Ours is measured cold and with a standby. Lifecycles of containers run one at a time, interleaved. The overhead of a
call is its duration without the time that the emulator spent on HCS calls meanwhile, from its journal. Memory is
sampled while one container runs and the shim is idle. Every call is the first of its kind to its shim.

Linux containers run in utility VMs with the emulated guest agent and with Microsoft's. Both shims get the same specs,
layers and boot files. An exec is measured from Exec to the response to Wait.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.harness.context import WARM_UP, RunContext
from bench.harness.goals import WINE_COLD, WINE_GO, WINE_STANDBY
from bench.harness.prerequisites import CHECKOUT, PrerequisiteError
from bench.harness.process_stats import METRICS
from bench.harness.sizes import count
from bench.measures import wine_costs
from bench.measures.overhead import hcs_intervals, overhead_seconds
from bench.measures.wine_driver import SHIM, Container, Driver, LifecycleError, Shim
from bench.report.results import CandidateInfo
from runhcs.process_stats import process_stats

PROCESS = Container("wine", "process")
HYPERVISOR = Container("wine hypervisor", "hypervisor")
BOOT_FILES = r"C:\lcow\boot-"
#: Linux containers in utility VMs, with either guest agent.
LINUX = [
    Container(f"wine Linux VM, {name}", "linux", BOOT_FILES + guest)
    for guest, name in (("emulated", "emulated guest"), ("gcs", "Microsoft's guest"))
]
# Spans of several steps: from the begin of the first to the end of the last.
SPANS = {
    "start to Connect": ("start", "Connect"),
    "start to running": ("start", "Start"),
    "Kill to exit": ("Kill", "Wait"),
}
# Also reported without HCS; the other calls hardly use it.
WITHOUT_HCS = ("Create", "Start", "Pids", "Kill to exit", "Delete")
# A shim is idle when its idle worker threads have exited; ours exit after ten seconds.
IDLE_SECONDS = 12.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rounds", type=count(), default=20, help="lifecycles of each shim (default 20)")
    parser.add_argument("--vm-rounds", type=count(0), default=5, help="lifecycles in utility VMs (default 5)")
    parser.add_argument(
        "--linux-rounds", type=count(0), default=5, help="lifecycles of Linux containers with each guest (default 5)"
    )
    parser.add_argument(
        "--linux-idle-rounds", type=count(0), default=2, help="samples of idle memory with each guest (default 2)"
    )
    parser.add_argument("--idle-rounds", type=count(0), default=6, help="samples of idle memory (default 6)")


def measure(context: RunContext, arguments: argparse.Namespace) -> None:
    with wine_machine() as machine:
        shims = candidates(machine)
        add_candidates(context, shims)
        wine_costs.build_program(machine)
        wine_costs.measure(context, machine)
        lifecycles = [(PROCESS, arguments.rounds), (HYPERVISOR, arguments.vm_rounds)]
        samples = [(PROCESS, arguments.idle_rounds)]
        if arguments.linux_rounds or arguments.linux_idle_rounds:
            create_linux_files(machine)
            lifecycles += [(one, arguments.linux_rounds) for one in LINUX]
            samples += [(one, arguments.linux_idle_rounds) for one in LINUX]
        with Driver(machine) as driver:
            for container, rounds in lifecycles:
                stage, warm_up = f"lifecycles, {container.profile}", WARM_UP if rounds else 0
                for shim, is_kept in context.rounds(stage, shims, rounds, warm_up):
                    _lifecycle(context, driver, shim, container, is_kept)
            for container, rounds in samples:
                for shim, _ in context.rounds(f"idle memory, {container.profile}", shims, rounds, warm_up=0):
                    _idle(context, driver, shim, container)


def _lifecycle(context: RunContext, driver: Driver, shim: Shim, container: Container, is_kept: bool) -> None:
    profile = container.profile
    try:
        lifecycle = driver.run(shim, container)
    except LifecycleError as error:
        context.run.violation(shim.name, "error", str(error), profile=profile)
        return
    if not is_kept:
        return
    hcs = hcs_intervals(driver.journal.read_text().splitlines())
    for name, (begin, end) in with_spans(lifecycle.steps).items():
        context.measure(name, "ms", profile=profile).add(shim.name, (end - begin) * 1e3)
        if name in WITHOUT_HCS:
            seconds = overhead_seconds(hcs, begin, end)
            context.measure(f"{name} without HCS", "ms", profile=profile).add(shim.name, seconds * 1e3)


def with_spans(steps: Mapping[str, Sequence[float]]) -> dict[str, tuple[float, float]]:
    """Begin and end of every step, and of every span of several."""
    times = {name: (begin, end) for name, (begin, end) in steps.items()}
    return times | {name: (times[first][0], times[last][1]) for name, (first, last) in SPANS.items()}


def _idle(context: RunContext, driver: Driver, shim: Shim, container: Container) -> None:
    profile = container.profile
    try:
        lifecycle = driver.run(shim, container, idle_seconds=IDLE_SECONDS)
    except LifecycleError as error:
        context.run.violation(shim.name, "error", str(error), profile=profile)
        return
    of_standby = process_stats(driver.standby[0]) if shim.standby else {}
    for name, (unit, kind) in METRICS.items():
        value = lifecycle.stats[name]
        context.measure(f"{name} of an idle shim", unit, kind=kind, profile=profile).add(shim.name, value)
        if of_standby:
            context.measure(f"{name} of standby", unit, kind=kind, profile=profile).add(shim.name, of_standby[name])
    if container.kind == "linux":
        value = lifecycle.vm_stats["PSS"]
        context.measure("PSS of the VM's processes", "kB", kind="memory", profile=profile).add(shim.name, value)


def candidates(machine: Any) -> list[Shim]:
    support = importlib.import_module("tests.wine.conftest")
    directory = machine.drive / "microsoft"
    directory.mkdir()
    shutil.copy(support.go_programs("hcsshim") / SHIM, directory)
    ours = machine.drive / "node" / SHIM
    return [
        Shim(WINE_COLD, rf"C:\node\{SHIM}", ours),
        Shim(WINE_STANDBY, rf"C:\node\{SHIM}", ours, standby=True),
        Shim(WINE_GO, rf"C:\microsoft\{SHIM}", directory / SHIM),
    ]


def add_candidates(context: RunContext, shims: Sequence[Shim]) -> None:
    context.run.baseline = WINE_GO
    for one in shims:
        digest = hashlib.sha256(one.file.read_bytes()).hexdigest()
        context.run.add_candidate(CandidateInfo(one.name, one.program, "", digest, one.name != WINE_GO))


def create_linux_files(machine: Any) -> None:
    """A layer, a scratch disk and the boot files that select each guest."""
    images = importlib.import_module("tests.support.lcow_image")
    images.make_base_layer(machine.drive / "lcow" / "base")
    images.make_scratch(machine.drive / "lcow")
    for one in LINUX:
        name = one.boot.rpartition("\\")[2]
        images.make_boot_files(machine.drive / "lcow" / name, guest=one.boot.removeprefix(BOOT_FILES))


@contextmanager
def wine_machine() -> Iterator[Any]:
    """The machine of the Wine tests: a prefix with the distribution and the emulator's DLLs, and a running emulator."""
    if not (CHECKOUT / "tests" / "wine").is_dir():
        raise PrerequisiteError("measure wine needs tests/wine: run from a checkout")
    if shutil.which("wine") is None:
        raise PrerequisiteError("measure wine needs Wine: run scripts/wine-setup.sh")
    support = importlib.import_module("tests.wine.conftest")
    directory = Path(tempfile.mkdtemp(prefix="bench-wine-"))
    machine = support.Machine(directory)
    machine.environment["HCS_EMULATOR_JOURNAL"] = str(directory / "journal.jsonl")
    try:
        machine.set_up()
        yield machine
    finally:
        machine.tear_down()
        shutil.rmtree(directory, ignore_errors=True)

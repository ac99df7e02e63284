"""The Windows shim as distributed against Microsoft's Go shim: both under Wine, in one prefix, on one emulator.

Ours is measured cold and with a standby. Lifecycles of containers run one at a time, interleaved. The overhead of a
call is its duration without the time that the emulator spent on HCS calls meanwhile, from its journal. Memory is
sampled while one container runs and the shim is idle.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attrs import frozen

from bench.harness.context import RunContext
from bench.harness.goals import WINE_COLD, WINE_GO, WINE_STANDBY
from bench.harness.prerequisites import CHECKOUT, PrerequisiteError
from bench.harness.process_stats import METRICS, process_stats
from bench.harness.sizes import count
from bench.measures.overhead import overhead_seconds
from bench.report.results import CandidateInfo

PROFILE, ISOLATED = "wine", "wine hypervisor"
SHIM = "containerd-shim-runhcs-v1.exe"
STEPS = ("start", "Connect", "Create", "Start", "State", "Kill", "Wait", "Delete", "delete")
# Also reported without HCS; the other calls hardly use it.
WITHOUT_HCS = ("Create", "Start", "Delete")
STANDBY_TIMEOUT = 60.0
# A shim is idle when its idle worker threads have exited; ours exit after ten seconds.
IDLE_SECONDS = 12.0


@frozen
class Shim:
    """A candidate: its path in the prefix and on Linux."""

    name: str
    program: str
    file: Path
    standby: bool = False


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rounds", type=count(), default=20, help="lifecycles of each shim (default 20)")
    parser.add_argument("--vm-rounds", type=count(0), default=5, help="lifecycles in utility VMs (default 5)")
    parser.add_argument("--idle-rounds", type=count(0), default=6, help="samples of idle memory (default 6)")


def measure(context: RunContext, arguments: argparse.Namespace) -> None:
    with wine_machine() as machine:
        shims = candidates(machine)
        context.run.baseline = WINE_GO
        for one in shims:
            digest = hashlib.sha256(one.file.read_bytes()).hexdigest()
            context.run.add_candidate(CandidateInfo(one.name, one.program, "", digest, one.name != WINE_GO))
        with Driver(machine) as driver:
            for profile, rounds in ((PROFILE, arguments.rounds), (ISOLATED, arguments.vm_rounds)):
                for shim, is_kept in context.rounds(f"lifecycles, {profile}", shims, rounds):
                    _lifecycle(context, driver, shim, profile, is_kept)
            for shim, _ in context.rounds("idle memory", shims, arguments.idle_rounds, warm_up=0):
                _idle(context, driver, shim)


def _lifecycle(context: RunContext, driver: Driver, shim: Shim, profile: str, is_kept: bool) -> None:
    try:
        lifecycle = driver.run(shim, isolated=profile == ISOLATED)
    except LifecycleError as error:
        context.run.violation(shim.name, "error", str(error), profile=profile)
        return
    if not is_kept:
        return
    steps = lifecycle.steps
    for name in STEPS:
        begin, end = steps[name]
        context.measure(name, "ms", profile=profile).add(shim.name, (end - begin) * 1e3)
        if name in WITHOUT_HCS:
            seconds = overhead_seconds(driver.journal, begin, end)
            context.measure(f"{name} without HCS", "ms", profile=profile).add(shim.name, seconds * 1e3)
    running = steps["Start"][1] - steps["start"][0]
    context.measure("start to running", "ms", profile=profile).add(shim.name, running * 1e3)


def _idle(context: RunContext, driver: Driver, shim: Shim) -> None:
    try:
        lifecycle = driver.run(shim, isolated=False, idle_seconds=IDLE_SECONDS)
    except LifecycleError as error:
        context.run.violation(shim.name, "error", str(error), profile=PROFILE)
        return
    of_standby = process_stats(driver.standby[0]) if shim.standby else {}
    for name, (unit, kind) in METRICS.items():
        value = lifecycle.stats[name]
        context.measure(f"{name} of an idle shim", unit, kind=kind, profile=PROFILE).add(shim.name, value)
        if of_standby:
            context.measure(f"{name} of standby", unit, kind=kind, profile=PROFILE).add(shim.name, of_standby[name])


class LifecycleError(Exception):
    """A lifecycle that failed."""


@frozen
class Lifecycle:
    #: Step -> begin and end, in seconds since the epoch.
    steps: dict[str, list[float]]
    #: Of the idle shim, if they were sampled.
    stats: dict[str, float]


class Driver:
    """Runs wine_lifecycles.py in the prefix."""

    def __init__(self, machine: Any) -> None:
        self._machine = machine
        self._number = 0
        #: The standby that the next start takes over: its Linux pid and its pipe.
        self.standby = (0, "")
        self.journal = Path(machine.environment["HCS_EMULATOR_JOURNAL"])

    def __enter__(self) -> Driver:
        script = "Z:" + str(Path(__file__).with_name("wine_lifecycles.py")).replace("/", "\\")
        # Shims that keep running inherit stderr, so it must not be a pipe that is read to its end.
        self._running = subprocess.Popen(
            ["wine", r"C:\python\python.exe", script], env=self._machine.environment, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        return self

    def __exit__(self, *_: object) -> None:
        assert self._running.stdin is not None
        self._running.stdin.close()
        try:
            self._running.wait(20)
        except subprocess.TimeoutExpired:
            self._running.kill()
            self._running.wait()

    def run(self, shim: Shim, isolated: bool, idle_seconds: float = 0.0) -> Lifecycle:
        self._number += 1
        name = f"lifecycle{self._number}"
        directory = self._machine.drive / "bench" / name
        directory.mkdir(parents=True)
        windows = rf"C:\bench\{name}"
        # A cold shim must not start a standby.
        environment = {"RUNHCS_STANDBY": "1" if shim.standby else "0"}
        request = {"program": shim.program, "directory": windows, "id": name, "isolated": isolated}
        standby = self.standby[0] if shim.standby else 0
        self._send({**request, "environment": environment})
        response = self._receive()
        stats: dict[str, float] = {}
        if "idle" in response:
            time.sleep(idle_seconds)
            stats = process_stats(_daemon(name) or standby)
            self._send({})
            response = self._receive()
        if shim.standby:
            self._wait_standby()
        if "error" in response:
            raise LifecycleError(response["error"])
        shutil.rmtree(directory, ignore_errors=True)
        return Lifecycle(response["steps"], stats)

    def _wait_standby(self) -> None:
        """Waits until another standby listens."""
        taken = self.standby[0]
        end = time.monotonic() + STANDBY_TIMEOUT
        while not (found := self._find_standby(taken)):
            if time.monotonic() > end:
                raise SystemExit("bench: the shim started no standby")
            time.sleep(0.05)
        self.standby = found
        self._send({"listening": found[1]})
        if "error" in self._receive():
            raise SystemExit("bench: the standby does not listen")

    def _find_standby(self, taken: int) -> tuple[int, str] | None:
        mark = f"WINEPREFIX={self._machine.prefix}".encode()
        for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
            try:
                words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").split()
                if words[1:2] == [b"standby"] and pid != taken and mark in Path(f"/proc/{pid}/environ").read_bytes():
                    return pid, words[2].decode()
            except OSError:
                continue
        return None

    def _send(self, line: dict[str, Any]) -> None:
        assert self._running.stdin is not None
        self._running.stdin.write(json.dumps(line) + "\n")
        self._running.stdin.flush()

    def _receive(self) -> dict[str, Any]:
        assert self._running.stdout is not None
        line = self._running.stdout.readline()
        if not line:
            raise SystemExit("bench: the driver in Wine has exited")
        response: dict[str, Any] = json.loads(line)
        return response


def _daemon(id: str) -> int:
    """The Linux pid of the daemon of this id; 0 if there is none."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0 ").split(b"\0")
        except OSError:
            continue
        text = b" ".join(words)
        if SHIM.encode() in words[0] and f"id {id} ".encode() in text and b"serve" in text:
            return int(pid)
    return 0


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

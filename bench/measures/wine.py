"""The Windows shim, as users get it, beside Microsoft's Go shim: both under Wine, in one prefix, on one emulator.

Ours is measured cold and with a standby. Lives of containers, one at a time, the candidates taking turns. The overhead
of a call is its time without the time that the emulator spent on HCS calls meanwhile, by its journal. Memory is read
while one container runs, when the shim has had nothing to do for a while.
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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.harness.session import Session
from bench.measures import memory, overhead
from bench.report.results import About

OURS, STANDBY, GO = "runhcs (Wine)", "runhcs standby (Wine)", "Go runhcs (Wine)"
PROFILE, ISOLATED = "wine", "wine hypervisor"
SHIM = "containerd-shim-runhcs-v1.exe"
STEPS = ("start", "Connect", "Create", "Start", "State", "Kill", "Wait", "Delete", "delete")
# What is compared without HCS; the others hardly call it.
BARE = ("Create", "Start", "Delete")
STANDBY_SECONDS = 60.0
# A shim is idle when threads that wait a while for more work have gone; ours wait ten seconds.
IDLE_SECONDS = 12.0
ROOT = Path(__file__).resolve().parents[2]


@dataclass
class Shim:
    """A candidate, in the words of the prefix and of Linux."""

    name: str
    program: str
    file: Path
    standby: bool = False


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rounds", type=int, default=20, help="lives of each shim (default 20)")
    parser.add_argument("--vm-rounds", type=int, default=5, help="lives in utility VMs (default 5)")
    parser.add_argument("--idle-rounds", type=int, default=6, help="times that idle memory is looked at (default 6)")


def measure(session: Session, arguments: argparse.Namespace) -> None:
    with machine() as made:
        shims = candidates(made)
        session.run.baseline = GO
        for one in shims:
            digest = hashlib.sha256(one.file.read_bytes()).hexdigest()
            session.run.candidates.append(About(one.name, one.program, "", digest, one.name != GO))
        with Driver(made) as driver:
            for profile, rounds in ((PROFILE, arguments.rounds), (ISOLATED, arguments.vm_rounds)):
                for shim, kept in session.rounds(f"lives, {profile}", shims, rounds):
                    _live(session, driver, shim, profile, kept)
            for shim, _ in session.rounds("idle memory", shims, arguments.idle_rounds, warm_up=0):
                _idle(session, driver, shim)


def _live(session: Session, driver: Driver, shim: Shim, profile: str, kept: bool) -> None:
    try:
        life = driver.live(shim, isolated=profile == ISOLATED)
    except LifeError as error:
        session.run.violation(shim.name, "error", str(error), profile=profile)
        return
    if not kept:
        return
    steps = life.steps
    for name in STEPS:
        begin, end = steps[name]
        session.measure(name, "ms", profile=profile).add(shim.name, (end - begin) * 1e3)
        if name in BARE:
            without = overhead.without(driver.journal, begin, end)
            session.measure(f"{name} without HCS", "ms", profile=profile).add(shim.name, without * 1e3)
    running = steps["Start"][1] - steps["start"][0]
    session.measure("start to running", "ms", profile=profile).add(shim.name, running * 1e3)


def _idle(session: Session, driver: Driver, shim: Shim) -> None:
    try:
        life = driver.live(shim, isolated=False, settle=IDLE_SECONDS)
    except LifeError as error:
        session.run.violation(shim.name, "error", str(error), profile=PROFILE)
        return
    behind = memory.figures(driver.spare[0]) if shim.standby else {}
    for name, (unit, kind) in memory.MEASURES.items():
        session.measure(f"{name} of an idle shim", unit, kind=kind, profile=PROFILE).add(shim.name, life.memory[name])
        if behind:
            session.measure(f"{name} of standby", unit, kind=kind, profile=PROFILE).add(shim.name, behind[name])


class LifeError(Exception):
    """A life that did not go to its end."""


class Life:
    def __init__(self, steps: dict[str, list[float]], figures: dict[str, float]) -> None:
        self.steps = steps
        self.memory = figures


class Driver:
    """wine_lives.py, in the prefix."""

    def __init__(self, made: Any) -> None:
        self._machine = made
        self._number = 0
        #: The standby that the next start can have: its process on Linux, and its pipe.
        self.spare = (0, "")
        self.journal = Path(made.environment["HCS_EMULATOR_JOURNAL"])

    def __enter__(self) -> Driver:
        script = "Z:" + str(ROOT / "bench" / "wine_lives.py").replace("/", "\\")
        # Its errors go where nobody waits for their end: shims that live on have the stream, too.
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

    def live(self, shim: Shim, isolated: bool, settle: float = 0.0) -> Life:
        self._number += 1
        name = f"life{self._number}"
        directory = self._machine.drive / "bench" / name
        directory.mkdir(parents=True)
        windows = rf"C:\bench\{name}"
        # As if nobody else had been measured: no standby is being loaded meanwhile.
        switch = {"RUNHCS_STANDBY": "1" if shim.standby else "0"}
        asked = {"program": shim.program, "directory": windows, "id": name, "isolated": isolated, "environment": switch}
        spare = self.spare[0] if shim.standby else 0
        self._say(asked)
        answer = self._hear()
        figures: dict[str, float] = {}
        if "idle" in answer:
            time.sleep(settle)
            figures = memory.figures(_daemon(name) or spare)
            self._say({})
            answer = self._hear()
        if shim.standby:
            self._wait_standby()
        if "error" in answer:
            raise LifeError(answer["error"])
        shutil.rmtree(directory, ignore_errors=True)
        return Life(answer["steps"], figures)

    def _wait_standby(self) -> None:
        """Until there is another that listens."""
        taken = self.spare[0]
        end = time.monotonic() + STANDBY_SECONDS
        while not (found := self._standby(taken)):
            if time.monotonic() > end:
                raise SystemExit("bench: no standby has been left")
            time.sleep(0.05)
        self.spare = found
        self._say({"listening": found[1]})
        if "error" in self._hear():
            raise SystemExit("bench: a standby does not listen")

    def _standby(self, taken: int) -> tuple[int, str] | None:
        mark = f"WINEPREFIX={self._machine.prefix}".encode()
        for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
            try:
                words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").split()
                if words[1:2] == [b"standby"] and pid != taken and mark in Path(f"/proc/{pid}/environ").read_bytes():
                    return pid, words[2].decode()
            except OSError:
                continue
        return None

    def _say(self, line: dict[str, Any]) -> None:
        assert self._running.stdin is not None
        self._running.stdin.write(json.dumps(line) + "\n")
        self._running.stdin.flush()

    def _hear(self) -> dict[str, Any]:
        assert self._running.stdout is not None
        line = self._running.stdout.readline()
        if not line:
            raise SystemExit("bench: the driver in Wine has ended")
        answer: dict[str, Any] = json.loads(line)
        return answer


def _daemon(id: str) -> int:
    """The Linux pid of the process that was started to serve this id; 0 if none was."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0 ").split(b"\0")
        except OSError:
            continue
        text = b" ".join(words)
        if SHIM.encode() in words[0] and f"id {id} ".encode() in text and b"serve" in text:
            return int(pid)
    return 0


def candidates(made: Any) -> list[Shim]:
    support = importlib.import_module("tests.wine.conftest")
    directory = made.drive / "rival"
    directory.mkdir()
    shutil.copy(support.go_programs("hcsshim") / SHIM, directory)
    ours = made.drive / "node" / SHIM
    return [
        Shim(OURS, rf"C:\node\{SHIM}", ours),
        Shim(STANDBY, rf"C:\node\{SHIM}", ours, standby=True),
        Shim(GO, rf"C:\rival\{SHIM}", directory / SHIM),
    ]


@contextmanager
def machine() -> Iterator[Any]:
    """The machine that the Windows tests use: a prefix with the distribution, the emulator's DLLs, the emulator."""
    support = importlib.import_module("tests.wine.conftest")
    directory = Path(tempfile.mkdtemp(prefix="bench-wine-"))
    made = support.Machine(directory)
    made.environment["HCS_EMULATOR_JOURNAL"] = str(directory / "journal.jsonl")
    try:
        made.set_up()
        yield made
    finally:
        made.tear_down()
        shutil.rmtree(directory, ignore_errors=True)

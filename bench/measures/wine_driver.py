"""Runs Windows shims in a Wine prefix: the Linux side of wine_lifecycles.py, for `wine`, and the processes of shims."""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any, Self

from attrs import frozen

from bench.harness.process_stats import total_stats
from runhcs.process_stats import process_stats

SHIM = "containerd-shim-runhcs-v1.exe"
STANDBY_TIMEOUT = 60.0
# A request waits for several calls of at most a minute each.
RESPONSE_TIMEOUT = 300.0
# The worker of a Linux VM.
VM_WORKER = "hcs_emulator.vm.linux"


@frozen
class Shim:
    """A candidate: its path in the prefix and on Linux."""

    name: str
    program: str
    file: Path
    standby: bool = False
    #: ShimScope, if pods share a process.
    scope: str = ""


@frozen
class Container:
    """What a lifecycle runs: `kind` is process, hypervisor or linux; `boot` are the boot files of a Linux VM."""

    profile: str
    kind: str
    boot: str = ""


class LifecycleError(Exception):
    """A lifecycle that failed."""


@frozen
class Lifecycle:
    #: Step -> begin and end, in seconds since the epoch.
    steps: dict[str, list[float]]
    #: Of the idle shim, if they were sampled.
    stats: dict[str, float]
    #: Of the processes of a Linux VM, with the stats of the shim.
    vm_stats: dict[str, float]


class Script:
    """A script of this directory that Python for Windows runs in the prefix: a JSON line per request and response."""

    name = ""

    def __init__(self, machine: Any) -> None:
        self.machine = machine

    def __enter__(self) -> Self:
        script = "Z:" + str(Path(__file__).with_name(self.name)).replace("/", "\\")
        # Shims that keep running inherit stderr, so it must not be a pipe that is read to its end.
        self._running = subprocess.Popen(
            ["wine", r"C:\python\python.exe", script], env=self.machine.environment, stdin=subprocess.PIPE,
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

    def send(self, line: dict[str, Any]) -> None:
        assert self._running.stdin is not None
        self._running.stdin.write(json.dumps(line) + "\n")
        self._running.stdin.flush()

    def receive(self) -> dict[str, Any]:
        """The response to the last request; there is one line for each, so nothing is buffered here."""
        assert self._running.stdout is not None
        if not select.select([self._running.stdout], [], [], RESPONSE_TIMEOUT)[0]:
            raise SystemExit(f"bench: {self.name} in Wine does not respond")
        line = self._running.stdout.readline()
        if not line:
            raise SystemExit(f"bench: {self.name} in Wine has exited")
        response: dict[str, Any] = json.loads(line)
        return response


class Driver(Script):
    """Runs wine_lifecycles.py in the prefix."""

    name = "wine_lifecycles.py"

    def __init__(self, machine: Any) -> None:
        super().__init__(machine)
        self._number = 0
        #: The standby that the next start takes over: its Linux pid and its pipe.
        self.standby = (0, "")
        self.journal = Path(machine.environment["HCS_EMULATOR_JOURNAL"])

    def run(self, shim: Shim, container: Container, idle_seconds: float = 0.0) -> Lifecycle:
        self._number += 1
        name = f"lifecycle{self._number}"
        directory = self.machine.drive / "bench" / name
        directory.mkdir(parents=True)
        windows = rf"C:\bench\{name}"
        # A cold shim must not start a standby.
        environment = {"RUNHCS_STANDBY": "1" if shim.standby else "0"}
        request = {"program": shim.program, "directory": windows, "id": name}
        request |= {"kind": container.kind, "boot": container.boot}
        standby = self.standby[0] if shim.standby else 0
        self.send({**request, "environment": environment})
        response = self.receive()
        stats: dict[str, float] = {}
        vm_stats: dict[str, float] = {}
        has_sample = True
        if "idle" in response:
            if idle_seconds:
                time.sleep(idle_seconds)
                try:
                    stats = process_stats(_daemon(name) or standby)
                except FileNotFoundError:  # a former standby that another start has taken over
                    has_sample = False
                vm_stats = total_stats(_vm_processes(self.machine.emulator))
            self.send({})
            response = self.receive()
        if shim.standby:
            self._wait_standby()
        if "error" in response:
            raise LifecycleError(response["error"])
        if not has_sample:
            raise LifecycleError("no sample: the process of the shim was not found")
        shutil.rmtree(directory, ignore_errors=True)
        return Lifecycle(response["steps"], stats, vm_stats)

    def _wait_standby(self) -> None:
        """Waits until another standby listens."""
        taken = self.standby[0]
        end = time.monotonic() + STANDBY_TIMEOUT
        while not (found := self._find_standby(taken)):
            if time.monotonic() > end:
                raise SystemExit("bench: the shim started no standby")
            time.sleep(0.05)
        self.standby = found
        self.send({"listening": found[1]})
        if "error" in self.receive():
            raise SystemExit("bench: the standby does not listen")

    def _find_standby(self, taken: int) -> tuple[int, str] | None:
        mark = f"WINEPREFIX={self.machine.prefix}".encode()
        for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
            try:
                words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").split()
                if words[1:2] == [b"standby"] and pid != taken and mark in Path(f"/proc/{pid}/environ").read_bytes():
                    return pid, words[2].decode()
            except OSError:
                continue
        return None


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


def wine_processes(prefix: Path, program: str, word: str) -> set[int]:
    """The Linux pids of the processes of this program in a prefix that have the word on their command line."""
    mark = f"WINEPREFIX={prefix}".encode()
    found = set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            is_wanted = words[0].lower() == program.lower().encode() and word.encode() in words
            if is_wanted and mark in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                found.add(int(pid))
        except OSError:
            continue  # it has exited
    return found


def _vm_processes(emulator: Path) -> set[int]:
    """The workers of Linux VMs of this emulator, with all processes below them."""
    mark = f"HCS_EMULATOR_DIR={emulator}".encode()
    children: dict[int, list[int]] = {}
    workers = []
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        try:
            stat = Path(f"/proc/{pid}/stat").read_text()
            children.setdefault(int(stat.rpartition(")")[2].split()[1]), []).append(pid)
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if VM_WORKER.encode() in words and mark in Path(f"/proc/{pid}/environ").read_bytes():
                workers.append(pid)
        except OSError:
            continue  # it has exited
    found: set[int] = set()
    while workers:
        pid = workers.pop()
        if pid not in found:
            found.add(pid)
            workers += children.get(pid, ())
    return found

"""What all candidates share in a run: a directory, an events endpoint, an emulator, and the look for leftovers."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.harness import leaks
from bench.harness.bundles import MARK as CONTAINER_MARK
from bench.harness.candidates import Candidate
from bench.harness.event_log import EventLog
from bench.harness.standby import pids as standby_pids
from runhcs.emulator import command as emulator_command

MARK = "BENCH_NODE"
TIMEOUT = 60.0
# A standby that nobody needs any more is gone soon after the run.
STANDBY_IDLE = "60"


class Node:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.address = str(directory / "containerd.sock")
        self.events = EventLog(Path(f"{self.address}.ttrpc"))
        #: Socket paths that shims have told, by candidate.
        self.told: dict[str, set[str]] = {}
        #: Of the containers since the last look for leftovers.
        self.ids: set[str] = set()
        self.spans = directory / "spans"
        self.spans.mkdir()
        self._hcs = directory / "hcs"
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("HCS_EMULATOR_", "RUNHCS_"))},
            MARK: str(directory),
            "HCS_EMULATOR_DIR": str(self._hcs),
            "RUNHCS_STANDBY_IDLE": STANDBY_IDLE,
        }
        self._emulator("start")

    def _emulator(self, verb: str) -> None:
        control = [sys.executable, "-m", "runhcs", "emulator", "--directory", str(self._hcs), verb]
        # Not this node's mark: it is no part of a candidate.
        subprocess.run(control, check=True, stdout=subprocess.DEVNULL, timeout=TIMEOUT)

    def emulator_status(self) -> dict[str, Any]:
        return emulator_command(str(self._hcs), "status")

    def _marks(self) -> set[str]:
        """What shims and their commands have in their environment, and what containers have."""
        return {f"{MARK}={self.directory}", *(f"{CONTAINER_MARK}={name}" for name in self.ids)}

    def leftovers(self, candidates: Iterable[Candidate]) -> dict[str, list[str]]:
        """What each candidate has left behind after a measure; what cannot be told apart is everybody's."""
        candidates = list(candidates)
        found: dict[str, list[str]] = {}
        for one in candidates:
            own = [one.sockets] if one.sockets is not None else []
            told = self.told.get(one.name, set())
            if left := leaks.settle(lambda told=told, own=own: leaks.sockets(told, own)):  # type: ignore[misc]
                found[one.name] = left
            told.clear()
        spared = {pid for one in candidates for pid in standby_pids(one)}
        shared = leaks.settle(lambda: leaks.processes(self._marks(), spared))
        shared += leaks.settle(lambda: leaks.systems(self.emulator_status()))
        shared += leaks.mounts(self.directory) + leaks.runc_state(self.directory / "runc")
        shared += leaks.settle(lambda: leaks.control_groups(self.ids))
        self.ids.clear()
        if shared:
            found["all"] = shared
        return found

    def close(self) -> None:
        """Nothing that a candidate has left behind outlives the node."""
        self.events.close()
        for line in leaks.processes(self._marks()):
            try:
                os.kill(int(line.split()[1].rstrip(":")), signal.SIGKILL)
            except ProcessLookupError:
                pass
        self._emulator("stop")
        for line in leaks.control_groups(self.ids):
            leaks.remove_group(Path(line.removeprefix("control group ")))
        for point in reversed(leaks.mounts(self.directory)):
            subprocess.run(["umount", "-l", point.removeprefix("mount ")], check=False, timeout=TIMEOUT)


@contextmanager
def node() -> Iterator[Node]:
    # Socket paths are short, and so must the directory's be.
    directory = Path(tempfile.mkdtemp(prefix="bench-", dir="/tmp"))
    try:
        made = Node(directory)
        try:
            yield made
        finally:
            made.close()
    finally:
        if not leaks.mounts(directory):  # never through a mount
            shutil.rmtree(directory, ignore_errors=True)

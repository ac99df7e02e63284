"""The node that all candidates of a run share: a directory, an events endpoint, an emulator, and the leak check."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
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
# Seconds after which an unused standby exits: soon after the run.
STANDBY_IDLE = "60"


class Node:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.address = str(directory / "containerd.sock")
        self.events = EventLog(Path(f"{self.address}.ttrpc"))
        #: Socket paths that `start` returned, by candidate.
        self.addresses: dict[str, set[str]] = {}
        #: Ids of the containers since the last leak check.
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
        # Without this node's mark: the emulator does not belong to a candidate.
        subprocess.run(control, check=True, stdout=subprocess.DEVNULL, timeout=TIMEOUT)

    def emulator_status(self) -> dict[str, Any]:
        return emulator_command(str(self._hcs), "status")

    def _marks(self) -> set[str]:
        """Environment variables of the processes of shims and of containers."""
        return {f"{MARK}={self.directory}", *(f"{CONTAINER_MARK}={name}" for name in self.ids)}

    def leaks(self, candidates: Iterable[Candidate]) -> dict[str, list[str]]:
        """Leaked resources by candidate after a measure; those of an unknown candidate are under `all`."""
        candidates = list(candidates)
        found: dict[str, list[str]] = {}
        for one in candidates:
            own = [one.sockets] if one.sockets is not None else []
            addresses = self.addresses.pop(one.name, set())
            if leaked := leaks.wait_none(partial(leaks.sockets, addresses, own)):
                found[one.name] = leaked
        standbys = {pid for one in candidates for pid in standby_pids(one)}
        shared = leaks.wait_none(lambda: leaks.processes(self._marks(), standbys))
        shared += leaks.wait_none(lambda: leaks.systems(self.emulator_status()))
        shared += leaks.mounts(self.directory) + leaks.runc_state(self.directory / "runc")
        shared += leaks.wait_none(lambda: leaks.control_groups(self.ids))
        self.ids.clear()
        if shared:
            found["all"] = shared
        return found

    def close(self) -> None:
        """Terminates and removes everything that candidates leaked."""
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
    # A short path, since the length of socket paths is limited.
    directory = Path(tempfile.mkdtemp(prefix="bench-", dir="/tmp"))
    try:
        created = Node(directory)
        try:
            yield created
        finally:
            created.close()
    finally:
        if not leaks.mounts(directory):  # never delete through a mount
            shutil.rmtree(directory, ignore_errors=True)

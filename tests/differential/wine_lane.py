"""One shim under Wine, with a Wine prefix and an emulator of its own, in a thread of its own.

Two lanes, Microsoft's shim and ours, run the same cases at the same time. A thread that starts programs must live as
long as they do (`with_pdeathsig`), so the thread of a lane does everything.
"""

from __future__ import annotations

import shutil
import tempfile
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.parity.environment import KERNELS, create_host_files
from tests.parity.record import RecordingMachine
from tests.support.lcow_image import make_boot_files

STOP_TIMEOUT = 120.0
# The files of containers and the journal of an emulator grow.
MOST_CASES = 1000


class WineLane:
    def __init__(self, program: str) -> None:
        self._program = program
        self._thread = ThreadPoolExecutor(1, f"lane-{program}")
        self._machine: RecordingMachine | None = None
        self._directory = Path()
        self._cases = 0
        self._group = self._failed_group = ""
        self._ids: list[str] = []
        self._ready = self._thread.submit(self._machine_for, "")

    def submit(
        self, group: str, name: str, scenario: dict[str, Any], is_last: bool
    ) -> Future[dict[str, Any] | Exception]:
        """The recorded case, or why there is none."""
        return self._thread.submit(self._record, group, name, scenario, is_last)

    def close(self) -> None:
        try:
            self._thread.submit(self._tear_down).result(STOP_TIMEOUT)
        finally:
            self._thread.shutdown()

    def _record(self, group: str, name: str, scenario: dict[str, Any], is_last: bool) -> dict[str, Any] | Exception:
        if group == self._failed_group:
            return AssertionError("an earlier task of the pod failed")
        try:
            machine = self._machine_for(group)
            recorded = machine.record_one(group, name, scenario, self._program, is_last)
            recorded["left"] = machine.left() if is_last else []
            self._ids.append(scenario.get("id", name))
            if is_last:
                self._remove_files(machine)
                create_host_files(machine.drive)  # Microsoft's shim deletes them now and then: docs/findings.md
        except Exception as error:
            # A new machine for the next case, since this one has the leftovers of a shim.
            self._failed_group = group
            self._ids.clear()
            self._tear_down()
            return error
        return recorded

    def _remove_files(self, machine: RecordingMachine) -> None:
        for task in self._ids:
            for parent in ("bundles", "snapshots"):
                shutil.rmtree(machine.drive / parent / task, ignore_errors=True)
        self._ids.clear()

    def _machine_for(self, group: str) -> RecordingMachine:
        self._cases += 1
        if self._machine is not None and self._cases > MOST_CASES and group != self._group:
            self._tear_down()
        if self._machine is None:
            self._cases = 0
            self._directory = Path(tempfile.mkdtemp(prefix="differential-"))
            self._machine = RecordingMachine(self._directory)
            self._machine.set_up()
            self._machine.create_case_files()
            make_boot_files(self._machine.drive / "node" / "LinuxBootFiles", KERNELS, "gcs")
        self._group = group
        return self._machine

    def _tear_down(self) -> None:
        machine, self._machine = self._machine, None
        if machine is not None:
            machine.tear_down()
            shutil.rmtree(self._directory, ignore_errors=True)

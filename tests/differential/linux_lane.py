"""Our shim on Linux, on an emulator of its own: replays what was recorded under Wine, and returns what differs."""

from __future__ import annotations

import json
import os
import shutil
from contextlib import suppress
from typing import Any

from tests.differential.linux_scenarios import sandbox_spec
from tests.parity import differences
from tests.parity.cases import Case
from tests.parity.environment import CaseEnvironment, create_linux_files, create_networks, create_scratch
from tests.parity.record import BUILD
from tests.parity.replay import Replay
from tests.support.emulator import Emulator
from tests.support.eventually import eventually
from tests.support.shims import Shims


class LinuxLane:
    def __init__(self) -> None:
        self._set_up()

    def _set_up(self) -> None:
        self._emulator = Emulator("--build", BUILD)
        create_networks([sandbox_spec({})], self._emulator.env)
        self._shims = Shims(self._emulator.env)
        self._shims.env["TZ"] = "UTC"
        self._environment = CaseEnvironment(self._emulator, self._shims.directory, [])
        create_linux_files(self._environment.root, self._emulator.directory / "LinuxBootFiles", "emulated", [])
        self._replay = Replay(self._emulator, self._shims, self._environment)

    def close(self) -> None:
        self._replay.close()
        try:
            self._shims.close()
        finally:
            self._emulator.stop()

    def reset(self) -> None:
        """Begin again, after a case of which something is left."""
        with suppress(AssertionError):
            self.close()
        self._set_up()

    def run(self, case: Case, is_last: bool) -> list[str]:
        """The differences of a case. `is_last`: nothing may be left afterwards."""
        if case.is_linux:
            create_scratch(self._environment.root, case.spec, case.run.get("rootfs") or [])
        begin = self._journal_size()
        try:
            given = self._replay.run(case)
        finally:
            self._emulator.control("fault-clear")
        if is_last:
            self._expect_nothing_left()
        eventually(self._is_quiet, "the end of all calls")
        found = differences.of(case, given, self._journal(begin), self._environment)
        if is_last:
            self._remove_files()
        return found

    def _expect_nothing_left(self) -> None:
        """The shims have been told to shut down, or were killed."""
        for shim in reversed(self._shims.shims):
            eventually(lambda shim=shim: not shim.alive, "the exit after Shutdown")  # type: ignore[misc]
            shim.delete_command()
        status = self._emulator.control
        eventually(lambda: status("status")["systems"] == [] and not self._emulator.descendants(), "nothing left")

    def _remove_files(self) -> None:
        for client in self._shims.clients:
            client.close()
        self._shims.clients.clear()
        for shim in self._shims.shims:
            shutil.rmtree(shim.path, ignore_errors=True)
            shutil.rmtree(self._environment.root / "snapshots" / shim.id, ignore_errors=True)
            # The parents of the root directory of a host process container, which is at the same path of this machine.
            for path in (f"/{shim.id}", f"/hpc-{shim.id}", f"/hpc/{shim.id}/deep", f"/hpc/{shim.id}"):
                with suppress(OSError):
                    os.rmdir(path)
        self._shims.shims.clear()
        self._replay.close()
        self._replay = Replay(self._emulator, self._shims, self._environment)

    def _is_quiet(self) -> bool:
        before = self._journal_size()
        self._emulator.control("status")
        return self._journal_size() == before

    def _journal_size(self) -> int:
        return self._emulator.journal_path.stat().st_size if self._emulator.journal_path.exists() else 0

    def _journal(self, begin: int) -> list[dict[str, Any]]:
        with self._emulator.journal_path.open("rb") as file:
            file.seek(begin)
            return [json.loads(line) for line in file]

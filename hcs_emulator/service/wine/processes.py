"""The Linux processes of a Windows program under Wine, and their stats.

Wine has its own process ids, and the Linux parent of a program is not the program that started it. But a process
inherits its environment: a mark in it identifies the descendants of a program.
"""

from __future__ import annotations

import os
from typing import Any

from hcs_emulator.service.silo.stats import ProcessUsage, StatsCollector, process_entry, started

MARK = "HCS_EMULATOR_PROCESS"


class Programs:
    """The programs of one silo that `wine-run.exe` has started, and their descendants."""

    def __init__(self) -> None:
        # By mark: the Windows pid of the program, and the Linux pid of its wine-run.exe.
        self._programs: dict[bytes, tuple[int, int]] = {}
        self._stats = StatsCollector()
        # The stats of an exited process are lost, since its parent is not in the silo: the last ones count. By pid and
        # start time, of processes that exist; and the sum of the others.
        self._used: dict[tuple[int, float], ProcessUsage] = {}
        self._used_by_exited = ProcessUsage(None)

    def add(self, mark: str, number: int, runner: int) -> None:
        self._programs[f"{MARK}={mark}".encode()] = (number, runner)

    def remove(self, mark: str) -> None:
        """The program and all its descendants have exited."""
        del self._programs[f"{MARK}={mark}".encode()]

    def statistics(self, started_at: float) -> dict[str, Any]:
        """HCS's Statistics property. Processes that exit before the first query are not included."""
        running = [pid for pids in self._running().values() for pid in pids]
        used = {(pid, start): ProcessUsage(pid) for pid in running if (start := started(pid))}
        for (pid, start), usage in self._used.items():
            if (pid, start) in used:
                continue
            if started(pid) == start:
                used[pid, start] = usage  # it executes another program, and has no environment for a moment
            else:
                self._used_by_exited.add(usage)
        self._used = used
        return self._stats.document([self._used_by_exited, *used.values()], running, started_at, None)

    def process_list(self) -> list[dict[str, Any]]:
        """HCS's ProcessList property. Children of a program are not listed: only Wine's server knows their ids."""
        running = self._running()
        listed = []
        for number, _ in self._programs.values():
            entry = process_entry(running[number][0]) if number in running else {}
            listed.append({"ImageName": "", **entry, "ProcessId": number})
        return listed

    def _running(self) -> dict[int, list[int]]:
        """Linux pids by Windows pid: the program itself, then its descendants."""
        found: dict[int, list[int]] = {}
        for name in os.listdir("/proc"):
            if not name.isdigit():
                continue
            try:
                with open(f"/proc/{name}/environ", "rb") as file:
                    environment = file.read()
            except OSError:
                continue  # it has just exited
            for mark in self._programs.keys() & set(environment.split(b"\0")):
                number, runner = self._programs[mark]
                if int(name) != runner:
                    found.setdefault(number, []).append(int(name))
        return {number: sorted(pids, key=lambda pid: (started(pid), pid)) for number, pids in found.items()}

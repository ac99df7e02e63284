"""Which processes of Linux are a Windows program, and what they use.

Wine's ids of processes are its own, and a program's parent, for Linux, is not who started it. But the environment that
Linux shows of a process is handed down from program to program: a mark in it tells whose descendants they are.
"""

from __future__ import annotations

import os
from typing import Any

from hcs_emulator.service.silo.stats import ProcessUsage, StatsCollector, process_entry, started

MARK = "HCS_EMULATOR_PROCESS"


class Programs:
    """Those of one silo that `wine-run.exe` has started, and whatever they have started."""

    def __init__(self) -> None:
        #: By mark: Windows' id of the program, and Linux' of the process that runs wine-run.exe.
        self._programs: dict[bytes, tuple[int, int]] = {}
        self._stats = StatsCollector()
        # Linux forgets a process that has ended, since its parent is not in the silo: its last figures are kept.
        self._used: dict[tuple[int, float], ProcessUsage] = {}

    def add(self, mark: str, number: int, runner: int) -> None:
        self._programs[f"{MARK}={mark}".encode()] = (number, runner)

    def remove(self, mark: str) -> None:
        """It has ended, and everything that it has started."""
        del self._programs[f"{MARK}={mark}".encode()]

    def statistics(self, started_at: float) -> dict[str, Any]:
        """HCS's Statistics property. Whatever ended before anybody asked is not in it."""
        running = [pid for pids in self._running().values() for pid in pids]
        self._used |= {(pid, started(pid)): ProcessUsage(pid) for pid in running}
        return self._stats.document(self._used.values(), running, started_at, None)

    def process_list(self) -> list[dict[str, Any]]:
        """HCS's ProcessList property. What a program has started itself has ids that only Wine's server knows."""
        running = self._running()
        listed = []
        for number, _ in self._programs.values():
            entry = process_entry(running[number][0]) if number in running else {}
            listed.append({"ImageName": "", **entry, "ProcessId": number})
        return listed

    def _running(self) -> dict[int, list[int]]:
        """Linux' pids by Windows' id: the program itself, then what it has started."""
        found: dict[int, list[int]] = {}
        for name in os.listdir("/proc"):
            if not name.isdigit():
                continue
            try:
                with open(f"/proc/{name}/environ", "rb") as file:
                    environment = file.read()
            except OSError:
                continue  # it has just ended
            for mark in self._programs.keys() & set(environment.split(b"\0")):
                number, runner = self._programs[mark]
                if int(name) != runner:
                    found.setdefault(number, []).append(int(name))
        return {number: sorted(pids, key=lambda pid: (started(pid), pid)) for number, pids in found.items()}

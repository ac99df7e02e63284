"""The driver's part of replayed jobs: gives the recorded answers to the shim, sends it the exits, and compares."""

from __future__ import annotations

import json
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hcs_emulator.replay.script import Difference
from runhcs.replay.job_answers import ANSWERS, DONE_SOCKET, PATIENCE, REPORT, SOCKET

# Calls that depend on the moment: statistics are asked for by others, and a container that exits polls.
INCIDENTAL = ("statistics", "process_list", "wait_empty")
ROOT = Path(__file__).resolve().parents[2]
_RETRY_SECONDS = 0.01
_MAX_INDEX = 20


class ReplayedJobs:
    """`normalize` turns arguments of this machine into those of the recording; `on_done` gets each entry whose call has
    been answered."""

    def __init__(
        self,
        directory: Path,
        entries: list[dict[str, Any]],
        normalize: Callable[[Any], Any],
        on_done: Callable[[object], object],
    ) -> None:
        self._directory = directory
        self._entries = entries
        self._normalize = normalize
        self._on_done = on_done
        self._done = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)

    def prepare(self, *, delays: bool) -> Path:
        """Write the answers; returns a launcher of the shim that uses them."""
        self._done.bind(str(self._directory / DONE_SOCKET))
        threading.Thread(target=self._receive, daemon=True).start()
        answers = {"delays": delays, "entries": self._entries}
        (self._directory / ANSWERS).write_text(json.dumps(answers))
        program = self._directory / "shim.py"
        program.write_text(
            f"import sys\nsys.path.insert(0, {str(ROOT)!r})\n"
            f"from runhcs.replay import job_answers\njob_answers.install({str(self._directory)!r})\n"
            "from shim.__main__ import command\ncommand()\n"
        )
        launcher = self._directory / "containerd-shim-runhcs-v1"
        launcher.write_text(f'#!/bin/sh\nexec {sys.executable} {program} "$@"\n')
        launcher.chmod(0o755)
        return launcher

    def _receive(self) -> None:
        while index := self._done.recv(_MAX_INDEX):
            self._on_done(self._entries[int(index)])

    def close(self) -> None:
        self._done.shutdown(socket.SHUT_RD)  # ends its thread
        self._done.close()

    def send(self, event: dict[str, Any]) -> bool:
        """False if the shim has no job in time."""
        deadline = time.monotonic() + PATIENCE
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            while True:
                try:
                    sender.sendto(json.dumps(event).encode(), str(self._directory / SOCKET))
                    return True
                except OSError:
                    if time.monotonic() > deadline:
                        return False
                    time.sleep(_RETRY_SECONDS)

    def differences(self) -> list[Difference]:
        path = self._directory / REPORT
        lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        found, used = [], set()
        for line in lines:
            actual = self._normalize(line["arguments"])
            if line["index"] is None:
                if line["function"] not in INCIDENTAL:
                    problem = "the recording has no such call"
                    found.append(Difference(f"job {line['function']}", problem, None, actual))
                continue
            used.add(line["index"])
            entry = self._entries[line["index"]]
            if entry["arguments"] != actual:
                found.append(Difference(f"job {entry['function']}", "other arguments", entry["arguments"], actual))
        for index, entry in enumerate(self._entries):
            if index not in used and entry["function"] not in INCIDENTAL:
                found.append(Difference(f"job {entry['function']}", "the replay has no such call", entry["arguments"]))
        return found

"""Daemons of a cluster: started in its network, found again by a pid file, stopped by a signal."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from deploy.cluster import network
from deploy.cluster.settings import ClusterError, Settings

STOP_TIMEOUT = 60.0
LOG_LINES = 20


class Daemon:
    """One program. `pid` is 0 unless it runs."""

    def __init__(self, settings: Settings, name: str) -> None:
        self.settings = settings
        self.name = name
        self.log = settings.logs / f"{name}.log"
        self._pid_file = settings.directory / "run" / f"{name}.pid"

    def start(self, command: Sequence[str], env: Mapping[str, str] | None = None) -> None:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        self._pid_file.parent.mkdir(exist_ok=True)
        with open(self.log, "ab") as log:
            process = subprocess.Popen(
                [*network.inside(self.settings), *command],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=dict(env or os.environ),
                cwd=self.settings.directory, start_new_session=True,
            )  # fmt: skip
        # Pids are used again; a pid with its start time is not.
        self._pid_file.write_text(f"{process.pid} {start_time(process.pid)}\n")

    @property
    def pid(self) -> int:
        try:
            pid, started = map(int, self._pid_file.read_text().split())
        except (OSError, ValueError):
            return 0
        return pid if start_time(pid) == started else 0

    def wait_for(self, condition: Callable[[], bool], what: str, timeout: float) -> None:
        """Wait until it works. An exit or a timeout is an error with the end of its log."""
        deadline = time.monotonic() + timeout
        while not condition():
            if not self.pid:
                raise ClusterError(f"{self.name} exited. The end of {self.log}:\n{self.log_end()}")
            if time.monotonic() > deadline:
                raise ClusterError(
                    f"{self.name}: not within {timeout:g} s: {what}. The end of {self.log}:\n{self.log_end()}"
                )
            time.sleep(0.1)

    def stop(self, number: int = signal.SIGTERM) -> None:
        """Send a signal and wait for the exit; after the timeout it is killed."""
        deadline = time.monotonic() + STOP_TIMEOUT
        while pid := self.pid:
            try:
                os.kill(pid, number if time.monotonic() < deadline else signal.SIGKILL)
            except ProcessLookupError:
                break
            self._wait_for_exit(pid, 1.0)
        self._pid_file.unlink(missing_ok=True)

    def _wait_for_exit(self, pid: int, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while self.pid == pid and time.monotonic() < deadline:
            reap(pid)
            time.sleep(0.01)

    def log_end(self, lines: int = LOG_LINES) -> str:
        try:
            return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])
        except OSError:
            return "(no log)"


def reap(pid: int) -> None:
    """Collect the exit of a child; of another process nothing."""
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        pass


def start_time(pid: int) -> int:
    """In ticks since the machine booted; 0 if there is no such process, or only its exit status is left."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return 0 if fields[0] in "ZX" else int(fields[19])


def with_text_in_environment(text: str) -> list[int]:
    """Processes whose environment contains a text, such as a directory of a cluster."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit() and int(entry) != os.getpid():
            try:
                environment = Path(f"/proc/{entry}/environ").read_bytes()
            except OSError:
                continue
            if text.encode() in environment and start_time(int(entry)):
                found.append(int(entry))
    return found

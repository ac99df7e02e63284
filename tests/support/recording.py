"""`runhcs record` as a process, for tests."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.support.agent import Places

EXIT_SECONDS = 60


class Recording:
    """Started when `runhcs record` says that it records."""

    def __init__(self, tools: Places, path: Path, *arguments: str) -> None:
        self.path = path
        self._process = subprocess.Popen(
            [sys.executable, "-m", "runhcs", "record", "-o", str(path), *arguments, *tools.places],
            env=tools.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self._process.stdout is not None
        self.first_line = self._process.stdout.readline()
        if not self.first_line.startswith("recording "):
            raise AssertionError(f"runhcs record: {self._process.communicate(timeout=EXIT_SECONDS)}")

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def kill(self) -> None:
        """End it at once, if it has not ended."""
        self._process.kill()
        self._process.communicate()

    def stop(self) -> str:
        """Ctrl+C; returns what it printed then."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
        return self.wait()

    def wait(self) -> str:
        try:
            output, errors = self._process.communicate(timeout=EXIT_SECONDS)
        finally:
            self._process.kill()
        assert self._process.returncode == 0, output + errors
        return output + errors

    def entries(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.path.read_text().splitlines()]

    def of_kind(self, kind: str) -> list[dict[str, Any]]:
        return [entry for entry in self.entries() if entry.get("kind") == kind]

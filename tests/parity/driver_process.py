"""The driver of recordings (`record_driver.py`), a program under Wine that serves one scenario after the other.

Starting Python under Wine takes as long as a whole case, so one driver serves many of them. It is replaced after some,
because a pipe that no shim has opened keeps a thread of it.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import time
from pathlib import Path
from typing import Any

from tests.parity.requests import DONE
from tests.wine.conftest import ROOT, Machine

TIMEOUT = 240.0
POLL_SECONDS = 1.0
STOP_TIMEOUT = 15.0
MOST_SCENARIOS = 150


class DriverError(AssertionError):
    """The driver exited, or did not answer."""


class DriverProcess:
    def __init__(self, machine: Machine, program: str) -> None:
        self._machine = machine
        self._output = b""
        driver = seen_from_wine(ROOT / "tests/parity/record_driver.py")
        self._process = subprocess.Popen(
            ["wine", r"C:\python\python.exe", driver, program], env=machine.environment, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        self._scenarios = 0
        self._group = ""

    def is_exhausted(self, group: str) -> bool:
        return self._scenarios >= MOST_SCENARIOS and group != self._group

    def run(self, group: str, scenario: dict[str, Any], results: Path) -> list[dict[str, Any]]:
        self._scenarios += 1
        self._group = group
        seen = rf"C:\bundles\{results.name}"
        assert self._process.stdin is not None
        request = {"group": group, "scenario": scenario, "results": seen}
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
        except OSError as error:
            raise DriverError(f"the driver has exited: {self._output.decode(errors='replace')}") from error
        self._expect(f"{DONE} {seen}".encode())
        found: list[dict[str, Any]] = json.loads(results.read_text())
        results.unlink()
        return found

    def _expect(self, line: bytes) -> None:
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        readable = select.poll()  # select() takes no descriptor above 1023, which a long campaign has
        readable.register(descriptor, select.POLLIN)
        deadline = time.monotonic() + TIMEOUT
        while line not in self._output:
            has_exited = self._process.poll() is not None  # although a shim may hold its output
            if not readable.poll(POLL_SECONDS * 1000):
                if has_exited:
                    raise DriverError(f"the driver has exited: {self._output.decode(errors='replace')}")
                if time.monotonic() > deadline:
                    report = self._machine.wine.on_timeout()
                    output = self._output.decode(errors="replace")
                    raise DriverError(f"no results within {TIMEOUT:.0f} s\n{output}\n{report}")
                continue
            data = os.read(descriptor, 1 << 16)
            if not data:
                raise DriverError(f"the driver has exited: {self._output.decode(errors='replace')}")
            self._output += data
        self._output = b""

    def close(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.close()
        except OSError:
            pass  # it has exited
        try:
            self._process.wait(STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(STOP_TIMEOUT)
        self._process.stdout.close()


def seen_from_wine(path: Path) -> str:
    return "Z:" + str(path).replace("/", "\\")

"""`runhcs agent` as a process, for tests, and what it serves."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import urllib.request
from typing import Any, Protocol

from attrs import frozen
from prometheus_client.parser import text_string_to_metric_families

from tests.support.eventually import eventually

EXIT_SECONDS = 30


class Places(Protocol):
    """Shims that an agent can find, such as a `ToolShims`."""

    @property
    def places(self) -> list[str]: ...
    @property
    def env(self) -> dict[str, str]: ...


@frozen
class PlacesOf:
    """The shims of a containerd."""

    places: list[str]
    env: dict[str, str]


class Agent:
    def __init__(self, tools: Places, *arguments: str, **env: str) -> None:
        # pytest's output takes the agent's stderr.
        self._process = subprocess.Popen(
            [sys.executable, "-m", "runhcs", "agent", "--listen", "127.0.0.1:0", *arguments, *tools.places],
            env=tools.env | env, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        found = re.search(r"(https?://\S+)/metrics", line)
        assert found, f"the agent printed {line!r}"
        self.url = found[1]
        self.address = line.rsplit(" ", 1)[1].strip()

    @property
    def pid(self) -> int:
        return self._process.pid

    def metrics(self) -> dict[str, list[Any]]:
        """The samples of one scrape, by name."""
        with urllib.request.urlopen(f"{self.url}/metrics", timeout=30) as answer:
            families = text_string_to_metric_families(answer.read().decode())
            found: dict[str, list[Any]] = {}
            for family in families:
                for sample in family.samples:
                    found.setdefault(sample.name, []).append(sample)
            return found

    def value(self, name: str, **labels: str) -> float:
        """The sum of the samples with these labels; 0 if there are none."""
        samples = self.metrics().get(name, [])
        return sum(one.value for one in samples if labels.items() <= one.labels.items())

    def expect(self, at_least: float, name: str, **labels: str) -> None:
        eventually(lambda: self.value(name, **labels) >= at_least, f"{name} {labels} >= {at_least}", interval=0.1)

    def close(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        try:
            assert self._process.wait(EXIT_SECONDS) == 0
        finally:
            self._process.kill()
            self._process.wait()
            assert self._process.stdout is not None
            self._process.stdout.close()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()

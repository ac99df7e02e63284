"""A subscriber to containerd's events, by `ctr events`."""

from __future__ import annotations

import json
import os
import re
import subprocess
import threading
from typing import Any

from tests.containerd.daemon import Containerd
from tests.support.eventually import eventually

# 2026-01-02 03:04:05.678 +0000 UTC tests /tasks/start {"container_id":"c1","pid":7}
_LINE = re.compile(r" (/\S+) (\{.*\})$")


class EventWatch:
    """The events that containerd published since `start`. After a restart of containerd, call `start` again."""

    def __init__(self, containerd: Containerd) -> None:
        self._containerd = containerd
        self._received: list[tuple[str, dict[str, Any]]] = []
        self._process: subprocess.Popen[str] | None = None
        self.start()

    def start(self) -> None:
        """Subscribe, and return once events arrive."""
        self.stop()
        # Not with containerd's environment: that marks leaked processes.
        process = self._process = subprocess.Popen(
            self._containerd.ctr_command("events"), env=dict(os.environ), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        threading.Thread(target=self._read, args=(process,), daemon=True).start()
        eventually(self._probe, "the event of a probe", 30)

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def _probe(self) -> bool:
        """Make containerd publish an event. Returns whether one arrived."""
        before = len(self._received)
        label = f"probe={os.urandom(4).hex()}"
        self._containerd.ctr("namespaces", "label", "tests", label, check=False)
        self._containerd.ctr("namespaces", "create", "tests", check=False)
        try:
            eventually(lambda: len(self._received) > before, "an event", 1)
        except AssertionError:
            return False
        return True

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            found = _LINE.search(line.strip())
            if found:
                self._received.append((found[1], json.loads(found[2])))

    def with_fields(self, id: str) -> list[tuple[str, dict[str, Any]]]:
        """The events of the tasks of this container: (`start`, fields) …"""
        return [
            (topic.removeprefix("/tasks/"), fields)
            for topic, fields in list(self._received)
            if topic.startswith("/tasks/") and fields.get("container_id") == id
        ]

    def received(self, id: str) -> list[str]:
        """`create c1`, `start c1`, `exec-added e1`, `exit e1` …"""
        return [f"{topic} {fields.get('exec_id') or fields.get('id') or id}" for topic, fields in self.with_fields(id)]

    def expect(self, id: str, expected: list[str]) -> None:
        """Wait for as many events as expected; they must be exactly these, in this order."""
        eventually(lambda: len(self.received(id)) >= len(expected), f"events {expected}, got {self.received(id)}")
        assert self.received(id) == expected

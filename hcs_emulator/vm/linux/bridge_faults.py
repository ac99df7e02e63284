"""Faults of a Linux guest, by the requests that the host sends over the bridge: `guest:Create`, or `guest:*` for any.

The service sends the faults that exist; the worker counts the requests.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

PREFIX = "guest:"
ANY = PREFIX + "*"


class BridgeFaults:
    """`on_triggered` gets the id of each fault that triggers."""

    def __init__(self, on_triggered: Callable[[int], None]) -> None:
        self._on_triggered = on_triggered
        self._lock = threading.Lock()
        self._faults: list[dict[str, Any]] = []

    def replace(self, faults: list[dict[str, Any]]) -> None:
        """Faults that exist already keep their counts."""
        with self._lock:
            seen = {fault["id"]: fault["seen"] for fault in self._faults}
            self._faults = [fault | {"seen": seen.get(fault["id"], fault["seen"])} for fault in faults]

    def trigger(self, procedure: str) -> list[dict[str, Any]]:
        """Count a request; the faults that trigger on it."""
        with self._lock:
            triggered = []
            for fault in self._faults:
                if fault["call"] in (PREFIX + procedure, ANY):
                    fault["seen"] += 1
                    if fault["nth"] in (None, fault["seen"]):
                        triggered.append(fault)
        for fault in triggered:
            self._on_triggered(fault["id"])
        return triggered

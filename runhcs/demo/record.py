"""What happened in one part of the demo, told twice: a line on the screen as it happens, and data for --json."""

from __future__ import annotations

import threading
import time
from typing import Any

from runhcs.demo.screen import Phase, Screen

CALL, EVENT, OUTPUT = "call", "event", "output"
_MARKS = {CALL: ("▸", "blue"), EVENT: ("✦", "yellow"), OUTPUT: ("│", "green")}


class Record:
    def __init__(self, screen: Screen, *, of_several: bool = False) -> None:
        """With `of_several` containers, each line says which one it is about."""
        self.screen = screen
        self._of_several = of_several
        self.happened: list[dict[str, Any]] = []
        self.phases: list[Phase] = []
        self._zero = time.monotonic()
        self._lock = threading.Lock()

    def now(self) -> float:
        """Milliseconds since this record began."""
        return (time.monotonic() - self._zero) * 1000

    def note(self, kind: str, name: str, text: str, *, about: str = "", **data: Any) -> None:
        mark, style = _MARKS[kind]
        if self._of_several:
            data["about"] = about
        with self._lock:
            moment = self.now()
            self.happened.append({"ms": round(moment, 1), "kind": kind, "name": name, "text": text} | data)
            self.screen.happened(moment, mark, style, name, f"{about:<6} {text}" if self._of_several else text)

    def phase(self, name: str, begin: float, end: float | None = None) -> None:
        self.phases.append(Phase(name, begin, self.now() if end is None else end))

    def names(self, kind: str, about: str = "") -> list[str]:
        with self._lock:
            entries = [entry for entry in self.happened if entry["kind"] == kind]
            return [entry["name"] for entry in entries if not about or entry.get("about") == about]

    def as_data(self) -> dict[str, Any]:
        return {
            "happened": self.happened,
            "phases": [
                {"name": phase.name, "begin_ms": round(phase.begin, 1), "ms": round(phase.length, 1)}
                for phase in self.phases
            ],
        }

"""The journal: one JSON object per line for every call and every event. It shows what a shim does.

    {"seq": 3, "time": "2026-01-02T03:04:05.678901Z", "client_pid": 812, "call": "HcsStartComputeSystem",
     "arguments": {"computeSystem": "web1", "options": null}, "result": "0x00000000", "error_events": [],
     "duration_us": 4210}

A line is written when the call has finished; `seq` numbers calls in order of arrival, so both orders are visible.
Handles are shown as their targets (the id of a system, `id/pid` of a process), documents as JSON.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

Follower = Callable[[str], None]


class Journal:
    def __init__(self, path: str | None = None) -> None:
        self.path = path
        self._file = open(path, "a", buffering=1, encoding="utf-8") if path else None  # noqa: SIM115 - open as long as the service
        self._followers: set[Follower] = set()
        self._next = 0

    @property
    def on(self) -> bool:
        return self._file is not None or bool(self._followers)

    def begin(self) -> int:
        self._next += 1
        return self._next

    def follow(self, follower: Follower) -> None:
        self._followers.add(follower)

    def unfollow(self, follower: Follower) -> None:
        self._followers.discard(follower)

    def call(
        self,
        seq: int,
        started: float,
        client_pid: int,
        call: str,
        arguments: dict[str, Any],
        result: int,
        outcome: dict[str, Any],
        duration: float,
    ) -> None:
        entry = {"seq": seq, "time": _time(started), "client_pid": client_pid, "call": call, "arguments": arguments}
        self._write(
            entry | {"result": f"0x{result & 0xFFFFFFFF:08X}"} | outcome | {"duration_us": round(duration * 1e6)}
        )

    def event(self, client_pid: int, target: str, event: str, document: dict[str, Any] | None) -> None:
        entry: dict[str, Any] = {
            "seq": self.begin(),
            "time": _time(datetime.now(UTC).timestamp()),
            "client_pid": client_pid,
        }
        self._write(entry | {"event": event, "target": target, "document": document})

    def _write(self, entry: dict[str, Any]) -> None:
        line = json.dumps(entry, ensure_ascii=False)
        if self._file is not None:
            try:
                self._file.write(line + "\n")
            except OSError:  # a full disk must not stop the service: journalling stops instead
                self._file = None
        for follower in list(self._followers):
            follower(line)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def readable(text: str | None) -> Any:
    """A string argument as the journal shows it: documents as JSON values."""
    if text and text.lstrip()[:1] in ("{", "["):
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            return text
    return text


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds")[:26] + "Z"


def default_path() -> str | None:
    return os.environ.get("HCS_EMULATOR_JOURNAL") or None

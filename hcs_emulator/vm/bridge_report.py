"""What the journal records of a request that a VM's guest has answered."""

from __future__ import annotations

from typing import Any

from hcs_emulator.service.journal import readable
from hcs_emulator.service.schema.bridge_procedures import PROCEDURES

NAMES = {number: name for name, number in PROCEDURES.items()}


def report(procedure: int, message: Any, response: dict[str, Any], started: float, duration: float) -> dict[str, Any]:
    """A request and its response for the journal: documents in strings as JSON."""
    return {
        "procedure": name(procedure),
        "arguments": _unfold(message) if isinstance(message, dict) else {},
        "result": response["Result"] & 0xFFFFFFFF,
        "errors": response.get("ErrorRecords", []),
        "answer": _unfold({name: value for name, value in response.items() if name not in ("Result", "ErrorRecords")}),
        "started": started,
        "duration": duration,
    }


def _unfold(message: dict[str, Any]) -> dict[str, Any]:
    unfolded = {}
    for name, value in message.items():
        if name in ("ContainerConfig", "ProcessParameters", "Query", "Properties") and isinstance(value, str):
            unfolded[name] = readable(value)
        else:
            unfolded[name] = _unfold(value) if isinstance(value, dict) else value
    return unfolded


def name(procedure: int) -> str:
    return NAMES.get(procedure, f"0x{procedure:08X}")

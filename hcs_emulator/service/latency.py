"""Latency profiles: how long calls take on some Windows machine, played back by the emulator. Without a profile
nothing is added.

# a TOML file
name = "Server 2022, NVMe"
default = 0.0002                     # seconds, for calls that are not named
[calls]
HcsCreateComputeSystem = 0.045
HcsStartComputeSystem = { median = 0.180, spread = 0.030 }
"""

from __future__ import annotations

import random
import tomllib
from typing import Any

from hcs_emulator.service.transport.wire import CALLS_BY_NAME

LONGEST = 600.0


class Profile:
    def __init__(self, document: dict[str, Any] | None = None) -> None:
        """Raise ValueError for a profile that says something unknown or impossible."""
        document = document or {}
        unknown = set(document) - {"name", "default", "calls"}
        if unknown:
            raise ValueError(f"a latency profile has no member {sorted(unknown)[0]} (known: name, default, calls)")
        self.name = str(document.get("name", "none"))
        self._default = _timing("default", document.get("default", 0))
        self._calls = {}
        for call, value in document.get("calls", {}).items():
            if call not in CALLS_BY_NAME:
                raise ValueError(f"no call is named {call}")
            self._calls[call] = _timing(call, value)

    @classmethod
    def load(cls, path: str) -> Profile:
        with open(path, "rb") as file:
            return cls(tomllib.load(file))

    def delay(self, call: str) -> float:
        median, spread = self._calls.get(call, self._default)
        return max(0.0, random.gauss(median, spread)) if spread else median

    def describe(self) -> dict[str, Any]:
        calls = {call: {"median": median, "spread": spread} for call, (median, spread) in self._calls.items()}
        return {"name": self.name, "default": self._default[0], "calls": calls}


def _timing(name: str, value: Any) -> tuple[float, float]:
    if isinstance(value, dict):
        median, spread = value.get("median"), value.get("spread", 0)
        if set(value) - {"median", "spread"}:
            raise ValueError(f"{name}: only median and spread are known")
    else:
        median, spread = value, 0
    for number in (median, spread):
        if not isinstance(number, int | float) or isinstance(number, bool) or not 0 <= number <= LONGEST:
            raise ValueError(f"{name}: expected seconds from 0 to {LONGEST:.0f}")
    return float(median or 0), float(spread)

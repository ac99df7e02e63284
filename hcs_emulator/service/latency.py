"""Latency profiles: the durations of calls on a Windows host, which the emulator adds to its own. Without a profile it
adds nothing.

# a TOML file
name = "Server 2022, NVMe"
default = 0.0002                     # seconds, for calls that are not named
[calls]
HcsCreateComputeSystem = 0.045
HcsStartComputeSystem = { median = 0.180, spread = 0.030 }
"""

from __future__ import annotations

import random
from typing import Any

import attrs

from hcs_emulator.service.transport.wire import CALLS_BY_NAME

LONGEST = 600.0


def _seconds(_: Any, attribute: Any, value: float) -> None:
    if not 0 <= value <= LONGEST:
        raise ValueError(f"expected seconds from 0 to {LONGEST:.0f}")


@attrs.frozen
class Delay:
    """Seconds that are added to a call: normally distributed when there is a spread."""

    median: float = attrs.field(default=0.0, validator=_seconds)
    spread: float = attrs.field(default=0.0, validator=_seconds)

    def sample(self) -> float:
        return max(0.0, random.gauss(self.median, self.spread)) if self.spread else self.median


def _known_calls(_: Any, attribute: Any, calls: dict[str, Delay]) -> None:
    unknown = sorted(set(calls) - set(CALLS_BY_NAME))
    if unknown:
        raise ValueError(f"no call is named {unknown[0]}")


@attrs.frozen
class Profile:
    name: str = "none"
    default: Delay = Delay()
    calls: dict[str, Delay] = attrs.field(factory=dict, validator=_known_calls)

    @classmethod
    def load(cls, path: str) -> Profile:
        """Raise ValueError for a profile with an unknown member, an unknown call or an impossible value."""
        import tomllib

        from hcs_emulator.service.convert import structure

        with open(path, "rb") as file:
            document = tomllib.load(file)
        if "default" in document:
            document["default"] = _as_table(document["default"])
        if isinstance(document.get("calls"), dict):
            document["calls"] = {call: _as_table(value) for call, value in document["calls"].items()}
        return structure(document, cls, "latency profile")

    def delay(self, call: str) -> float:
        return self.calls.get(call, self.default).sample()

    def describe(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "default": self.default.median,
            "calls": {call: attrs.asdict(delay) for call, delay in self.calls.items()},
        }


def _as_table(value: Any) -> Any:
    """A number alone is the median."""
    return value if isinstance(value, dict) else {"median": value}

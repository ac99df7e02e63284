"""Reads the spans of our shim (`shim/spans.py`): the phases inside its calls, and the time of each call spent in HCS.

The shim overhead of a call is the duration seen by the caller minus the time the shim waited for HCS (and for a VM's
guest): the part that a faster shim could save.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from attrs import frozen

from shim.spans import GUEST, HCS, RPC

# Calls whose phases are reported.
CALLS = ("Create", "Start", "Kill", "Delete", "Exec")


@frozen
class Span:
    task: str
    thread: int
    name: str
    begin: int
    end: int

    @property
    def milliseconds(self) -> float:
        return (self.end - self.begin) / 1e6

    @property
    def is_outside(self) -> bool:
        """Time in HCS or in the guest, not in the shim."""
        return self.name.startswith((HCS, GUEST))


@frozen
class RpcSpans:
    """One call with the spans of its thread inside it."""

    method: str
    whole: Span
    inside: list[Span]

    @property
    def outside_ms(self) -> float:
        """Time in HCS and in the guest."""
        return sum(one.milliseconds for one in self.inside if one.is_outside)

    def phases(self) -> dict[str, float]:
        """Milliseconds by name; a phase includes its HCS calls."""
        sums: dict[str, float] = defaultdict(float)
        for one in self.inside:
            sums[one.name] += one.milliseconds
        return dict(sums)


def read(directory: Path) -> list[Span]:
    """The spans of all shims that wrote to the directory."""
    found: list[Span] = []
    for path in sorted(directory.glob("*.json")):
        found += parse(path.read_text())
    return found


def take(directory: Path, id: str) -> list[Span]:
    """The spans of the shim of this id; removes its file."""
    found: list[Span] = []
    for path in directory.glob(f"{id}-*.json"):
        found += parse(path.read_text())
        path.unlink()
    return found


def parse(text: str) -> list[Span]:
    document = json.loads(text)
    if document["version"] != 1:
        raise ValueError(f"spans of version {document['version']} are not supported, expected version 1")
    return [Span(*one) for one in document["spans"]]


def rpcs(spans: Iterable[Span]) -> list[RpcSpans]:
    """The calls, in the order they began."""
    ordered = sorted(spans, key=lambda one: one.begin)
    calls = []
    for whole in ordered:
        if whole.name.startswith(RPC):
            inside = [
                one
                for one in ordered
                if one is not whole
                and one.thread == whole.thread
                and whole.begin <= one.begin
                and one.end <= whole.end
            ]
            calls.append(RpcSpans(whole.name.removeprefix(RPC), whole, inside))
    return calls


def measures(spans: Iterable[Span], waited: dict[str, float]) -> dict[str, float]:
    """Of one lifecycle: every phase of its calls, time in HCS, and the shim overhead. `waited`: the duration of each
    call seen by the caller, in milliseconds."""
    found: dict[str, float] = {}
    for call in rpcs(spans):
        if call.method not in CALLS or f"{call.method}: in HCS" in found:
            continue
        for phase, milliseconds in call.phases().items():
            found[f"{call.method}: {phase}"] = milliseconds
        found[f"{call.method}: in HCS"] = call.outside_ms
        if call.method in waited:
            found[f"{call.method}: shim overhead"] = waited[call.method] - call.outside_ms
    return found

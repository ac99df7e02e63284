"""What our shim's own spans say (`shim/spans.py`): the phases inside its calls, and how much of a call was HCS's time.

A call's overhead is what the caller waited minus what the shim waited for HCS (and for a VM's guest): the part that a
better shim could save.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from shim.spans import GUEST, HCS, RPC

# Calls whose phases are told.
CALLS = ("Create", "Start", "Kill", "Delete", "Exec")


class Span(NamedTuple):
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
        """Not the shim's own work."""
        return self.name.startswith((HCS, GUEST))


class RpcSpans(NamedTuple):
    """One answered call with everything its thread did meanwhile."""

    method: str
    whole: Span
    inside: list[Span]

    @property
    def outside_ms(self) -> float:
        """Time that HCS and the guest had."""
        return sum(one.milliseconds for one in self.inside if one.is_outside)

    def phases(self) -> dict[str, float]:
        """Milliseconds by name; a phase includes the calls of HCS that were made in it."""
        sums: dict[str, float] = defaultdict(float)
        for one in self.inside:
            sums[one.name] += one.milliseconds
        return dict(sums)


def read(directory: Path) -> list[Span]:
    """All that shims have left there."""
    found: list[Span] = []
    for path in sorted(directory.glob("*.json")):
        found += parse(path.read_text())
    return found


def take(directory: Path, id: str) -> list[Span]:
    """What the shim of this id left; its file is removed."""
    found: list[Span] = []
    for path in directory.glob(f"{id}-*.json"):
        found += parse(path.read_text())
        path.unlink()
    return found


def parse(text: str) -> list[Span]:
    document = json.loads(text)
    if document["version"] != 1:
        raise ValueError(f"spans of version {document['version']}: this bench knows version 1")
    return [Span(*one) for one in document["spans"]]


def rpcs(spans: Iterable[Span]) -> list[RpcSpans]:
    """The answered calls, in the order they began."""
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
    """Of one life: every phase of its calls, time in HCS, and the overhead. `waited`: what the caller waited for each
    call, in milliseconds."""
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

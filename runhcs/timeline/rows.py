"""The rows of a timeline, from the agent's history of a container: calls, and inside them spans by their nesting."""

from __future__ import annotations

from typing import Any

from attrs import frozen


@frozen
class Row:
    name: str
    kind: str
    depth: int
    #: Nanoseconds since the epoch.
    begin: int
    end: int
    error: str = ""
    next_step: str = ""

    @property
    def milliseconds(self) -> float:
        return (self.end - self.begin) / 1e6


@frozen
class Section:
    """One call, or the work after an exit: its row, the rows inside, and the events meanwhile."""

    whole: Row
    inside: list[Row]
    events: list[str]
    #: Milliseconds since the beginning of the first section.
    offset: float


@frozen
class Timeline:
    namespace: str
    id: str
    pod: str
    isolation: str
    sections: list[Section]

    @property
    def begin(self) -> int:
        return self.sections[0].whole.begin if self.sections else 0


def timeline(history: dict[str, Any], shortest: float = 0.0) -> Timeline:
    """`shortest`: spans inside a call that took less, in milliseconds, are left out unless they failed."""
    roots = history["roots"]
    first = min((root["begin"] for root in roots), default=0)
    sections = [_section(root, history["events"], first, shortest) for root in roots]
    return Timeline(history["namespace"], history["id"], history["pod"], history["isolation"], sections)


def _section(root: dict[str, Any], events: list[dict[str, Any]], first: int, shortest: float) -> Section:
    name = root["name"] + (f" {root['exec']}" if root.get("exec") else "")
    if "exit_status" in root.get("attributes", {}):
        name += f" (status {root['attributes']['exit_status']})"
    whole = _row(root, 0, name)
    rows = [row for row in _nested(root) if row.milliseconds >= shortest or row.error]
    meanwhile = [one["topic"].removeprefix("/tasks/") for one in events if whole.begin <= one["time"] <= whole.end]
    return Section(whole, rows, meanwhile, (whole.begin - first) / 1e6)


def _nested(root: dict[str, Any]) -> list[Row]:
    rows: list[Row] = []
    ends: list[int] = []
    for child in sorted(root["children"], key=lambda one: (one["begin"], -one["end"])):
        while ends and child["end"] > ends[-1]:
            ends.pop()
        rows.append(_row(child, len(ends) + 1, child["name"]))
        ends.append(child["end"])
    return rows


def _row(raw: dict[str, Any], depth: int, name: str) -> Row:
    return Row(name, raw["kind"], depth, raw["begin"], raw["end"], raw["error"] or "", raw["next_step"] or "")

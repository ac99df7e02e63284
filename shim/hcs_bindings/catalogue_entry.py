"""One entry of the catalogue, and phrases that many share."""

from __future__ import annotations


class Entry:
    """A code, its symbolic name, what it means, what usually causes it and what to do next."""

    __slots__ = ("cause", "code", "message", "name", "next_step")

    def __init__(self, code: int, name: str, message: str, cause: str, next_step: str) -> None:
        self.code = code
        self.name = name
        self.message = message
        self.cause = cause
        self.next_step = next_step


EVENT_LOG = "Applications and Services Logs > Microsoft > Windows > Hyper-V-Compute"
BUG = "report it with the shim's log: the shim, not the node, is at fault"
LOG = f"look into the event log ({EVENT_LOG}) at the time of the failure"

"""HCS events: their numbers, and their delivery to every handle with a callback."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from hcs_emulator.service.handles import Handle

SYSTEM_EXITED = 0x00000001
SYSTEM_CRASH_INITIATED = 0x00000002
SYSTEM_CRASH_REPORT = 0x00000003
SYSTEM_SILO_JOB_CREATED = 0x00000005
SYSTEM_GUEST_CONNECTION_CLOSED = 0x00000006
PROCESS_EXITED = 0x00010000

NAMES = {
    SYSTEM_EXITED: "SystemExited",
    SYSTEM_CRASH_INITIATED: "SystemCrashInitiated",
    SYSTEM_CRASH_REPORT: "SystemCrashReport",
    SYSTEM_SILO_JOB_CREATED: "SystemSiloJobCreated",
    SYSTEM_GUEST_CONNECTION_CLOSED: "SystemGuestConnectionClosed",
    PROCESS_EXITED: "ProcessExited",
}

# Receives every event that is sent: handle, type, document.
Observer = Callable[[Handle, int, "dict[str, Any] | None"], None]


class Events:
    """Sends events to handles and to one observer (the journal).

    `note` records what Windows has no event for, such as limits that the host cannot enforce. It goes to the journal
    only.
    """

    def __init__(self) -> None:
        self.observer: Observer | None = None
        self.note: Callable[[str, str, dict[str, Any]], None] = lambda target, what, details: None

    def send(self, handles: Iterable[Handle], event_type: int, document: dict[str, Any] | None = None) -> None:
        text = None if document is None else json.dumps(document)
        for handle in list(handles):
            if handle.listening:
                if self.observer is not None:
                    self.observer(handle, event_type, document)
                handle.client.send_event(handle.number, event_type, text)

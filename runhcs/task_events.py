"""Task events that shims forward to containerd over ttrpc: the service, the topics and the message types."""

from __future__ import annotations

from typing import Any

from shim.api import events as api
from shim.api.events_ttrpc import ForwardRequest

SERVICE = "containerd.services.events.ttrpc.v1.Events"
#: The prefix of every topic; the rest is the kind.
TASKS = "/tasks/"
KINDS: dict[str, Any] = {
    "create": api.TaskCreate,
    "start": api.TaskStart,
    "exit": api.TaskExit,
    "delete": api.TaskDelete,
    "exec-added": api.TaskExecAdded,
    "exec-started": api.TaskExecStarted,
    "oom": api.TaskOOM,
    "paused": api.TaskPaused,
    "resumed": api.TaskResumed,
}


def read(payload: bytes) -> tuple[str, Any] | None:
    """The kind and the message of a forwarded event; None if it is not a task event."""
    envelope = ForwardRequest.decode(payload).envelope
    if envelope is None or envelope.event is None:
        return None
    name = envelope.topic.removeprefix(TASKS)
    kind = KINDS.get(name)
    return None if kind is None else (name, kind.decode(envelope.event.value))


def exec_of(event: Any) -> str:
    """The exec id of an event; "" if it is about the init process."""
    found: str = getattr(event, "exec_id", "") or getattr(event, "id", "")
    return "" if found == event.container_id else found

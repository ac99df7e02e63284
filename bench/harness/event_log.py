"""containerd's events endpoint: takes what shims forward, notes when it came, and whether it came in order.

The order of a task is create, start, exit, delete; of an exec exec-added, exec-started, exit, delete, and all of it
between start and exit of its task. Each comes once. The delete of an exec is optional, since the runc shim sends
none.
"""

from __future__ import annotations

import socket
import threading
import time
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

from runhcs.task_events import SERVICE, exec_of, read
from shim.ttrpc.server import Call, Method, Server

TASK_ORDER = ["create", "start", "exit", "delete"]
EXEC_ORDER = ["exec-added", "exec-started", "exit", "delete"]
PATIENCE = 60.0


class Event(NamedTuple):
    topic: str
    #: The exec's id; "" for the task itself.
    exec_id: str
    at: float


class EventLog:
    def __init__(self, path: Path) -> None:
        self._events: dict[str, list[Event]] = defaultdict(list)
        self._changed = threading.Condition()
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(path))
        listener.listen(256)
        self._server = Server({SERVICE: {"Forward": Method.inline(self._forward)}})
        threading.Thread(target=self._server.serve, args=(listener,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown(5)

    def _forward(self, call: Call) -> bytes:
        now = time.perf_counter()
        if found := read(call.payload):
            topic, event = found
            with self._changed:
                self._events[event.container_id].append(Event(topic, exec_of(event), now))
                self._changed.notify_all()
        return b""

    def wait(self, task: str, topic: str, exec_id: str = "", patience: float = PATIENCE) -> float:
        """When this came. Raises RuntimeError if it does not come."""

        def found() -> Event | None:
            return next((one for one in self._events[task] if (one.topic, one.exec_id) == (topic, exec_id)), None)

        with self._changed:
            event = self._changed.wait_for(found, patience)
            if event is None:
                told = [f"{one.topic} {one.exec_id}".strip() for one in self._events[task]]
                raise RuntimeError(f"no {topic} event of {exec_id or task}; there came {told}")
            return event.at

    def settle(self, task: str, patience: float = 2.0) -> list[str]:
        """The life is over: wait for its last event, forget it, and say what was wrong with the order."""
        try:
            self.wait(task, "delete", patience=patience)
        except RuntimeError:
            pass  # the order says so
        with self._changed:
            return wrong_order(self._events.pop(task, []))


def wrong_order(events: list[Event]) -> list[str]:
    """What is wrong with the events of one whole life; nothing if nothing is."""
    found = []
    by_process: dict[str, list[str]] = defaultdict(list)
    for one in events:
        if one.topic in TASK_ORDER or one.topic in EXEC_ORDER:
            by_process[one.exec_id].append(one.topic)
    own = by_process.pop("", [])
    if own != TASK_ORDER:
        found.append(f"the task's events were {', '.join(own) or 'none'}; expected {', '.join(TASK_ORDER)}")
    for exec_id, topics in by_process.items():
        if topics not in (EXEC_ORDER, EXEC_ORDER[:-1]):
            found.append(f"the events of exec {exec_id} were {', '.join(topics)}; expected {', '.join(EXEC_ORDER)}")
    ended = False
    for one in events:
        if one.exec_id and ended and one.topic != "delete":
            found.append(f"{one.topic} of exec {one.exec_id} came after the exit of its task")
        ended = ended or (one.topic == "exit" and not one.exec_id)
    return found

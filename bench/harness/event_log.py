"""containerd's events endpoint: receives forwarded events, records their time, and checks their order.

The order for a task is create, start, exit, delete; for an exec it is exec-added, exec-started, exit, delete, all
between start and exit of its task. Each event comes once. The delete of an exec is optional, since the runc shim sends
none.
"""

from __future__ import annotations

import socket
import threading
import time
from collections import defaultdict
from pathlib import Path

from attrs import frozen

from runhcs.task_events import SERVICE, exec_of, read
from shim.ttrpc.server import Call, Method, Server

TASK_ORDER = ["create", "start", "exit", "delete"]
EXEC_ORDER = ["exec-added", "exec-started", "exit", "delete"]
TIMEOUT = 60.0


@frozen
class Event:
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

    def wait(self, task: str, topic: str, exec_id: str = "", timeout: float = TIMEOUT) -> float:
        """The time of the event. Raises RuntimeError after the timeout."""

        def found() -> Event | None:
            return next((one for one in self._events[task] if (one.topic, one.exec_id) == (topic, exec_id)), None)

        with self._changed:
            event = self._changed.wait_for(found, timeout)
            if event is None:
                received = [f"{one.topic} {one.exec_id}".strip() for one in self._events[task]]
                raise RuntimeError(f"no {topic} event of {exec_id or task}; received {received}")
            return event.at

    def finish(self, task: str, timeout: float = 2.0) -> list[str]:
        """After a lifecycle: waits for its last event, forgets its events, and returns errors in their order."""
        try:
            self.wait(task, "delete", timeout=timeout)
        except RuntimeError:
            pass  # the order check reports it
        with self._changed:
            return order_errors(self._events.pop(task, []))


def order_errors(events: list[Event]) -> list[str]:
    """Errors in the event order of one whole lifecycle."""
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
    has_exited = False
    for one in events:
        if one.exec_id and has_exited and one.topic != "delete":
            found.append(f"{one.topic} of exec {one.exec_id} came after the exit of its task")
        has_exited = has_exited or (one.topic == "exit" and not one.exec_id)
    return found

"""The events of all shims of a soak: every process must have its own, once, in order, and with its exit status.

A shim sends an event again if it got no response. So the last event before a restart of containerd may come twice, and
on a busy machine also one whose response was late.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence

from runhcs.shim_driver import EventEndpoint
from runhcs.task_events import exec_of, read
from shim.api.events_ttrpc import ForwardRequest
from shim.ttrpc.server import Call

#: Longer than the pause between two attempts of a shim to send events to a containerd that restarts.
TIMEOUT = 30.0
#: A shim waits so long for a response: shim.task.events.transports.TIMEOUT, less the error of two clocks.
RESPONSE_SECONDS = 4.5
#: The last events of so many processes are remembered when they are settled: more than can be repeated at a time.
RECENT = 512
#: A kind, and the exit status if it has one.
Event = tuple[str, int | None]


class AccountError(Exception):
    """An event or an exit is missing, or is not what it must be."""


def task_events(status: int, *, is_started: bool = True) -> list[Event]:
    return [("create", None), *([("start", None)] if is_started else []), ("exit", status), ("delete", status)]


def exec_events(status: int) -> list[Event]:
    return [("exec-added", None), ("exec-started", None), ("exit", status), ("delete", status)]


class EventAccounts(EventEndpoint):
    def __init__(self, address: str) -> None:
        self.count = 0
        #: Events that came again after a restart, or after a late response.
        self.repeated = 0
        self._restarts = 0
        self._received: dict[tuple[str, str], list[Event]] = {}
        #: The last event of a process, the number of restarts before it, and when it happened, in seconds.
        self._last: dict[tuple[str, str], tuple[Event, int, float]] = {}
        self._settled: deque[tuple[str, str]] = deque()
        self._ended: set[str] = set()
        self._changed = threading.Condition()
        super().__init__(address)

    def _forward(self, call: Call) -> bytes:
        found = read(call.payload)
        if found is not None:
            envelope = ForwardRequest.decode(call.payload).envelope
            stamp = None if envelope is None else envelope.timestamp
            event = (found[0], getattr(found[1], "exit_status", None))
            at = 0.0 if stamp is None else stamp.seconds + stamp.nanos / 1e9
            self._record((found[1].container_id, exec_of(found[1])), event, at)
        return b""

    def _record(self, key: tuple[str, str], event: Event, at: float) -> None:
        with self._changed:
            if key[0] in self._ended:
                return
            last, restarts, last_at = self._last.get(key, (None, 0, 0.0))
            # One that is published twice has two times.
            is_late = 0 < at == last_at and time.time() - at >= RESPONSE_SECONDS
            if last == event and (restarts != self._restarts or is_late):
                self.repeated += 1
                return
            self.count += 1
            self._last[key] = (event, self._restarts, at)
            self._received.setdefault(key, []).append(event)
            self._changed.notify_all()

    def close(self) -> None:
        """What arrives meanwhile may get no response, like what came before, and comes again later."""
        self._restarts += 1
        super().close()
        self._restarts += 1

    def settle(self, id: str, expected: Sequence[Event], exec_id: str = "", timeout: float = TIMEOUT) -> None:
        """Wait for the events of a process, and forget them. Raises AccountError if they differ."""
        key = (id, exec_id)
        with self._changed:
            self._changed.wait_for(lambda: len(self._received.get(key, ())) >= len(expected), timeout)
            received = self._received.pop(key, [])
            self._settled.append(key)
            if len(self._settled) > RECENT:
                self._last.pop(self._settled.popleft(), None)
        if received != list(expected):
            name = f"exec {exec_id} of {id}" if exec_id else id
            raise AccountError(f"the events of {name} are {text(received)}, not {text(expected)}")

    def forget(self, id: str) -> list[Event]:
        """The events of a container whose shim was killed. What it sent last may still arrive, and counts no more."""
        with self._changed:
            self._ended.add(id)
            keys = [key for key in self._received if key[0] == id]
            for key in keys:
                self._last.pop(key, None)
            return [event for key in keys for event in self._received.pop(key)]

    def unexpected(self) -> list[str]:
        """Events that came twice, or that belong to no process of the soak."""
        with self._changed:
            return [f"{' '.join(key).strip()}: {text(events)}" for key, events in self._received.items()]


def text(events: Sequence[Event]) -> str:
    return ", ".join(kind if status is None else f"{kind} {status}" for kind, status in events) or "none"

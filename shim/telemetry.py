"""Reports spans and task events to the node agent (`runhcs agent`), for metrics and traces.

A daemon imports this module only if an agent listens when it starts. The agent's address is `agent` in the directory of
the shims' sockets, on Windows a pipe beside theirs; `RUNHCS_AGENT` names another, and `RUNHCS_AGENT=0` turns reports
off. The agent has what exporting takes (HTTP, TLS, protobuf, the OpenTelemetry SDK); the shim has a queue.

Nothing here delays a task: `add` appends to a list and returns. A thread, which runs only while there are records,
sends them some time later, many in one call. The queue is limited: without an agent, or with a slow one, records are
dropped, and the next report that succeeds has their number. Neither environment nor command lines are reported, and no
error texts, which may hold them: an error is reported by its code and type.
"""

from __future__ import annotations

import time
from _thread import allocate_lock

from shim.api.agent import ReportRequest
from shim.lean_json import dumps
from shim.platform import endpoint
from shim.spans import open_roots
from shim.threads import run_soon
from shim.ttrpc.client import Client

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from shim.spans import Root
    from shim.ttrpc.transport import Stream

SERVICE = "runhcs.agent.v1.Agent"
#: Roots and events; a usual root has 10 to 50 spans of about 100 bytes.
MAX_QUEUED = 512
# The calls of a new container follow each other within this time. A report is encoded and sent when no call runs and
# none has ended for so long, so that it does not compete with them; but not later than after MAX_DELAYS of them.
DELAY = 0.25
MAX_DELAYS = 8
TIMEOUT = 5.0
CONNECT_TIMEOUT = 1.0
FIRST_PAUSE = 1.0
LONGEST_PAUSE = 30.0
CLOSE_TIMEOUT = 0.25
# Of task events: no paths and no mounts.
_EVENT_FIELDS = ("container_id", "exec_id", "id", "pid", "exit_status")
TRACE_KEYS = ("traceparent", "tracestate")


class Telemetry:
    """`identity` describes the shim, in each report."""

    def __init__(
        self, address: str, identity: dict[str, Any], *, limit: int = MAX_QUEUED, delay: float = DELAY
    ) -> None:
        self._address = address
        self._identity = identity
        self._limit = limit
        self._delay = delay
        self._lock = allocate_lock()
        self._queue: list[Any] = []
        self._dropped = 0
        self._running = False
        self._closing = False
        # Released by `close`: ends the waits of the thread.
        self._wake = allocate_lock()
        self._wake.acquire()
        self._ended = allocate_lock()
        self._client: Client | None = None

    def add(self, root: Root) -> None:
        """A span that has ended, with the spans inside. Never blocks on the agent."""
        self._append(root)

    def add_event(self, topic: str, event: Any) -> None:
        """A task event."""
        self._append(
            (time.time_ns(), topic, {name: getattr(event, name) for name in _EVENT_FIELDS if hasattr(event, name)})
        )

    def _append(self, record: Any) -> None:
        with self._lock:
            if len(self._queue) >= self._limit or self._closing:
                self._dropped += 1
                return
            self._queue.append(record)
            if self._running:
                return
            self._running = True
            self._ended.acquire()
        run_soon(self._run)

    def close(self, timeout: float = CLOSE_TIMEOUT) -> None:
        """Send what is queued, for at most this time."""
        with self._lock:
            self._closing = True
            idle = not self._running
        if idle:
            self._disconnect()
            return
        self._wake.release()
        self._ended.acquire(timeout=timeout)

    def _run(self) -> None:
        pause = FIRST_PAUSE
        while True:
            self._wait_for_idle()
            with self._lock:
                records, self._queue = self._queue, []
                dropped, self._dropped = self._dropped, 0
                if not records and not dropped:
                    self._running = False
                    break
            try:
                self._send(records, dropped)
                pause = FIRST_PAUSE
            except Exception:
                # Whatever the agent does, or is: the records are kept while there is room for them.
                self._disconnect()
                with self._lock:
                    kept = records[: self._limit - len(self._queue)]
                    self._dropped += dropped + len(records) - len(kept)
                    self._queue[:0] = kept
                    if self._closing:
                        self._running = False
                        break
                self._wait(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
        if self._closing:
            self._disconnect()
        self._ended.release()

    def _wait_for_idle(self) -> None:
        """The thread stays for a burst of calls, and ends if there is none."""
        before = -1
        for _ in range(MAX_DELAYS):
            count = len(self._queue)
            if (count == before and not open_roots()) or count > self._limit // 4 or self._closing:
                return
            before = count
            self._wait(self._delay)

    def _wait(self, seconds: float) -> None:
        if not self._closing and self._wake.acquire(timeout=seconds):
            self._wake.release()

    def _send(self, records: list[Any], dropped: int) -> None:
        request = ReportRequest(json=encode(self._identity, records, dropped)).encode()
        if self._client is None:
            self._client = Client(_connect(self._address))
        self._client.call(SERVICE, "Report", request, timeout=TIMEOUT)

    def _disconnect(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()


def _connect(address: str) -> Stream:
    stream = endpoint.connect_to_own_user(endpoint.path_of(address), CONNECT_TIMEOUT)
    stream.settimeout(None)
    return stream


def encode(identity: dict[str, Any], records: list[Any], dropped: int) -> str:
    roots, events = [], []
    for record in records:
        if isinstance(record, tuple):
            events.append(record)
            continue
        trace = [value for name in TRACE_KEYS for key, value in record.metadata if key.lower() == name]
        roots.append(
            (record.name, record.task, record.exec, record.begin, record.end, record.failure, trace,
             record.children, record.attributes)
        )  # fmt: skip
    # Pairs the clocks: the spans' times are of `perf_counter`.
    clock = (time.perf_counter_ns(), time.time_ns())
    report = {"version": 1, "shim": identity, "clock": clock, "dropped": dropped, "spans": roots, "events": events}
    return dumps(report)

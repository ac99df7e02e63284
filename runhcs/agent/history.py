"""What the agent remembers for `runhcs top`, `trace` and `events`: bounded, in memory, gone with the agent."""

from __future__ import annotations

import json
import queue
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping
from typing import Any

from attrs import define, field

from runhcs.agent.report import START, Failure, Report, Root, Span
from shim.api.agent import EventsRequest, EventsResponse, QueryRequest, QueryResponse
from shim.ttrpc.server import Call, Method, ServerStream
from shim.ttrpc.status import INVALID_ARGUMENT, NOT_FOUND, StatusError

MAX_CONTAINERS = 1000
MAX_ROOTS = 200
MAX_EVENTS = 1000
MAX_ERRORS = 100
MAX_CALLS = 5000
#: Calls that are only polls: they would displace the others.
POLLS = frozenset(("State", "Connect", "Stats", "Pids", "Wait", "Shim", "DiagTasks", "DiagPid", "DiagStacks"))
SLOWEST = 10
SLOWEST_SECONDS = 300.0


@define
class _Container:
    namespace: str
    pod: str
    isolation: str = ""
    roots: deque[dict[str, Any]] = field(factory=lambda: deque(maxlen=MAX_ROOTS))
    events: deque[dict[str, Any]] = field(factory=lambda: deque(maxlen=MAX_ROOTS))


class History:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._containers: OrderedDict[tuple[str, str], _Container] = OrderedDict()
        self._events: deque[dict[str, Any]] = deque(maxlen=MAX_EVENTS)
        self._errors: deque[dict[str, Any]] = deque(maxlen=MAX_ERRORS)
        self._calls: deque[tuple[int, float, str, str]] = deque(maxlen=MAX_CALLS)
        self._followers: set[queue.Queue[dict[str, Any] | None]] = set()

    def methods(self) -> Mapping[str, Method]:
        return {"Query": Method.worker(self._query), "Events": Method.stream(self._stream)}

    def add(self, report: Report) -> None:
        with self._lock:
            for root in report.roots:
                self._add_root(report, root)
            for event in report.events:
                entry = {
                    "time": event.time,
                    "namespace": report.shim.namespace,
                    "pod": report.shim.id,
                    "topic": event.topic,
                    **{name: value for name, value in event.fields.items() if isinstance(value, str | int)},
                }
                self._events.append(entry)
                self._container(report, str(event.fields.get("container_id", ""))).events.append(entry)
                for follower in self._followers:
                    _offer(follower, entry)

    def close(self) -> None:
        """End the streams of followers."""
        with self._lock:
            for follower in self._followers:
                _offer(follower, None)

    def _container(self, report: Report, id: str) -> _Container:
        key = (report.shim.namespace, id or report.shim.id)
        found = self._containers.get(key)
        if found is None:
            found = self._containers[key] = _Container(report.shim.namespace, report.shim.id)
            if len(self._containers) > MAX_CONTAINERS:
                self._containers.popitem(last=False)
        self._containers.move_to_end(key)
        return found

    def _add_root(self, report: Report, root: Root) -> None:
        for span in root.children:
            if span.kind in ("operation", "guest"):
                self._calls.append((span.end, span.seconds, span.name, root.task))
        if root.failure is not None:
            self._errors.append(_error(report, root, root.failure))
        if root.kind == "rpc" and root.label in POLLS:
            return
        if root.kind != "rpc" and not root.is_exit and root.name != START:
            return  # a call outside of all work for a container
        container = self._container(report, root.task)
        container.isolation = str(root.attributes.get("isolation") or container.isolation)
        container.roots.append(
            _span(root)
            | {"exec": root.exec, "attributes": root.attributes, "children": [_span(one) for one in root.children]}
        )

    # Queries.

    def _query(self, call: Call) -> bytes:
        request = QueryRequest.decode(call.payload)
        if request.kind == "summary":
            found: dict[str, Any] = self.summary()
        elif request.kind == "history":
            found = self.of_container(request.id)
        else:
            raise StatusError(INVALID_ARGUMENT, f"unknown kind {request.kind!r}: summary or history")
        return QueryResponse(json=json.dumps(found)).encode()

    def summary(self) -> dict[str, Any]:
        """Recent errors, the newest first, and the slowest operations and guest messages of the last minutes."""
        since = time.time_ns() - int(SLOWEST_SECONDS * 1e9)
        with self._lock:
            recent = [one for one in self._calls if one[0] >= since]
            errors = list(reversed(self._errors))
        slowest = sorted(recent, key=lambda one: -one[1])[:SLOWEST]
        return {
            "errors": errors,
            "slowest": [
                {"time": end, "seconds": seconds, "name": name, "task": task} for end, seconds, name, task in slowest
            ],
        }

    def of_container(self, id: str) -> dict[str, Any]:
        with self._lock:
            keys = [key for key in self._containers if key[1] == id]
            keys = keys or [key for key in self._containers if id and key[1].startswith(id)]
            if not keys:
                hint = "it knows what ran since its start, and a shim reports some seconds after its first call"
                raise StatusError(NOT_FOUND, f"the agent has no report about {id!r}: {hint}")
            if len(keys) > 1:
                names = ", ".join("/".join(key) for key in sorted(keys)[:10])
                raise StatusError(INVALID_ARGUMENT, f"{id!r} matches several containers: {names}; give more of the id")
            namespace, name = keys[0]
            found = self._containers[keys[0]]
            return {
                "namespace": namespace,
                "id": name,
                "pod": found.pod,
                "isolation": found.isolation,
                "roots": sorted(found.roots, key=lambda one: one["begin"]),
                "events": list(found.events),
            }

    def _stream(self, call: ServerStream) -> bytes | None:
        payload = call.recv(5.0)
        request = EventsRequest.decode(payload or b"")
        follower: queue.Queue[dict[str, Any] | None] = queue.Queue(MAX_EVENTS)
        with self._lock:
            past = list(self._events)
            if request.follow:
                self._followers.add(follower)
        try:
            _send(call, past)
            while request.follow and not call.done:
                try:
                    entry = follower.get(timeout=1.0)
                except queue.Empty:
                    continue
                if entry is None:
                    break
                _send(call, [entry])
        finally:
            with self._lock:
                self._followers.discard(follower)
        return None


def _send(call: ServerStream, entries: Iterable[dict[str, Any]]) -> None:
    for entry in entries:
        call.send(EventsResponse(json=json.dumps(entry)).encode())


def _offer(follower: queue.Queue[dict[str, Any] | None], entry: dict[str, Any] | None) -> None:
    try:
        follower.put_nowait(entry)
    except queue.Full:
        pass  # a client that does not read


def _span(span: Span) -> dict[str, Any]:
    failure = span.failure
    return {
        "name": span.label if span.kind == "rpc" else span.name.removeprefix("hcs "),
        "kind": span.kind,
        "begin": span.begin,
        "end": span.end,
        "error": None if failure is None else failure.name,
        "next_step": None if failure is None else failure.next_step,
    }


def _error(report: Report, root: Root, failure: Failure) -> dict[str, Any]:
    return {
        "time": root.end,
        "namespace": report.shim.namespace,
        "task": root.task,
        "call": root.label,
        "error": failure.name,
        "code": f"0x{failure.code:08X}" if failure.is_hresult else "",
        "next_step": failure.next_step,
    }

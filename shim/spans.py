"""Spans: the timing of a shim's calls and phases, for performance measurements.

`RUNHCS_SPANS` names a directory. If it is set, a daemon records every call it answers, the phases inside, and every
call of the HCS libraries, and writes them to a file there when it exits. Otherwise nothing is recorded: `span` returns
the same no-op object each time, and calls of HCS are not wrapped.

A span is (task, thread, name, begin, end) in nanoseconds of `perf_counter`, which on Linux is the monotonic clock that
all processes share. Spans of one thread are nested, so that parents need no ids. Names: `rpc Create` for a call that
was answered, `hcs HcsStartComputeSystem` for one that was made, `guest Create` for one to a VM's guest, and a plain
word for a phase.
"""

from __future__ import annotations

from _thread import get_ident
from time import perf_counter_ns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Record = tuple[str, int, str, int, int]

VARIABLE = "RUNHCS_SPANS"
RPC = "rpc "
HCS = "hcs "
GUEST = "guest "
# Bounded: a traced shim may run for months.
MAX_SPANS = 200_000

_records: list[Record] | None = None
_tasks: dict[int, str] = {}


def enable() -> None:
    """Record spans from now on."""
    global _records
    _records = []


def is_enabled() -> bool:
    return _records is not None


def _add(name: str, begun: int) -> None:
    ended = perf_counter_ns()
    if _records is not None and len(_records) < MAX_SPANS:
        thread = get_ident()
        _records.append((_tasks.get(thread, ""), thread, name, begun, ended))


class _NoSpan:
    __slots__ = ()

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass


class _Span:
    __slots__ = ("_begun", "_name")

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        self._begun = perf_counter_ns()

    def __exit__(self, *_: object) -> None:
        _add(self._name, self._begun)


class _TaskSpan(_Span):
    """The outermost span of its thread: the spans inside belong to its task."""

    __slots__ = ("_task",)

    def __init__(self, name: str, task: str) -> None:
        self._name = name
        self._task = task

    def __enter__(self) -> None:
        _tasks[get_ident()] = self._task
        self._begun = perf_counter_ns()

    def __exit__(self, *_: object) -> None:
        _add(self._name, self._begun)
        _tasks.pop(get_ident(), None)


_NO_SPAN = _NoSpan()


def span(name: str) -> _Span | _NoSpan:
    """`with span("layers"):` for a phase."""
    return _NO_SPAN if _records is None else _Span(name)


def task_span(name: str, task: str) -> _Span | _NoSpan:
    return _NO_SPAN if _records is None else _TaskSpan(name, task)


def traced(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with a span around each call; the function itself if spans are off."""
    if _records is None:
        return function

    def call(*arguments: Any) -> Any:
        begun = perf_counter_ns()
        try:
            return function(*arguments)
        finally:
            _add(name, begun)

    return call


def rpc(method: str, handler: Callable[[Any], bytes]) -> Callable[[Any], bytes]:
    """A handler with a span around each call, for the task that the request names."""
    if _records is None:
        return handler

    def run(call: Any) -> bytes:
        with task_span(RPC + method, _id_of(call.payload)):
            return handler(call)

    return run


def _id_of(payload: bytes) -> str:
    """Every request of the task API begins with an id, field 1, which is shorter than 128 bytes."""
    if len(payload) < 2 or payload[0] != 0x0A or payload[1] > 0x7F:
        return ""
    return payload[2 : 2 + payload[1]].decode("utf-8", "replace")


def document(pid: int, id: str) -> bytes:
    """All spans as JSON. Disables spans and drops them."""
    import json

    global _records
    recorded, _records = _records or [], None
    found = {"version": 1, "pid": pid, "id": id, "clock": "perf_counter", "unit": "ns", "spans": recorded}
    return json.dumps(found, separators=(",", ":")).encode()

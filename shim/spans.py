"""Spans: the timing of a shim's calls, of the phases inside, and of every call of the HCS libraries and of a guest.

Nothing is recorded unless the daemon enables it: for the benchmark (`RUNHCS_SPANS` names a directory for a file that is
written when the daemon exits), or for a node agent that listens (`shim.telemetry`). Otherwise `span` returns the same
no-op object each time, and neither handlers nor calls of HCS are wrapped.

Spans of one thread are nested, so that parents need no ids. A `Root` is the outermost one: an RPC that is answered, or
other work with a thread of its own (`exit`). It collects the spans inside and goes to the sinks, whole, when it ends.
Times are nanoseconds of `perf_counter`, which on Linux is the monotonic clock that all processes share.

Names: `rpc Create` for a call that was answered, `hcs HcsStartComputeSystem` for one that was made,
`hcs::System::Start` for an HCS operation from its submission to its result, `guest Create` for a message to a VM's
guest, and a plain word for a phase.
"""

from __future__ import annotations

from _thread import get_ident
from time import perf_counter_ns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Record = tuple[str, int, str, int, int]
    #: Code and text of a failure: a negative HRESULT of a call, or 0 and the type of an exception.
    Failure = tuple[int, str]
    Child = tuple[str, int, int, Failure | None]
    Sink = Callable[["Root"], object]

VARIABLE = "RUNHCS_SPANS"
RPC = "rpc "
HCS = "hcs "
OPERATION = "hcs::"
GUEST = "guest "
EXIT = "exit"
# Bounded: a traced shim may run for months, and one call may make many others.
MAX_SPANS = 200_000
MAX_CHILDREN = 2_000

# Requests whose field 2 is an exec id.
_WITH_EXEC_ID = frozenset(("State", "Start", "Delete", "Exec", "ResizePty", "Kill", "CloseIO", "Wait"))

_sinks: tuple[Sink, ...] | None = None
_roots: dict[int, Root] = {}
_records: list[Record] = []


class Root:
    """The outermost span of a thread, with the spans inside, in the order of their ends."""

    __slots__ = ("attributes", "begin", "children", "end", "exec", "failure", "metadata", "name", "task", "thread")

    def __init__(self, name: str, task: str = "", exec: str = "") -> None:
        self.name = name
        self.task = task
        self.exec = exec
        self.thread = get_ident()
        self.children: list[Child] = []
        self.attributes: dict[str, str | int] = {}
        self.failure: Failure | None = None
        #: The ttrpc metadata of an RPC, which has the caller's trace context.
        self.metadata: list[tuple[str, str]] = []
        self.begin = self.end = 0


def enable(sink: Sink | None = None) -> None:
    """Record spans from now on, for the sink or, without one, for `document`."""
    global _sinks
    if sink is None:
        _records.clear()
        sink = _keep
    _sinks = (*(_sinks or ()), sink)


def disable() -> None:
    global _sinks
    _sinks = None


def remove(sink: Sink) -> None:
    """The sink gets no more spans; without any sink they are off."""
    global _sinks
    _sinks = tuple(one for one in _sinks or () if one != sink) or None


def is_enabled() -> bool:
    return _sinks is not None


def open_roots() -> list[Root]:
    """What is in progress."""
    return list(_roots.values())


def emit(root: Root) -> None:
    for sink in _sinks or ():
        sink(root)


def failure_of(error: BaseException) -> Failure:
    """Without the text of the error: it may hold a command line."""
    code = getattr(error, "code", 0)
    return (code if isinstance(code, int) else 0), type(error).__name__


def _add(name: str, begun: int, failure: Failure | None = None) -> None:
    ended = perf_counter_ns()
    root = _roots.get(get_ident())
    if root is not None:
        if len(root.children) < MAX_CHILDREN:
            root.children.append((name, begun, ended, failure))
    elif _sinks is not None:
        root = Root(name)
        root.begin, root.end, root.failure = begun, ended, failure
        emit(root)


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

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> None:
        _add(self._name, self._begun, None if error is None else failure_of(error))


class _RootSpan:
    """A root of the current thread, which has none yet."""

    __slots__ = ("root",)

    def __init__(self, root: Root) -> None:
        self.root = root

    def __enter__(self) -> None:
        _roots[self.root.thread] = self.root
        self.root.begin = perf_counter_ns()

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> None:
        root = self.root
        root.end = perf_counter_ns()
        if error is not None:
            root.failure = failure_of(error)
        _roots.pop(root.thread, None)
        emit(root)


_NO_SPAN = _NoSpan()


def span(name: str) -> _Span | _NoSpan:
    """`with span("layers"):` for a phase."""
    return _NO_SPAN if _sinks is None else _Span(name)


def operation(name: str) -> _Span | _NoSpan:
    """For an HCS operation: `hcs::System::Start web`, of which the id is left out."""
    return _NO_SPAN if _sinks is None else _Span(name.partition(" ")[0])


def attribute(name: str, value: str | int) -> None:
    """Of the root of the current thread, if it has one."""
    if _sinks is not None:
        root = _roots.get(get_ident())
        if root is not None:
            root.attributes[name] = value


def task_span(name: str, task: str, exec: str = "") -> _RootSpan | _NoSpan:
    """For work with a thread of its own."""
    return _NO_SPAN if _sinks is None else _RootSpan(Root(name, task, exec))


def traced(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with a span around each call; the function itself if spans are off."""
    if _sinks is None:
        return function

    def call(*arguments: Any) -> Any:
        begun = perf_counter_ns()
        result = None
        try:
            result = function(*arguments)
            return result
        finally:
            # Functions return an HRESULT, or something that is no negative number.
            _add(name, begun, (result & 0xFFFFFFFF, "") if type(result) is int and result < 0 else None)

    return call


def rpc(method: str, handler: Callable[[Any], bytes]) -> Callable[[Any], bytes]:
    """A handler with a span around each call, for the task that the request names."""
    if _sinks is None:
        return handler

    def run(call: Any) -> bytes:
        root = Root(RPC + method, *_ids_of(method, call.payload))
        root.metadata = call.metadata
        with _RootSpan(root):
            return handler(call)

    return run


def _ids_of(method: str, payload: bytes) -> tuple[str, str]:
    """Every request of the task API begins with an id, field 1, and some have an exec id, field 2. Ids are shorter than
    128 bytes."""
    task, position = _text(payload, 0, 0x0A)
    return task, _text(payload, position, 0x12)[0] if method in _WITH_EXEC_ID else ""


def _text(payload: bytes, position: int, tag: int) -> tuple[str, int]:
    if len(payload) < position + 2 or payload[position] != tag or payload[position + 1] > 0x7F:
        return "", position
    end = position + 2 + payload[position + 1]
    return payload[position + 2 : end].decode("utf-8", "replace"), end


# For the benchmark.


def _keep(root: Root) -> None:
    for name, begin, end, _ in (*root.children, (root.name, root.begin, root.end, None)):
        if len(_records) < MAX_SPANS:
            _records.append((root.task, root.thread, name, begin, end))


def document(pid: int, id: str) -> bytes:
    """All spans as JSON. Disables spans and drops them."""
    import json

    disable()
    found = {"version": 1, "pid": pid, "id": id, "clock": "perf_counter", "unit": "ns", "spans": _records}
    text = json.dumps(found, separators=(",", ":")).encode()
    _records.clear()
    return text

"""The reports of shims (`shim.telemetry`), checked and with times of the wall clock.

Reports come from other processes, possibly of another version: unknown members are ignored, wrong types are an error.
"""

from __future__ import annotations

import json
from typing import Any

from attrs import field, frozen
from attrs.validators import deep_iterable, ge, instance_of, optional

from shim.hcs_bindings.catalogue import lookup
from shim.spans import EXIT, GUEST, HCS, OPERATION, RPC
from shim.ttrpc.status import NAMES

VERSION = 1
#: What a shim that answers no RPC reports: the duration of the command `start`.
START = "start"
_TEXT = instance_of(str)
_NUMBER = [instance_of(int), ge(0)]


class ReportError(ValueError):
    """A report that cannot be read."""


@frozen
class Failure:
    #: An HRESULT, a ttrpc status, or 0.
    code: int = field(validator=_NUMBER)
    #: The type of the exception; "" for the result of a call.
    type: str = field(validator=_TEXT)

    @property
    def is_hresult(self) -> bool:
        return self.code > 0xFFFF

    @property
    def name(self) -> str:
        """The name in the catalogue, or of the status, or the type of the error."""
        if self.is_hresult:
            return lookup(self.code).name
        if self.type == "StatusError" and self.code < len(NAMES):
            return NAMES[self.code]
        return self.type

    @property
    def next_step(self) -> str:
        return lookup(self.code).next_step if self.is_hresult else ""


@frozen
class Span:
    """Times are nanoseconds since the epoch."""

    name: str = field(validator=_TEXT)
    begin: int = field(validator=_NUMBER)
    end: int = field(validator=_NUMBER)
    failure: Failure | None = field(default=None, validator=optional(instance_of(Failure)))

    @property
    def seconds(self) -> float:
        return (self.end - self.begin) / 1e9

    @property
    def kind(self) -> str:
        """rpc, call (of an HCS library), operation (of HCS), guest, or phase."""
        for prefix, kind in ((RPC, "rpc"), (HCS, "call"), (OPERATION, "operation"), (GUEST, "guest")):
            if self.name.startswith(prefix):
                return kind
        return "phase"

    @property
    def label(self) -> str:
        """The name without the prefix of its kind."""
        for prefix in (RPC, HCS, GUEST):
            if self.name.startswith(prefix):
                return self.name.removeprefix(prefix)
        return self.name


@frozen
class Root(Span):
    task: str = field(default="", validator=_TEXT)
    exec: str = field(default="", validator=_TEXT)
    #: The caller's trace context: traceparent, and tracestate if there is one.
    trace: tuple[str, ...] = field(default=(), validator=deep_iterable(_TEXT))
    #: In the order of their ends.
    children: tuple[Span, ...] = ()
    #: `isolation` of a Create, `exit_status` of an exit.
    attributes: dict[str, str | int] = field(factory=dict, validator=instance_of(dict))

    @property
    def is_exit(self) -> bool:
        return self.name == EXIT


@frozen
class TaskEvent:
    time: int = field(validator=_NUMBER)
    topic: str = field(validator=_TEXT)
    fields: dict[str, Any] = field(validator=instance_of(dict))


@frozen
class ShimIdentity:
    version: str = field(validator=_TEXT)
    pid: int = field(validator=_NUMBER)
    namespace: str = field(validator=_TEXT)
    id: str = field(validator=_TEXT)
    is_sandbox: bool = field(validator=instance_of(bool))
    #: "standby" or "cold".
    start: str = field(default="cold", validator=_TEXT)


@frozen
class Report:
    shim: ShimIdentity
    roots: list[Root]
    events: list[TaskEvent]
    #: Records that the shim has dropped since its last report.
    dropped: int


def read_report(text: str) -> Report:
    """Raises ReportError."""
    try:
        raw = json.loads(text)
        if raw["version"] != VERSION:
            raise ReportError(f"a report of version {raw['version']}: use the agent of the shim's version")
        counter, wall = raw["clock"]
        offset = wall - counter
        shim = ShimIdentity(**{name: raw["shim"][name] for name in ShimIdentity.__annotations__ if name in raw["shim"]})
        roots = [_root(one, offset) for one in raw["spans"]]
        events = [TaskEvent(*one) for one in raw["events"]]
        dropped = raw["dropped"]
        if type(dropped) is not int or dropped < 0:
            raise ReportError(f"dropped is {dropped!r}")
        return Report(shim, roots, events, dropped)
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise ReportError(f"{type(error).__name__}: {error}") from None


def _root(raw: list[Any], offset: int) -> Root:
    name, task, exec_id, begin, end, failure, trace, children, attributes = raw
    inside = tuple(Span(one[0], one[1] + offset, one[2] + offset, _failure(one[3])) for one in children)
    return Root(name, begin + offset, end + offset, _failure(failure), task, exec_id, tuple(trace), inside, attributes)


def _failure(raw: list[Any] | None) -> Failure | None:
    return None if raw is None else Failure(*raw)

"""OpenTelemetry spans from the reports of shims.

A shim reports no ids: the spans inside an RPC are nested in time, and the RPC continues the trace of its caller, if
containerd sent one (W3C trace context in the ttrpc metadata). Ids are chosen here.
"""

from __future__ import annotations

import platform
import socket
from collections import OrderedDict
from collections.abc import Iterable

from opentelemetry.context import Context
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import Decision, Sampler
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags, get_current_span
from opentelemetry.trace.propagation import set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from opentelemetry.trace.span import NonRecordingSpan, TraceState

from runhcs.agent.report import START, Report, Root, ShimIdentity, Span, TaskEvent
from shim.platform import host
from shim.version import VERSION

SERVICE_NAME = "containerd-shim-runhcs-v1"
SCOPE = InstrumentationScope("runhcs.agent", VERSION)
# Without a caller's trace these begin one; others, such as State, are polls.
BEGIN_TRACES = frozenset(
    ("Create", "Start", "Exec", "Kill", "Delete", "Update", "Pause", "Resume", "Shutdown", "CreateSandbox",
     "StartSandbox", "StopSandbox", "ShutdownSandbox")
)  # fmt: skip
_KINDS = {"rpc": SpanKind.SERVER, "call": SpanKind.CLIENT, "operation": SpanKind.CLIENT, "guest": SpanKind.CLIENT}
# Of how many processes the Start is remembered, to which their exits link.
MAX_STARTS = 10_000

_IDS = RandomIdGenerator()
_PROPAGATOR = TraceContextTextMapPropagator()


class SpanTree:
    """Converts reports; remembers the isolation and the Start of running tasks. Not thread-safe."""

    def __init__(self, sampler: Sampler, resource: Resource) -> None:
        self._sampler = sampler
        self._resource = resource
        self._starts: OrderedDict[tuple[int, str, str], SpanContext] = OrderedDict()
        self._isolations: OrderedDict[tuple[int, str], str] = OrderedDict()

    def spans(self, report: Report) -> list[ReadableSpan]:
        resource = self._resource.merge(_resource(report.shim))
        found: list[ReadableSpan] = []
        for root in report.roots:
            events = [event for event in report.events if _happened_in(event, root)]
            found += self._root(report.shim, root, events, resource)
        return found

    def _root(
        self, shim: ShimIdentity, root: Root, events: Iterable[TaskEvent], resource: Resource
    ) -> list[ReadableSpan]:
        caller = _caller(root)
        if caller is None and not (root.is_exit or root.name == START or root.label in BEGIN_TRACES):
            return []
        trace_id = _IDS.generate_trace_id() if caller is None else caller.trace_id
        parent = Context() if caller is None else set_span_in_context(NonRecordingSpan(caller), Context())
        decision = self._sampler.should_sample(parent, trace_id, root.label)
        if decision.decision is not Decision.RECORD_AND_SAMPLE:
            return []
        state = None if caller is None else caller.trace_state
        context = _new_context(trace_id, state)
        key = (shim.pid, root.task, root.exec)
        links = [Link(self._starts.pop(key))] if root.is_exit and key in self._starts else []
        if root.label == "Start" and root.kind == "rpc":
            _remember(self._starts, key, context)
        attributes = self._attributes(shim, root)
        shown = [_event(event) for event in events]
        spans = [_span(root, context, caller, resource, attributes, shown, links)]
        for child, inner, outer in _nested(root, context, state):
            spans.append(_span(child, inner, outer, resource, {"container.id": root.task}, [], []))
        return spans

    def _attributes(self, shim: ShimIdentity, root: Root) -> dict[str, str | int]:
        attributes: dict[str, str | int] = {"container.id": root.task} if root.task else {}
        if root.exec:
            attributes["runhcs.exec.id"] = root.exec
        if root.kind == "rpc":
            attributes |= {"rpc.system": "ttrpc", "rpc.method": root.label}
        key = (shim.pid, root.task)
        if isolation := root.attributes.get("isolation"):
            _remember(self._isolations, key, str(isolation))
        if key in self._isolations:
            attributes["runhcs.isolation"] = self._isolations[key]
        if "exit_status" in root.attributes:
            attributes["process.exit.code"] = int(root.attributes["exit_status"])
        return attributes


def _remember(known: OrderedDict, key: tuple, value: object) -> None:  # type: ignore[type-arg]
    known[key] = value
    if len(known) > MAX_STARTS:
        known.popitem(last=False)


def _resource(shim: ShimIdentity) -> Resource:
    # OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES are in the resource that this one is merged into.
    attributes: dict[str, str | int] = {
        "service.version": shim.version,
        "service.instance.id": f"{shim.namespace}/{shim.id}",
        "process.pid": shim.pid,
        "containerd.namespace": shim.namespace,
    }
    if shim.is_sandbox:
        attributes["runhcs.pod.id"] = shim.id
    return Resource(attributes)


def node_resource() -> Resource:
    """Of this node, with the attributes of the environment."""
    defaults = {
        "service.name": SERVICE_NAME,
        "host.name": socket.gethostname(),
        "host.arch": host.architecture(),
        "os.type": "linux" if host.IS_EMULATED else "windows",
        "os.version": platform.version(),
    }
    return Resource.create(defaults).merge(OTELResourceDetector().detect())


def _caller(root: Root) -> SpanContext | None:
    """None: there is no trace context, or it is invalid."""
    if not root.trace:
        return None
    carrier = dict(zip(("traceparent", "tracestate"), root.trace, strict=False))
    context = get_current_span(_PROPAGATOR.extract(carrier, Context())).get_span_context()
    return context if context.is_valid else None


def _new_context(trace_id: int, state: TraceState | None) -> SpanContext:
    return SpanContext(trace_id, _IDS.generate_span_id(), False, TraceFlags(TraceFlags.SAMPLED), state)


def _nested(
    root: Root, context: SpanContext, state: TraceState | None
) -> Iterable[tuple[Span, SpanContext, SpanContext]]:
    """The spans inside, each with its context and its parent's: the innermost span that contains it."""
    enclosing: list[tuple[Span, SpanContext]] = [(root, context)]
    for child in sorted(root.children, key=lambda one: (one.begin, -one.end)):
        while len(enclosing) > 1 and child.end > enclosing[-1][0].end:
            enclosing.pop()
        inner = _new_context(context.trace_id, state)
        yield child, inner, enclosing[-1][1]
        enclosing.append((child, inner))


def _span(
    span: Span,
    context: SpanContext,
    parent: SpanContext | None,
    resource: Resource,
    attributes: dict[str, str | int],
    events: list[Event],
    links: list[Link],
) -> ReadableSpan:
    status = Status(StatusCode.UNSET)
    if span.failure is not None:
        attributes = attributes | {"error.type": span.failure.name}
        if span.failure.is_hresult:
            attributes["hcs.code"] = f"0x{span.failure.code:08X}"
        status = Status(StatusCode.ERROR, span.failure.name)
        if span.failure.type:
            events = [*events, Event("exception", {"exception.type": span.failure.type}, timestamp=span.end)]
    return ReadableSpan(
        name=f"Task/{span.label}" if span.kind == "rpc" else span.name.removeprefix("hcs "),
        context=context,
        parent=parent,
        resource=resource,
        attributes=attributes,
        events=events,
        links=links,
        kind=_KINDS.get(span.kind, SpanKind.INTERNAL),
        status=status,
        start_time=span.begin,
        end_time=span.end,
        instrumentation_scope=SCOPE,
    )


def _happened_in(event: TaskEvent, root: Root) -> bool:
    return root.begin <= event.time <= root.end and event.fields.get("container_id") == root.task


def _event(event: TaskEvent) -> Event:
    fields = {f"containerd.event.{name}": value for name, value in event.fields.items() if isinstance(value, str | int)}
    return Event(event.topic, fields, timestamp=event.time)

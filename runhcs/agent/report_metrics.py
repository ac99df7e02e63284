"""Metrics from the reports of shims: what happens between two scrapes, also in shims that have exited since.

Label values are names of RPCs, HCS functions, operations, guest messages and error codes: their number is bounded.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Histogram

from runhcs.agent.report import START, Failure, Report, Root, Span

RPC_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)
CALL_BUCKETS = (0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0, 120.0)


class ReportMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        self._rpc = Histogram(
            "runhcs_rpc_duration_seconds", "RPCs of the task and sandbox API.", ("method",),
            buckets=RPC_BUCKETS, registry=registry,
        )  # fmt: skip
        self._rpc_errors = Counter(
            "runhcs_rpc_errors", "RPCs that failed, by the error of the shim.", ("method", "code"), registry=registry
        )
        self._start = Histogram(
            "runhcs_shim_start_duration_seconds", "From the start of the launcher until containerd has the address.",
            ("kind",), buckets=RPC_BUCKETS, registry=registry,
        )  # fmt: skip
        by_kind = {
            "call": ("runhcs_hcs_call_duration_seconds", "Calls of the HCS libraries.", "call"),
            "operation": ("runhcs_hcs_operation_duration_seconds", "HCS operations, until their result.", "operation"),
            "guest": ("runhcs_guest_message_duration_seconds", "Messages to guests of utility VMs.", "message"),
            "phase": ("runhcs_phase_duration_seconds", "Phases of RPCs and of exits.", "phase"),
        }
        self._durations = {
            kind: Histogram(name, text, (label,), buckets=CALL_BUCKETS, registry=registry)
            for kind, (name, text, label) in by_kind.items()
        }
        self._hcs_errors = Counter(
            "runhcs_hcs_errors", "Calls of HCS and of guests that failed.", ("call", "code", "name"), registry=registry
        )
        self._starts = Counter("runhcs_shim_starts", "Shims started, from the standby or cold.", ("kind",),
                               registry=registry)  # fmt: skip
        self._events = Counter("runhcs_task_events", "Task events published.", ("topic",), registry=registry)
        self._exits = Counter("runhcs_task_exits", "Exits of init processes.", ("result",), registry=registry)
        self._oom = Counter("runhcs_oom_kills", "OOM events of containers.", registry=registry)
        self._dropped = Counter(
            "runhcs_telemetry_dropped", "Records lost on the way to the agent or to the collector.", ("where",),
            registry=registry,
        )  # fmt: skip
        self._exported = Counter("runhcs_spans_exported", "Spans that a collector accepted.", registry=registry)
        # Counters that alerts use exist from the start: `increase` does not see the first value of a new one.
        for where in ("shim", "agent", "exporter"):
            self._dropped.labels(where)
        for result in ("success", "failure"):
            self._exits.labels(result)

    def add(self, report: Report) -> None:
        self.drop("shim", report.dropped)
        for root in report.roots:
            self._add_root(report, root)
        for event in report.events:
            self._events.labels(event.topic.removeprefix("/tasks/")).inc()
            if event.topic == "/tasks/oom":
                self._oom.inc()
            elif event.topic == "/tasks/exit" and event.fields.get("id") == event.fields.get("container_id"):
                self._exits.labels("failure" if event.fields.get("exit_status") else "success").inc()

    def drop(self, where: str, count: int) -> None:
        self._dropped.labels(where).inc(count)

    def export(self, count: int) -> None:
        self._exported.inc(count)

    def _add_root(self, report: Report, root: Root) -> None:
        if root.kind == "rpc":
            self._rpc.labels(root.label).observe(root.seconds)
            if root.failure is not None:
                self._rpc_errors.labels(root.label, root.failure.name).inc()
        elif root.name == START:
            self._starts.labels(report.shim.start).inc()
            self._start.labels(report.shim.start).observe(root.seconds)
        else:
            self._add_span(root)
        for child in root.children:
            self._add_span(child)

    def _add_span(self, span: Span) -> None:
        self._durations[span.kind].labels(span.label).observe(span.seconds)
        # A phase fails with the call inside, which is counted.
        if span.failure is not None and span.failure.is_hresult and span.kind in ("call", "guest"):
            self._count_error(span.label, span.failure)

    def _count_error(self, call: str, failure: Failure) -> None:
        self._hcs_errors.labels(call, f"0x{failure.code:08X}", failure.name).inc()

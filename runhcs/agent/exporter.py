"""Exports spans to an OpenTelemetry collector, from a bounded queue in a thread of its own.

The SDK's exporters do OTLP; its batch processor does not tell how many spans it drops, so the queue is ours. Settings
are the standard environment variables: OTEL_SDK_DISABLED, OTEL_TRACES_EXPORTER (otlp, none), OTEL_EXPORTER_OTLP_* and
OTEL_EXPORTER_OTLP_TRACES_*, OTEL_TRACES_SAMPLER, OTEL_BSP_*, OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.sampling import Sampler

PROTOCOLS = ("http/protobuf", "grpc")
CLOSE_SECONDS = 5.0


class ExporterError(ValueError):
    """A setting that cannot be used. The message has the next step."""


def from_environment(environment: Mapping[str, str] = os.environ) -> SpanExporter | None:
    """None: traces are not exported. Raises ExporterError."""
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return None
    chosen = environment.get("OTEL_TRACES_EXPORTER", "").strip()
    endpoints = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
    if chosen == "none" or (not chosen and not any(environment.get(name) for name in endpoints)):
        return None
    if chosen not in ("", "otlp"):
        raise ExporterError(f"OTEL_TRACES_EXPORTER is {chosen!r}: use otlp or none")
    protocol = environment.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL") or environment.get("OTEL_EXPORTER_OTLP_PROTOCOL")
    if protocol not in (None, "", *PROTOCOLS):
        raise ExporterError(f"the OTLP protocol is {protocol!r}: use one of {', '.join(PROTOCOLS)}")
    if protocol == "grpc":
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter

        return GrpcExporter()
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter

    return HttpExporter()


def _number(name: str, default: int) -> int:
    text = os.environ.get(name, "")
    if not text:
        return default
    if not (text.isascii() and text.isdigit()) or int(text) == 0:
        raise ExporterError(f"{name} is {text!r}: use a positive number")
    return int(text)


def sampler() -> Sampler:
    """As OTEL_TRACES_SAMPLER says."""
    return TracerProvider(shutdown_on_exit=False).sampler


class ExportQueue:
    """`put` never blocks. `dropped` is called with where spans were lost, `agent` or `exporter`, and how many."""

    def __init__(
        self,
        exporter: SpanExporter,
        exported: Callable[[int], object],
        dropped: Callable[[str, int], object],
    ) -> None:
        self._exporter = exporter
        self._exported = exported
        self._dropped = dropped
        self._limit = _number("OTEL_BSP_MAX_QUEUE_SIZE", 2048)
        self._batch = min(_number("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 512), self._limit)
        self._delay = _number("OTEL_BSP_SCHEDULE_DELAY", 5000) / 1000
        self._queue: deque[ReadableSpan] = deque()
        self._condition = threading.Condition()
        self._closing = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def put(self, spans: Sequence[ReadableSpan]) -> None:
        with self._condition:
            room = max(0, self._limit - len(self._queue))
            self._queue.extend(spans[:room])
            if len(self._queue) >= self._batch:
                self._condition.notify()
        if len(spans) > room:
            self._dropped("agent", len(spans) - room)

    def close(self) -> None:
        """Export what is queued, for at most CLOSE_SECONDS."""
        with self._condition:
            self._closing = True
            self._condition.notify()
        self._thread.join(CLOSE_SECONDS)

    def _run(self) -> None:
        while True:
            with self._condition:
                self._condition.wait_for(lambda: self._closing or len(self._queue) >= self._batch, self._delay)
                if self._closing and not self._queue:
                    break
                batch = [self._queue.popleft() for _ in range(min(self._batch, len(self._queue)))]
            if batch:
                self._export(batch)
        self._exporter.shutdown()

    def _export(self, batch: list[ReadableSpan]) -> None:
        try:
            result = self._exporter.export(batch)
        except Exception:
            # Whatever a collector answers must not end this thread.
            result = SpanExportResult.FAILURE
        if result is SpanExportResult.SUCCESS:
            self._exported(len(batch))
        else:
            self._dropped("exporter", len(batch))

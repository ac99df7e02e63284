"""The OpenTelemetry Collector, as `scripts/otelcol.sh` has built it, in the place of the tests' own OTLP receiver."""

from __future__ import annotations

import base64
import json
import os
import socket
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.support.eventually import eventually
from tests.support.otlp import OtlpReceiver, ReceivedSpan

EXIT_SECONDS = 30
# Another process may take the port that was found.
ATTEMPTS = 3


def collector_program() -> str:
    """Skips the test without one; `make test-observability` builds it first."""
    cache = os.environ.get("RUNHCS_CACHE") or Path(
        os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "containerd-shim-runhcs"
    )
    programs = [path for path in sorted(Path(cache).glob("otelcol-v*")) if not path.name.endswith(".partial")]
    if not programs:
        pytest.skip("the OpenTelemetry Collector is not built: make test-observability")
    return str(programs[-1])


class Collector(OtlpReceiver):
    """It receives OTLP over HTTP and writes what it has accepted to a file, which is read here."""

    def __init__(self) -> None:
        self._program = collector_program()
        self._directory = tempfile.TemporaryDirectory(prefix="otelcol-")
        self._output = Path(self._directory.name) / "spans.jsonl"
        for _ in range(ATTEMPTS):
            self._port = _free_port()
            self._process = self._start()
            if eventually(lambda: self._listens() or self._process.poll() is not None, "the collector") and (
                self._process.poll() is None
            ):
                break
        assert self._process.poll() is None, (Path(self._directory.name) / "log").read_text()
        self.endpoint = f"http://127.0.0.1:{self._port}"

    def _start(self) -> subprocess.Popen[bytes]:
        config = Path(self._directory.name) / "config.json"
        config.write_text(json.dumps({
            "receivers": {"otlp": {"protocols": {"http": {"endpoint": f"127.0.0.1:{self._port}"}}}},
            "exporters": {"file": {"path": str(self._output), "flush_interval": "100ms"}},
            "service": {
                "telemetry": {"metrics": {"level": "none"}},
                "pipelines": {"traces": {"receivers": ["otlp"], "exporters": ["file"]}},
            },
        }))  # fmt: skip
        with (Path(self._directory.name) / "log").open("wb") as log:
            return subprocess.Popen([self._program, "--config", str(config)], stdout=log, stderr=log)

    def _listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self._port)) == 0

    @property  # type: ignore[override]
    def spans(self) -> list[ReceivedSpan]:
        if not self._output.exists():
            return []
        # The last line may be incomplete.
        lines = self._output.read_text().split("\n")[:-1]
        return [span for line in lines for span in _spans(json.loads(line))]

    def close(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(EXIT_SECONDS)
        finally:
            self._process.kill()
            self._directory.cleanup()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _spans(document: dict[str, Any]) -> list[ReceivedSpan]:
    """OTLP's JSON has ids in hexadecimal digits, that of protobuf in base64."""
    for resource in document["resourceSpans"]:
        for scope in resource["scopeSpans"]:
            for span in scope["spans"]:
                for owner in (span, *span.get("links", ())):
                    for name in ("traceId", "spanId", "parentSpanId"):
                        if name in owner:
                            owner[name] = base64.b64encode(bytes.fromhex(owner[name])).decode()
    request = json_format.ParseDict(document, ExportTraceServiceRequest(), ignore_unknown_fields=True)
    return [
        ReceivedSpan(span, resource.resource)
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]

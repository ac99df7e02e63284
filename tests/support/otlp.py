"""An OTLP receiver for tests, over HTTP or gRPC: decodes with the published messages and keeps the spans."""

from __future__ import annotations

import gzip
import threading
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import grpc
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from tests.support.eventually import eventually

EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"


class ReceivedSpan:
    """One span, with the attributes of its resource."""

    def __init__(self, span: Any, resource: Any) -> None:
        self.name: str = span.name
        self.trace_id: str = span.trace_id.hex()
        self.id: str = span.span_id.hex()
        self.parent: str = span.parent_span_id.hex()
        self.kind: int = span.kind
        self.begin, self.end = span.start_time_unix_nano, span.end_time_unix_nano
        self.attributes = _attributes(span.attributes)
        self.resource = _attributes(resource.attributes)
        self.events: list[str] = [event.name for event in span.events]
        self.links: list[str] = [link.span_id.hex() for link in span.links]
        self.is_error: bool = span.status.code == 2
        self.message: str = span.status.message

    @property
    def service(self) -> str:
        return str(self.resource.get("service.name"))


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in pairs}


class OtlpReceiver:
    """`http`: over HTTP, otherwise gRPC. `status` is what it answers over HTTP."""

    def __init__(self, http: bool = True, status: int = 200) -> None:
        self.spans: list[ReceivedSpan] = []
        self.status = status
        self._http: ThreadingHTTPServer | None = None
        self._grpc: grpc.Server | None = None
        if http:
            self._http = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
            threading.Thread(target=self._http.serve_forever, daemon=True).start()
            self.endpoint = f"http://127.0.0.1:{self._http.server_port}"
        else:
            self._grpc = grpc.server(ThreadPoolExecutor(2))
            method = grpc.unary_unary_rpc_method_handler(
                self._export, ExportTraceServiceRequest.FromString, ExportTraceServiceResponse.SerializeToString
            )
            service, name = EXPORT[1:].split("/")
            self._grpc.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {name: method}),))
            port = self._grpc.add_insecure_port("127.0.0.1:0")
            self._grpc.start()
            self.endpoint = f"http://127.0.0.1:{port}"

    def _export(self, request: Any, _: Any = None) -> Any:
        for resource_spans in request.resource_spans:
            for scope in resource_spans.scope_spans:
                self.spans += [ReceivedSpan(span, resource_spans.resource) for span in scope.spans]
        return ExportTraceServiceResponse()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                if receiver.status == 200:
                    receiver._export(ExportTraceServiceRequest.FromString(body))
                self.send_response(receiver.status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        return Handler

    def named(self, name: str, **attributes: Any) -> list[ReceivedSpan]:
        wanted = {key.replace("_", "."): value for key, value in attributes.items()}
        return [span for span in self.spans if span.name == name and wanted.items() <= span.attributes.items()]

    def expect(self, name: str, **attributes: Any) -> ReceivedSpan:
        """Wait for a span of this name and these attributes (`container_id` is `container.id`)."""
        eventually(lambda: self.named(name, **attributes), f"a span {name} {attributes}", interval=0.05)
        return self.named(name, **attributes)[-1]

    def close(self) -> None:
        if self._http is not None:
            self._http.shutdown()
            self._http.server_close()
        if self._grpc is not None:
            self._grpc.stop(None).wait()

"""Serve metrics of this node's shims for Prometheus, and export their traces with OpenTelemetry.

  runhcs agent                              http://127.0.0.1:9754/metrics
  runhcs agent --listen 10.0.0.4:9754 --tls-cert FILE --tls-key FILE --token-file FILE
                                            other addresses than loopback need TLS and a token
  runhcs agent --state DIR --socket-dir DIR of another containerd

Traces are exported if OTEL_EXPORTER_OTLP_ENDPOINT is set; the agent uses the standard OTEL_* variables.

Shims that start while the agent runs report their calls to it. Shims that were started before are counted and
queried, but have no latencies. The agent runs in the foreground until SIGTERM or Ctrl+C.
"""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector

from runhcs import shims
from runhcs.agent.exporter import ExporterError, ExportQueue, from_environment, sampler
from runhcs.agent.history import History
from runhcs.agent.http_server import HttpServer, HttpSettings, SettingsError, parse_address
from runhcs.agent.node_metrics import NodeMetrics
from runhcs.agent.receiver import Receiver
from runhcs.agent.report_metrics import ReportMetrics
from runhcs.agent_client import agent_address
from shim.platform import endpoint

if TYPE_CHECKING:
    from runhcs.agent.report import Report
    from runhcs.agent.span_tree import SpanTree

    Traces = tuple[SpanTree, ExportQueue]

DEFAULT_ADDRESS = "127.0.0.1:9754"
STOP_POLL_SECONDS = 1.0


def configure(parser: argparse.ArgumentParser) -> None:
    shims.configure(parser)
    parser.add_argument(
        "--listen", default=DEFAULT_ADDRESS, metavar="HOST:PORT",
        help=f"address of the metrics; port 0 chooses one (default: {DEFAULT_ADDRESS})",
    )  # fmt: skip
    parser.add_argument("--tls-cert", default="", metavar="FILE", help="certificate chain, PEM")
    parser.add_argument("--tls-key", default="", metavar="FILE", help="its private key, PEM")
    parser.add_argument("--token-file", default="", metavar="FILE", help="the bearer token that a scrape needs")


def run(args: argparse.Namespace) -> int:
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    metrics = ReportMetrics(registry)
    history = History()
    traces: Traces | None = None
    registry.register(NodeMetrics(args))
    try:
        host, port = parse_address(args.listen)
        settings = HttpSettings(host, port, args.tls_cert, args.tls_key, args.token_file)
        settings.check()
        traces = _traces(metrics)
        address = agent_address(args)
        receiver = Receiver(address, lambda report: _add(report, metrics, history, traces), history.methods())
    except (SettingsError, ExporterError, endpoint.EndpointError) as error:
        print(f"runhcs agent: {error}", file=sys.stderr)
        return 1
    try:
        server = HttpServer(settings, registry)
    except (SettingsError, OSError) as error:
        receiver.close()
        print(f"runhcs agent: cannot serve metrics on {args.listen}: {error}", file=sys.stderr)
        return 1
    scheme = "https" if args.tls_cert else "http"
    shown = f"[{host}]" if ":" in host else host
    print(f"metrics on {scheme}://{shown}:{server.port}/metrics, reports of shims on {address}", flush=True)
    while not stop.wait(STOP_POLL_SECONDS):  # on Windows a wait without a timeout ignores Ctrl-C
        continue
    history.close()
    server.close()
    receiver.close()
    if traces is not None:
        traces[1].close()
    return 0


def _traces(metrics: ReportMetrics) -> Traces | None:
    exporter = from_environment()
    if exporter is None:
        return None
    from runhcs.agent.span_tree import SpanTree, node_resource

    return SpanTree(sampler(), node_resource()), ExportQueue(exporter, metrics.export, metrics.drop)


def _add(report: Report, metrics: ReportMetrics, history: History, traces: Traces | None) -> None:
    metrics.add(report)
    history.add(report)
    if traces is not None:
        tree, queue = traces
        queue.put(tree.spans(report))

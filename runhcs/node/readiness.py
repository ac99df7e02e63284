"""The readiness probe of the pod: 200 when the node has what was requested. A rolling update waits for it, so it stops
at the first node on which a version fails."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from runhcs.node.reconcile import INSTALLING, Status

LOOPBACK = "127.0.0.1"


class Readiness:
    def __init__(self, port: int) -> None:
        self.status = Status(INSTALLING)
        readiness = self

        class Handler(BaseHTTPRequestHandler):
            timeout = 10.0

            def do_GET(self) -> None:
                status = readiness.status
                body = f"{status.state} {status.text}\n".encode()
                self.send_response(200 if status.is_done else 503)
                self.send_header("Content-Type", "text/plain; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                """The kubelet asks every few seconds."""

        self._server = ThreadingHTTPServer((LOOPBACK, port), Handler)
        self.port = int(self._server.server_address[1])
        threading.Thread(target=self._server.serve_forever, name="readiness", daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

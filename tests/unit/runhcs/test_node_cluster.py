"""What `runhcs node-install` sends to the API server and answers to the kubelet. The API server is one of this process,
with TLS."""

from __future__ import annotations

import json
import ssl
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from runhcs.node.cluster import Cluster, ClusterError
from runhcs.node.readiness import Readiness
from runhcs.node.reconcile import INSTALLING, READY, REMOVED, ROLLED_BACK, Status

TOKEN = "a-token"


class ApiServer:
    def __init__(self, directory: Path) -> None:
        self.requests: list[tuple[str, str, str, dict[str, Any]]] = []
        self.refusal = ""
        key, certificate = directory / "key.pem", directory / "ca.crt"
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
             "-keyout", key, "-out", certificate, "-days", "2", "-subj", "/CN=test",
             "-addext", "subjectAltName=IP:127.0.0.1"],
            check=True, capture_output=True, timeout=60,
        )  # fmt: skip
        (directory / "token").write_text(TOKEN)
        server = self

        class Handler(BaseHTTPRequestHandler):
            def _answer(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                assert self.headers["Authorization"] == f"Bearer {TOKEN}"
                server.requests.append((self.command, self.path, self.headers["Content-Type"], body))
                answer = json.dumps({"message": server.refusal}).encode()
                self.send_response(403 if server.refusal else 200)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            do_PATCH = do_POST = _answer  # noqa: N815

            def log_message(self, format: str, *args: Any) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.url = f"https://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ApiServer]:
    server = ApiServer(tmp_path)
    yield server
    server.close()


@pytest.fixture
def cluster(server: ApiServer, tmp_path: Path) -> Cluster:
    return Cluster("node-1", server.url, tmp_path)


def test_ready_node_is_labelled_and_an_event_created_once(server: ApiServer, cluster: Cluster) -> None:
    for _ in range(2):
        cluster.report(Status(READY, "0.1.0-abc"))
    patch, event, again = server.requests
    assert patch == again and patch[:3] == ("PATCH", "/api/v1/nodes/node-1", "application/merge-patch+json")
    prefix = "containerd-shim-runhcs/"
    metadata = patch[3]["metadata"]
    assert metadata["labels"] == {f"{prefix}ready": "true", f"{prefix}state": "ready", f"{prefix}version": "0.1.0-abc"}
    assert metadata["annotations"] == {f"{prefix}reason": None}
    assert event[:2] == ("POST", "/api/v1/namespaces/default/events")
    assert event[3]["reason"] == "ShimReady" and event[3]["type"] == "Normal"
    assert event[3]["involvedObject"]["kind"] == "Node"


def test_rollback_has_the_reason_and_the_next_step(server: ApiServer, cluster: Cluster) -> None:
    cluster.report(Status(ROLLED_BACK, "", "doctor: hcs: no answer", "start vmcompute"))
    patch, event = server.requests
    assert patch[3]["metadata"]["labels"]["containerd-shim-runhcs/ready"] == "false"
    expected = "doctor: hcs: no answer: start vmcompute"
    assert patch[3]["metadata"]["annotations"] == {"containerd-shim-runhcs/reason": expected}
    assert (event[3]["type"], event[3]["reason"], event[3]["message"]) == ("Warning", "ShimRolledBack", expected)


def test_removal_removes_the_labels(server: ApiServer, cluster: Cluster) -> None:
    cluster.report(Status(REMOVED))
    assert set(server.requests[0][3]["metadata"]["labels"].values()) == {None}


def test_refusal_of_the_api_server_is_reported(server: ApiServer, cluster: Cluster) -> None:
    server.refusal = "nodes is forbidden"
    with pytest.raises(ClusterError, match="403 nodes is forbidden"):
        cluster.report(Status(READY, "1"))


def test_certificate_of_another_authority_is_refused(server: ApiServer, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    ApiServer(other).close()
    with pytest.raises(ClusterError, match="certificate verify failed"):
        Cluster("node-1", server.url, other).report(Status(READY, "1"))
    assert server.requests == []


def test_readiness_follows_the_status() -> None:
    readiness = Readiness(0)
    try:
        url = f"http://127.0.0.1:{readiness.port}/"
        for status, code in ((Status(INSTALLING), 503), (Status(READY, "1"), 200), (Status(ROLLED_BACK), 503)):
            readiness.status = status
            try:
                with urllib.request.urlopen(url, timeout=10) as response:
                    found = response.status
            except urllib.error.HTTPError as error:
                found = error.code
            assert found == code
    finally:
        readiness.close()

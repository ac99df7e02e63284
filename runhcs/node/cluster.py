"""What is published to Kubernetes about the node: labels, an annotation and events.

The program is a pod with a service account. It patches its own node only, which an admission policy of the deployment
enforces. The token is read for each request, because the kubelet replaces it before it expires.
"""

from __future__ import annotations

import http.client
import json
import os
import ssl
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from runhcs.config.runtimeclass import READY_LABEL
from runhcs.node.reconcile import Status

PREFIX = "containerd-shim-runhcs"
STATE_LABEL = f"{PREFIX}/state"
VERSION_LABEL = f"{PREFIX}/version"
REASON_ANNOTATION = f"{PREFIX}/reason"
CREDENTIALS = "var/run/secrets/kubernetes.io/serviceaccount"
EVENT_NAMESPACE = "default"  # that of events about nodes, which have no namespace
REQUEST_SECONDS = 30.0
LONGEST_TEXT = 1000


class ClusterError(Exception):
    """The API server did not accept a request; the message has the reason."""


def credentials() -> Path:
    """The directory of the service account. A host process container sees its volumes below its mount point, or at
    their own path; `enter-host` of a Linux image names the root of the container."""
    roots = [os.environ.get(name, "") for name in ("CONTAINER_SANDBOX_MOUNT_POINT", "RUNHCS_CONTAINER_ROOT")]
    places = [Path(root or "/", CREDENTIALS) for root in (*roots, "")]
    return next((path for path in places if (path / "token").exists()), places[-1])


class Cluster:
    def __init__(self, node: str, server: str = "", directory: Path | None = None) -> None:
        """`server`: the URL of the API server; by default that of the pod's environment."""
        self._node = node
        self._directory = directory or credentials()
        url = urlsplit(server or _server())
        self._host, self._port = url.hostname or "", url.port or 443
        self._reported: tuple[str, str] | None = None

    def report(self, status: Status) -> None:
        """Patch the node, and create an event if the state or its reason has changed. Raises ClusterError."""
        reason = status.text[:LONGEST_TEXT]
        is_removed = status.state == "removed" and not reason
        labels = {
            READY_LABEL: None if is_removed else str(status.is_usable).lower(),
            STATE_LABEL: None if is_removed else status.state,
            VERSION_LABEL: status.version.replace("+", "_") or None,
        }
        metadata = {"labels": labels, "annotations": {REASON_ANNOTATION: reason or None}}
        path = f"/api/v1/nodes/{quote(self._node, safe='')}"
        self._request("PATCH", path, {"metadata": metadata}, "application/merge-patch+json")
        if self._reported != (status.state, reason):
            self._reported = (status.state, reason)
            self._create_event(status, reason)

    def _create_event(self, status: Status, reason: str) -> None:
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        is_failure = bool(reason) and not status.is_done and status.state != "installing"
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"generateName": f"{PREFIX}-", "namespace": EVENT_NAMESPACE},
            # `kubectl describe node` finds events by this uid, as those of the kubelet.
            "involvedObject": {"apiVersion": "v1", "kind": "Node", "name": self._node, "uid": self._node},
            "reason": "Shim" + "".join(word.capitalize() for word in status.state.split("-")),
            "message": reason or f"the shim is {status.state} {status.version}".strip(),
            "type": "Warning" if is_failure else "Normal",
            "source": {"component": PREFIX, "host": self._node},
            "firstTimestamp": now, "lastTimestamp": now, "count": 1,
        }  # fmt: skip
        self._request("POST", f"/api/v1/namespaces/{EVENT_NAMESPACE}/events", event, "application/json")

    def _request(self, method: str, path: str, body: dict[str, Any], kind: str) -> None:
        try:
            token = (self._directory / "token").read_text().strip()
            context = ssl.create_default_context(cafile=str(self._directory / "ca.crt"))
            connection = http.client.HTTPSConnection(self._host, self._port, timeout=REQUEST_SECONDS, context=context)
            try:
                headers = {"Authorization": f"Bearer {token}", "Content-Type": kind, "Accept": "application/json"}
                connection.request(method, path, json.dumps(body), headers)
                response = connection.getresponse()
                text = response.read()
            finally:
                connection.close()
        except (OSError, http.client.HTTPException) as error:
            raise ClusterError(f"{method} {path} of the API server {self._host}:{self._port}: {error}") from None
        if response.status >= 300:
            raise ClusterError(f"{method} {path}: {response.status} {_message(text)}")


def _server() -> str:
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST", ""), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"


def _message(text: bytes) -> str:
    try:
        return str(json.loads(text)["message"])
    except (ValueError, KeyError, TypeError):
        return text[:200].decode(errors="replace")

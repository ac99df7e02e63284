"""A kubelet without an API server: it runs the pods whose manifests are in a directory.

    kubelet.run(pod("web", container("main", "sleep infinity")))
    kubelet.expect_ready("web")
    kubelet.remove("web")

Its API (`/pods`, `/stats/summary`, …) is read over HTTPS in the cluster's network.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import ssl
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from deploy.cluster import leaks, pods
from deploy.cluster.cluster import Cluster
from deploy.cluster.network import path as network_path
from deploy.cluster.settings import KUBELET_PORT, NODE, NODE_ADDRESS, Settings
from tests.support import network_namespace
from tests.support.eventually import eventually

# Pods boot a VM each, on a machine that runs other tests, too.
TIMEOUT = 180.0
INTERVAL = 0.2


def stop_and_check(cluster: Cluster) -> None:
    """Stop a cluster whose pods have all been removed. Fails if they have left anything, while the kubelet runs, which
    removes its control groups and volumes, or after it."""
    left: list[str] = []

    def is_clean() -> bool:
        left[:] = leaks.pod_resources(cluster.settings)
        return not left

    try:
        eventually(is_clean, "no resource of a pod is left", TIMEOUT, INTERVAL)
    except AssertionError:
        raise AssertionError(f"pods have left: {left}") from None
    finally:
        problems = cluster.down()
    assert not problems, problems


class StandaloneKubelet:
    def __init__(self, **settings: Any) -> None:
        directory = Path(tempfile.mkdtemp(prefix="k8s-", dir="/tmp"))
        self.settings = Settings(directory=directory, with_control_plane=False, **settings)
        self.cluster = Cluster(self.settings)
        self.namespace = str(network_path(self.settings))
        try:
            self.cluster.up()
            self.wait_until_serving()
        except BaseException:
            self.cluster.down()
            raise

    def stop(self) -> None:
        """Stop it. Fails if the pods have left anything."""
        for manifest in self.settings.manifests.iterdir():  # of tests that failed
            manifest.unlink()
        stop_and_check(self.cluster)

    def wait_until_serving(self) -> None:
        self.cluster.kubelet.wait_for(self._serves, "its API answers", TIMEOUT)

    def _serves(self) -> bool:
        try:
            return self.get("/healthz") == b"ok"
        except OSError:
            return False

    # Pods.

    def run(self, manifest: dict[str, Any]) -> None:
        self.settings.manifests.joinpath(f"{manifest['metadata']['name']}.json").write_text(json.dumps(manifest))

    def withdraw(self, name: str) -> None:
        """Remove the manifest; the kubelet stops the pod then."""
        (self.settings.manifests / f"{name}.json").unlink()

    def remove(self, name: str) -> None:
        """Remove the manifest, and wait until the containers and the sandbox of the pod are gone."""
        self.withdraw(name)
        eventually(lambda: not self.find(name) and not self._runs(name), f"the end of pod {name}", TIMEOUT, INTERVAL)

    def _runs(self, name: str) -> bool:
        """Whether the runtime has it. `/pods` does not show it once its manifest is removed, and what `/runningpods`
        shows is up to two seconds old."""
        return f"{name}-{NODE}" in pods.ready(self.settings)

    def find(self, name: str) -> dict[str, Any]:
        """The pod with its status; empty if there is none."""
        items = json.loads(self.get("/pods"))["items"] or []
        return next((one for one in items if one["metadata"]["name"] == f"{name}-{NODE}"), {})

    def status(self, name: str) -> dict[str, Any]:
        status: dict[str, Any] = self.find(name).get("status", {})
        return status

    def container(self, pod: str, name: str = "main", kind: str = "containerStatuses") -> dict[str, Any]:
        statuses = self.status(pod).get(kind, ())
        return next((one for one in statuses if one["name"] == name), {})

    def is_ready(self, name: str) -> bool:
        conditions = self.status(name).get("conditions", ())
        return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)

    def expect_ready(self, *names: str) -> None:
        for name in names:
            self._expect(lambda name=name: self.is_ready(name), f"pod {name} is ready", name)

    def expect_terminated(self, pod: str, name: str = "main", kind: str = "containerStatuses") -> dict[str, Any]:
        """Wait for the exit of a container, also if it was restarted then; returns its state."""

        def terminated() -> dict[str, Any]:
            status = self.container(pod, name, kind)
            found = status.get("state", {}).get("terminated") or status.get("lastState", {}).get("terminated")
            return found or {}

        state: dict[str, Any] = self._expect(terminated, f"container {name} of {pod} has exited", pod)
        return state

    def expect_restarts(self, pod: str, count: int, name: str = "main") -> None:
        self._expect(lambda: self.container(pod, name).get("restartCount", 0) >= count, f"{count} restarts", pod)

    def _expect(self, condition: Any, what: str, pod: str) -> Any:
        try:
            return eventually(condition, what, TIMEOUT, INTERVAL)
        except AssertionError as error:
            shown = json.dumps(self.status(pod), indent=1)
            raise AssertionError(f"{error}\n{shown}\n{self.cluster.kubelet.log_end(40)}") from None

    # The kubelet's API.

    def exec(self, pod: str, *command: str, container: str = "main") -> str:
        """The output of a command that succeeds. The kubelet splits it at spaces: no argument can have one."""
        assert not any(" " in word for word in command), command
        return self.request("POST", f"/run/default/{pod}-{NODE}/{container}?cmd={quote(' '.join(command))}").decode()

    def log(self, pod: str, container: str = "main", query: str = "") -> str:
        return self.get(f"/containerLogs/default/{pod}-{NODE}/{container}{query}").decode()

    @contextlib.contextmanager
    def follow_log(self, pod: str, container: str = "main") -> Iterator[http.client.HTTPResponse]:
        """`kubectl logs -f`: lines as they are written, until the container has exited."""
        connection = self._connect()
        try:
            connection.request("GET", f"/containerLogs/default/{pod}-{NODE}/{container}?follow=true")
            response = connection.getresponse()
            assert response.status == 200, response.read()
            yield response
        finally:
            connection.close()

    def get(self, path: str) -> bytes:
        return self.request("GET", path)

    def request(self, method: str, path: str) -> bytes:
        connection = self._connect()
        try:
            connection.request(method, path)
            response = connection.getresponse()
            body = response.read()
            assert response.status == 200, f"{method} {path}: {response.status} {body.decode(errors='replace')}"
            return body
        finally:
            connection.close()

    def _connect(self) -> http.client.HTTPSConnection:
        pki = self.settings.certificates
        context = ssl.create_default_context(cafile=str(pki / "ca.crt"))
        context.load_cert_chain(pki / "apiserver-kubelet-client.crt", pki / "apiserver-kubelet-client.key")
        connection = http.client.HTTPSConnection(NODE_ADDRESS, KUBELET_PORT, context=context, timeout=TIMEOUT)
        raw = network_namespace.connect(self.namespace, (NODE_ADDRESS, KUBELET_PORT))
        connection.sock = context.wrap_socket(raw, server_hostname=NODE_ADDRESS)
        return connection

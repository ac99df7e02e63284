"""A cluster for tests, used by kubectl.

cluster.apply(pod("web", container()))
cluster.wait("--for=condition=Ready", "pod/web")
cluster.kubectl("exec", "web", "--", "hostname").stdout
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from deploy.cluster import control_plane
from deploy.cluster.cluster import Cluster
from deploy.cluster.settings import Settings
from tests.kubernetes.standalone import stop_and_check
from tests.support.eventually import eventually

TIMEOUT = 240.0
INTERVAL = 0.2


class TestCluster:
    __test__ = False

    def __init__(self, **settings: Any) -> None:
        directory = Path(tempfile.mkdtemp(prefix="k8s-", dir="/tmp"))
        self.settings = Settings(directory=directory, **settings)
        self.cluster = Cluster(self.settings)
        try:
            self.cluster.up()
            if self.settings.with_shim:
                self.cluster.apply_runtime_classes()
        except BaseException:
            self.cluster.down()
            raise

    def stop(self) -> None:
        """Stop it. Fails if pods have left anything."""
        for kind in ("deployments", "daemonsets", "jobs", "pods"):  # of tests that failed
            self.kubectl("delete", kind, "--all", "--all-namespaces", f"--timeout={TIMEOUT:g}s", check=False)
        stop_and_check(self.cluster)

    def kubectl(self, *arguments: str, stdin: str = "", check: bool = True) -> subprocess.CompletedProcess[str]:
        return control_plane.kubectl(self.settings, *arguments, stdin=stdin, check=check, timeout=TIMEOUT + 30)

    def command(self, *arguments: str) -> list[str]:
        """The command line, for `Popen`."""
        return control_plane.kubectl_command(self.settings, *arguments)

    def apply(self, *objects: dict[str, Any]) -> None:
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})
        self.kubectl("apply", "-f", "-", stdin=text)

    def get(self, *arguments: str) -> dict[str, Any]:
        """An object, or a list with `items`; empty if it does not exist."""
        result = self.kubectl("get", *arguments, "--ignore-not-found", "-o", "json")
        found: dict[str, Any] = json.loads(result.stdout) if result.stdout else {}
        return found

    def wait(self, *arguments: str) -> None:
        """`kubectl wait`; a failure shows the pods and their events."""
        result = self.kubectl("wait", *arguments, f"--timeout={TIMEOUT:g}s", check=False)
        if result.returncode:
            shown = self.kubectl("describe", "pods").stdout[-6000:]
            raise AssertionError(f"kubectl wait {arguments}: {result.stderr}\n{shown}")

    def run(self, manifest: dict[str, Any]) -> str:
        """Create a pod and wait until it is ready; returns its name."""
        name: str = manifest["metadata"]["name"]
        self.apply(manifest)
        self.wait("--for=condition=Ready", f"pod/{name}")
        return name

    def delete(self, *arguments: str) -> None:
        """`kubectl delete`, which waits until the objects are gone. It must not hang."""
        self.kubectl("delete", *arguments, f"--timeout={TIMEOUT:g}s")

    def pods(self, selector: str = "") -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = self.get("pods", "-l", selector).get("items", [])
        return items

    def expect_pods(self, selector: str, count: int) -> None:
        """Wait until there are so many pods, and none that is being deleted."""
        eventually(
            lambda: len(self.pods(selector)) == count,
            f"{count} pods of {selector}: {[one['metadata']['name'] for one in self.pods(selector)]}",
            TIMEOUT, INTERVAL,
        )  # fmt: skip

    def container(self, pod: str, name: str = "main") -> dict[str, Any]:
        """The status of a container."""
        statuses = self.get("pod", pod).get("status", {}).get("containerStatuses", ())
        return next((one for one in statuses if one["name"] == name), {})

    def events(self, pod: str) -> str:
        """The messages of a pod's events, as `kubectl describe pod` shows them."""
        return self.kubectl("describe", "pod", pod).stdout.partition("\nEvents:")[2]

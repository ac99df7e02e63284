"""Controllers and kubectl on a cluster whose pods run with this shim."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deploy.cluster.containerd import RUNTIMES
from deploy.cluster.images import BUSYBOX
from deploy.cluster.network import path as network_path
from tests.kubernetes.api import INTERVAL, TIMEOUT, TestCluster
from tests.kubernetes.manifests import SLEEP, container, pod
from tests.kubernetes.processes import shims, vms
from tests.support import network_namespace
from tests.support.eventually import eventually

HTTPD = container("main", "exec httpd -f -p 8080 -h /www", readinessProbe={"tcpSocket": {"port": 8080}})


def controller(kind: str, name: str, main: dict[str, Any], **spec: Any) -> dict[str, Any]:
    template = pod(name, main)
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": template["spec"]},
            **spec,
        },
    }


def test_generated_runtime_classes_select_handler_overhead_and_size(cluster: TestCluster) -> None:
    classes = {one["metadata"]["name"]: one for one in cluster.get("runtimeclasses")["items"]}
    assert set(RUNTIMES) <= set(classes)
    name = cluster.run(pod("sized", container(), runtimeClassName="runhcs-lcow-2vp4gb"))
    created = cluster.get("pod", name)
    assert created["spec"]["overhead"] == {"cpu": "100m", "memory": "128Mi"}
    # The VM of the pod has the size of its runtime.
    assert int(cluster.kubectl("exec", name, "--", "nproc").stdout) <= 2
    cluster.delete("pod", name)


def test_deployment_scales_to_20_and_back_to_3(cluster: TestCluster) -> None:
    cluster.apply(controller("Deployment", "web", HTTPD, replicas=3))
    cluster.wait("--for=condition=Available", "deployment/web")
    first = {one["metadata"]["uid"] for one in cluster.pods("app=web")}
    cluster.kubectl("scale", "deployment/web", "--replicas=20")
    cluster.wait("--for=jsonpath={.status.readyReplicas}=20", "deployment/web")
    assert first <= {one["metadata"]["uid"] for one in cluster.pods("app=web")}
    cluster.kubectl("scale", "deployment/web", "--replicas=3")
    cluster.expect_pods("app=web", 3)
    cluster.wait("--for=jsonpath={.status.readyReplicas}=3", "deployment/web")
    cluster.delete("deployment", "web", "--cascade=foreground")
    cluster.expect_pods("app=web", 0)


def test_rolling_update_replaces_pods_without_an_outage(cluster: TestCluster) -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}
    cluster.apply(controller("Deployment", "rolled", HTTPD, replicas=3, strategy=strategy))
    cluster.wait("--for=condition=Available", "deployment/rolled")
    before = {one["metadata"]["uid"] for one in cluster.pods("app=rolled")}
    cluster.kubectl("set", "env", "deployment/rolled", "VERSION=2")
    with subprocess.Popen(
        cluster.command("get", "deployment/rolled", "--watch", "-o", "jsonpath={.status.availableReplicas}{'\\n'}"),
        stdout=subprocess.PIPE, text=True,
    ) as watch:  # fmt: skip
        try:
            cluster.kubectl("rollout", "status", "deployment/rolled", f"--timeout={TIMEOUT:g}s")
        finally:
            watch.terminate()
        available = [int(line) for line in watch.communicate(timeout=30)[0].split()]
    assert available and min(available) >= 3
    cluster.expect_pods("app=rolled", 3)
    assert not before & {one["metadata"]["uid"] for one in cluster.pods("app=rolled")}
    name = cluster.pods("app=rolled")[0]["metadata"]["name"]
    assert cluster.kubectl("exec", name, "--", "sh", "-c", "echo $VERSION").stdout == "2\n"
    cluster.delete("deployment", "rolled", "--cascade=foreground")


def test_job_counts_completions_and_daemon_set_runs_on_the_node(cluster: TestCluster) -> None:
    template = {"spec": {**pod("x", container(script="echo done"))["spec"], "restartPolicy": "Never"}}
    job = {"completions": 4, "parallelism": 2, "template": template}
    cluster.apply({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "work"}, "spec": job})
    cluster.apply(controller("DaemonSet", "agent", container()))
    cluster.wait("--for=condition=Complete", "job/work")
    assert cluster.get("job", "work")["status"]["succeeded"] == 4
    assert cluster.kubectl("logs", "-l", "job-name=work").stdout == "done\n" * 4
    cluster.wait("--for=jsonpath={.status.numberReady}=1", "daemonset/agent")
    cluster.delete("job/work", "daemonset/agent", "--cascade=foreground")


def test_failed_job_reports_the_exit_code(cluster: TestCluster) -> None:
    template = {"spec": {**pod("x", container(script="exit 7"))["spec"], "restartPolicy": "Never"}}
    spec = {"backoffLimit": 0, "template": template}
    cluster.apply({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "failing"}, "spec": spec})
    cluster.wait("--for=condition=Failed", "job/failing")
    (failed,) = cluster.pods("job-name=failing")
    assert failed["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 7
    cluster.delete("job", "failing", "--cascade=foreground")


def test_kubectl_exec_logs_attach_and_cp(cluster: TestCluster, tmp_path: Path) -> None:
    name = cluster.run(pod("tools", container(script=f"echo a line; {SLEEP}")))
    result = cluster.kubectl("exec", name, "--", "sh", "-c", "echo out; echo err >&2; exit 4", check=False)
    assert (result.returncode, result.stdout) == (4, "out\n") and "err\n" in result.stderr
    assert cluster.kubectl("exec", "-i", name, "--", "wc", "-c", stdin="12345").stdout == "5\n"
    assert cluster.kubectl("logs", name).stdout == "a line\n"
    content = os.urandom(3 << 20)
    (tmp_path / "there").write_bytes(content)
    cluster.kubectl("cp", str(tmp_path / "there"), f"{name}:/tmp/file")
    cluster.kubectl("cp", f"{name}:/tmp/file", str(tmp_path / "back"))
    assert (tmp_path / "back").read_bytes() == content
    cluster.delete("pod", name)


def test_kubectl_port_forward(cluster: TestCluster) -> None:
    name = cluster.run(pod("forwarded", HTTPD))
    with subprocess.Popen(cluster.command("port-forward", name, ":8080"), stdout=subprocess.PIPE, text=True) as forward:
        try:
            assert forward.stdout is not None
            line = forward.stdout.readline()
            found = re.search(r"127\.0\.0\.1:(\d+) -> 8080", line)
            assert found, line
            for _ in range(3):
                address = ("127.0.0.1", int(found[1]))
                with network_namespace.connect(str(network_path(cluster.settings)), address) as connection:
                    connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
                    assert connection.makefile("rb").read().endswith(b"a page of the image\n")
        finally:
            forward.terminate()
    cluster.delete("pod", name)


def test_resize_in_place_changes_limits_without_a_restart(cluster: TestCluster) -> None:
    resources = {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"cpu": "200m", "memory": "64Mi"}}
    name = cluster.run(pod("resized", container(resources=resources), runtimeClassName="runhcs-lcow"))
    before = cluster.container(name)["containerID"]
    assert memory_limit(cluster, name) == 64 << 20
    resized = '{"limits": {"cpu": "400m", "memory": "128Mi"}, "requests": {"cpu": "100m", "memory": "64Mi"}}'
    patch = f'{{"spec": {{"containers": [{{"name": "main", "resources": {resized}}}]}}}}'
    cluster.kubectl("patch", "pod", name, "--subresource", "resize", "--patch", patch)
    eventually(lambda: memory_limit(cluster, name) == 128 << 20, "the new limit in the VM", TIMEOUT, INTERVAL)
    expected = {"cpu": "400m", "memory": "128Mi"}
    eventually(
        lambda: cluster.container(name).get("resources", {}).get("limits") == expected,
        "the new limits in the status", TIMEOUT, INTERVAL,
    )  # fmt: skip
    status = cluster.container(name)
    assert (status["containerID"], status["restartCount"]) == (before, 0)
    cluster.delete("pod", name)


def memory_limit(cluster: TestCluster, pod: str) -> int:
    files = "/sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/memory.max"
    return int(cluster.kubectl("exec", pod, "--", "sh", "-c", f"cat {files} 2>/dev/null", check=False).stdout or 0)


def test_config_maps_secrets_and_service_account_tokens(cluster: TestCluster) -> None:
    cluster.apply(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"colour": "blue"}},
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "password"}, "stringData": {"word": "secret"}},
    )
    sources = [{"configMap": {"name": "settings"}}, {"secret": {"name": "password"}}]
    volumes = [{"name": "all", "projected": {"sources": sources}}]
    environment = [{"name": "COLOUR", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "colour"}}}]
    main = container(volumeMounts=[{"name": "all", "mountPath": "/all"}], env=environment)
    name = cluster.run(pod("configured", main, volumes=volumes))
    script = (
        "echo $COLOUR; cat /all/colour; echo; cat /all/word; echo; ls /var/run/secrets/kubernetes.io/serviceaccount"
    )
    shown = cluster.kubectl("exec", name, "--", "sh", "-c", script).stdout.split()
    assert shown == ["blue", "blue", "secret", "ca.crt", "namespace", "token"]
    # A changed ConfigMap reaches the running container.
    cluster.kubectl("patch", "configmap", "settings", "--patch", '{"data": {"colour": "green"}}')
    eventually(
        lambda: cluster.kubectl("exec", name, "--", "cat", "/all/colour").stdout == "green",
        "the new value", TIMEOUT, INTERVAL,
    )  # fmt: skip
    cluster.delete("pod/configured", "configmap/settings", "secret/password")


def stop_containerd(cluster: TestCluster) -> list[int]:
    cluster.cluster.containerd.stop(signal.SIGKILL)
    return []


@pytest.mark.parametrize(
    "victims",
    [lambda cluster: shims(cluster.settings), lambda cluster: vms(cluster.cluster), stop_containerd],
    ids=["shim", "VM", "containerd"],
)
def test_deletion_does_not_hang_after_a_crash(
    cluster: TestCluster, victims: Callable[[TestCluster], list[int]]
) -> None:
    """The process is killed just before the pod is deleted. The pod must go, and leave nothing."""
    main = container(lifecycle={"preStop": {"exec": {"command": ["true"]}}})
    name = cluster.run(pod("crashed", main, container("other"), restartPolicy="Never"))
    for pid in victims(cluster):
        os.kill(pid, signal.SIGKILL)
    cluster.kubectl("delete", "pod", name, "--wait=false")
    if not cluster.cluster.containerd.pid:
        cluster.cluster.containerd.start_serving()
    cluster.kubectl("wait", "--for=delete", f"pod/{name}", f"--timeout={TIMEOUT:g}s")


def test_stdin_outlives_containerd(cluster: TestCluster) -> None:
    """A program that reads its input does not see its end when containerd restarts, and `kubectl attach` reaches it."""
    name = cluster.run(pod("reading", container(script="while read line; do echo got $line; done", stdin=True)))
    before = cluster.container(name)["containerID"]
    for number, text in ((signal.SIGTERM, "first"), (signal.SIGKILL, "second")):
        cluster.cluster.containerd.stop(number)
        cluster.cluster.containerd.start_serving()
        # The kubelet connects to containerd again some moments later.
        cluster.kubectl("wait", "--for=condition=Ready", "node/node", f"--timeout={TIMEOUT:g}s")
        cluster.kubectl("attach", "-i", name, stdin=f"{text}\n")
        expected = f"got {text}\n"
        eventually(lambda line=expected: line in cluster.kubectl("logs", name).stdout, expected, TIMEOUT, INTERVAL)  # type: ignore[misc]
    status = cluster.container(name)
    assert (status["containerID"], status["restartCount"]) == (before, 0)
    cluster.delete("pod", name)


def test_image_is_in_the_status(cluster: TestCluster) -> None:
    name = cluster.run(pod("plain", container()))
    assert cluster.container(name)["image"] == BUSYBOX
    cluster.delete("pod", name)

"""Static pods under a kubelet without an API server: each pod is a VM with a Linux guest."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest

from tests.kubernetes.manifests import SLEEP, container, pod
from tests.kubernetes.standalone import INTERVAL, TIMEOUT, StandaloneKubelet
from tests.support.eventually import eventually

QUICK = {"periodSeconds": 1, "failureThreshold": 2}
# A probe that must not fail because the machine is loaded.
SLOW = {"periodSeconds": 5, "timeoutSeconds": 30, "failureThreshold": 5}


def test_probes_by_exec_http_and_tcp_make_a_pod_ready(kubelet: StandaloneKubelet) -> None:
    probes: dict[str, dict[str, Any]] = {
        "exec": {"exec": {"command": ["test", "-e", "/www/index.html"]}},
        "http": {"httpGet": {"path": "/index.html", "port": 8081}},
        "tcp": {"tcpSocket": {"port": 8082}},
    }
    scripts = {"exec": SLEEP, "http": "exec httpd -f -p 8081 -h /www", "tcp": "exec httpd -f -p 8082 -h /www"}
    containers = [
        container(name, scripts[name], readinessProbe=probe | QUICK, livenessProbe=probe | SLOW)
        for name, probe in probes.items()
    ]
    kubelet.run(pod("probes", *containers))
    kubelet.expect_ready("probes")
    statuses = kubelet.status("probes")["containerStatuses"]
    assert [one["ready"] for one in statuses] == [True] * 3
    assert [one["restartCount"] for one in statuses] == [0] * 3
    kubelet.remove("probes")


@pytest.mark.parametrize(
    "probe",
    [
        {"exec": {"command": ["false"]}},
        {"httpGet": {"path": "/healthz", "port": 9}},
        {"tcpSocket": {"port": 9}},
        {"grpc": {"port": 9}},
    ],
    ids=lambda probe: next(iter(probe)),
)
def test_failing_liveness_probe_restarts_the_container(kubelet: StandaloneKubelet, probe: dict[str, Any]) -> None:
    kubelet.run(pod("failing", container(livenessProbe=probe | QUICK)))
    kubelet.expect_restarts("failing", 1)
    # The script ends at SIGTERM.
    assert kubelet.expect_terminated("failing")["exitCode"] == 0
    kubelet.remove("failing")


def test_crashing_container_is_restarted_with_back_off(kubelet: StandaloneKubelet) -> None:
    kubelet.run(pod("crashing", container(script="echo once; exit 3")))
    eventually(
        lambda: kubelet.container("crashing").get("state", {}).get("waiting", {}).get("reason") == "CrashLoopBackOff",
        "CrashLoopBackOff", TIMEOUT, INTERVAL,
    )  # fmt: skip
    status = kubelet.container("crashing")
    assert status["restartCount"] >= 1
    assert status["lastState"]["terminated"]["exitCode"] == 3
    assert kubelet.log("crashing", query="?previous=true") == "once\n"
    kubelet.remove("crashing")


def test_init_containers_run_in_order_before_sidecars_and_main(kubelet: StandaloneKubelet) -> None:
    mounts = [{"name": "data", "mountPath": "/data"}]
    init = [
        container("first", "echo first >> /data/order", volumeMounts=mounts),
        container("sidecar", f"echo sidecar >> /data/order; {SLEEP}", volumeMounts=mounts, restartPolicy="Always",
                  startupProbe={"exec": {"command": ["grep", "sidecar", "/data/order"]}, "periodSeconds": 1}),
        container("second", "echo second >> /data/order", volumeMounts=mounts),
    ]  # fmt: skip
    main = container(script=f"echo main >> /data/order; cat /data/order; {SLEEP}", volumeMounts=mounts)
    kubelet.run(pod("ordered", main, initContainers=init, volumes=[{"name": "data", "emptyDir": {}}]))
    kubelet.expect_ready("ordered")
    eventually(lambda: kubelet.log("ordered") == "first\nsidecar\nsecond\nmain\n", "the order", TIMEOUT, INTERVAL)
    sidecar = kubelet.container("ordered", "sidecar", "initContainerStatuses")
    assert sidecar["ready"] and sidecar["started"] and "running" in sidecar["state"]
    kubelet.remove("ordered")


def test_lifecycle_hooks_and_grace_period(kubelet: StandaloneKubelet, tmp_path: Path) -> None:
    """The pre-stop hook, then SIGTERM, then SIGKILL after the grace period."""
    tmp_path.chmod(0o777)
    mounts = [{"name": "host", "mountPath": "/host"}]
    hooks = {
        "postStart": {"exec": {"command": ["sh", "-c", "echo started >> /host/events"]}},
        "preStop": {"exec": {"command": ["sh", "-c", "echo stopping >> /host/events"]}},
    }
    # It handles SIGTERM, and goes on.
    script = "trap 'echo term >> /host/events' TERM; while :; do sleep 0.1; done"
    volumes = [{"name": "host", "hostPath": {"path": str(tmp_path), "type": "Directory"}}]
    main = container(script=script, lifecycle=hooks, volumeMounts=mounts)
    kubelet.run(pod("hooks", main, volumes=volumes, terminationGracePeriodSeconds=3))
    kubelet.expect_ready("hooks")
    assert (tmp_path / "events").read_text() == "started\n"
    begin = time.monotonic()
    kubelet.remove("hooks")
    assert (tmp_path / "events").read_text() == "started\nstopping\nterm\n"
    assert time.monotonic() - begin >= 2  # the process did not exit before SIGKILL


def test_termination_message_from_file_and_from_log(kubelet: StandaloneKubelet) -> None:
    containers = [
        container("file", "echo from the file > /dev/termination-log; exit 4"),
        container("log", "echo from the log; exit 5", terminationMessagePolicy="FallbackToLogsOnError"),
    ]
    kubelet.run(pod("messages", *containers, restartPolicy="Never"))
    file = kubelet.expect_terminated("messages", "file")
    log = kubelet.expect_terminated("messages", "log")
    assert (file["exitCode"], file["message"]) == (4, "from the file\n")
    assert (log["exitCode"], log["message"]) == (5, "from the log\n")
    eventually(lambda: kubelet.status("messages")["phase"] == "Failed", "phase Failed", TIMEOUT, INTERVAL)
    kubelet.remove("messages")


def test_container_over_its_memory_limit_is_oom_killed(kubelet: StandaloneKubelet) -> None:
    limits = {"limits": {"memory": "64Mi", "cpu": "500m"}}
    main = container(script="tail /dev/zero", resources=limits)
    kubelet.run(pod("greedy", main, container("other"), restartPolicy="Never"))
    state = kubelet.expect_terminated("greedy")
    assert (state["exitCode"], state["reason"]) == (137, "OOMKilled")
    assert "running" in kubelet.container("greedy", "other")["state"]
    kubelet.remove("greedy")


def test_missing_program_is_reported(kubelet: StandaloneKubelet) -> None:
    main = {**container(), "command": ["/no/such/program"]}
    kubelet.run(pod("missing", main, restartPolicy="Never"))
    state = kubelet.expect_terminated("missing")
    assert state["reason"] == "StartError" and state["exitCode"] == 128
    assert "/no/such/program" in state["message"] and "no such file or directory" in state["message"]
    kubelet.remove("missing")


def test_stats_summary_and_resource_metrics(kubelet: StandaloneKubelet) -> None:
    script = "dd if=/dev/zero of=/dev/shm/x bs=1M count=20 2>/dev/null; while :; do :; done"
    main = container(script=script, resources={"limits": {"cpu": "200m"}})
    kubelet.run(pod("busy", main, container("idle")))
    kubelet.expect_ready("busy")

    def measured() -> dict[str, Any]:
        summary = json.loads(kubelet.get("/stats/summary"))
        found = [one for one in summary["pods"] if one["podRef"]["name"] == "busy-node"]
        if not found or len(found[0].get("containers") or ()) < 2:
            return {}
        usage = {one["name"]: one for one in found[0]["containers"]}
        ready = usage["main"].get("cpu", {}).get("usageNanoCores") and found[0].get("cpu", {}).get("usageNanoCores")
        return found[0] if ready else {}

    stats = eventually(measured, "stats of the pod and both containers", TIMEOUT, INTERVAL)
    usage = {one["name"]: one for one in stats["containers"]}
    assert usage["main"]["memory"]["workingSetBytes"] > 20 << 20
    assert usage["main"]["cpu"]["usageCoreNanoSeconds"] > usage["idle"]["cpu"]["usageCoreNanoSeconds"]
    # No limit of memory: the kubelet leaves availableBytes out, or it is what the node has.
    assert usage["main"]["memory"].get("availableBytes", 0) < 1 << 50
    # The pod's are those of its VM, which is in the pod's control group.
    assert stats["cpu"]["usageCoreNanoSeconds"] > usage["idle"]["cpu"]["usageCoreNanoSeconds"]
    assert stats["memory"]["workingSetBytes"] > 20 << 20
    metrics = kubelet.get("/metrics/resource").decode()
    for name in ("container_cpu_usage_seconds_total", "container_memory_working_set_bytes"):
        assert f'{name}{{container="main",namespace="default",pod="busy-node"}}' in metrics
    for name, least in (("pod_cpu_usage_seconds_total", 0.05), ("pod_memory_working_set_bytes", 20 << 20)):
        found = re.search(rf'^{name}{{namespace="default",pod="busy-node"}} (\S+)', metrics, re.MULTILINE)
        assert found and float(found[1]) > least, (name, metrics)
    kubelet.remove("busy")


def test_server_answers_at_the_address_of_the_pod(kubelet: StandaloneKubelet) -> None:
    main = container(script="exec httpd -f -p 8080 -h /www", readinessProbe={"tcpSocket": {"port": 8080}} | QUICK)
    kubelet.run(pod("server", main, container("client")))
    kubelet.expect_ready("server")
    for target in (kubelet.status("server")["podIP"], "127.0.0.1"):
        page = kubelet.exec("server", "wget", "-q", "-O-", f"http://{target}:8080/", container="client")
        assert page == "a page of the image\n"
    kubelet.remove("server")

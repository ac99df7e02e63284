"""Restarts and crashes of kubelet, containerd, shim and VM while pods run and write logs."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kubernetes.manifests import SLEEP, container, pod
from tests.kubernetes.processes import shims, vms
from tests.kubernetes.standalone import INTERVAL, TIMEOUT, StandaloneKubelet
from tests.support.eventually import eventually

LINES = 30_000
# Lines in bursts, so that they go on during restarts.
WRITER = (
    f"i=0; while [ $i -lt {LINES} ]; do i=$((i+1)); echo line $i; [ $((i % 1000)) = 0 ] && sleep 0.5; done; {SLEEP}"
)
PODS = ("one", "two", "three")


def test_restarts_of_kubelet_and_containerd_keep_pods_and_lose_no_log_line(kubelet: StandaloneKubelet) -> None:
    for name in PODS:
        kubelet.run(pod(name, container(script=WRITER), container("other")))
    kubelet.expect_ready(*PODS)
    before = {name: identities(kubelet, name) for name in PODS}
    daemon, containerd = kubelet.cluster.kubelet, kubelet.cluster.containerd
    for number in (signal.SIGTERM, signal.SIGKILL):
        daemon.stop(number)
        daemon.start_serving()
        kubelet.wait_until_serving()
        containerd.stop(number)
        containerd.start_serving()
    eventually(lambda: all(kubelet.is_ready(name) for name in PODS), "all pods are ready", TIMEOUT, INTERVAL)
    for name in PODS:
        eventually(
            lambda name=name: log_lines(kubelet, name)[-1:] == [f"line {LINES}"],  # type: ignore[misc]
            f"the last line of {name}", TIMEOUT, INTERVAL,
        )  # fmt: skip
        assert log_lines(kubelet, name) == [f"line {number}" for number in range(1, LINES + 1)]
    assert {name: identities(kubelet, name) for name in PODS} == before
    for name in PODS:
        kubelet.remove(name)


def test_exit_during_an_outage_of_containerd_is_reported(kubelet: StandaloneKubelet, tmp_path: Path) -> None:
    volume = {"name": "host", "hostPath": {"path": str(tmp_path), "type": "Directory"}}
    script = "while [ ! -e /host/go ]; do sleep 0.1; done; exit 9"
    main = container(script=script, volumeMounts=[{"name": "host", "mountPath": "/host"}])
    kubelet.run(pod("outage", main, container("other"), volumes=[volume], restartPolicy="Never"))
    kubelet.expect_ready("outage")
    kubelet.cluster.containerd.stop(signal.SIGKILL)
    (tmp_path / "go").touch()
    kubelet.cluster.containerd.start_serving()
    assert kubelet.expect_terminated("outage")["exitCode"] == 9
    kubelet.remove("outage")


@pytest.mark.parametrize(
    "victims",
    [lambda kubelet: shims(kubelet.settings), lambda kubelet: vms(kubelet.cluster)],
    ids=["shim", "VM"],
)
def test_pod_returns_after_its_shim_or_vm_was_killed(
    kubelet: StandaloneKubelet, victims: Callable[[StandaloneKubelet], list[int]]
) -> None:
    kubelet.run(pod("killed", container()))
    kubelet.expect_ready("killed")
    first = identities(kubelet, "killed")["main"]
    # Shims of pods before may still be exiting.
    eventually(lambda: len(victims(kubelet)) == 1, "one process", TIMEOUT, INTERVAL)
    os.kill(victims(kubelet)[0], signal.SIGKILL)
    eventually(
        lambda: kubelet.is_ready("killed") and identities(kubelet, "killed")["main"] != first,
        "the pod is ready with another container", TIMEOUT, INTERVAL,
    )  # fmt: skip
    kubelet.remove("killed")


def identities(kubelet: StandaloneKubelet, name: str) -> dict[str, str]:
    statuses = kubelet.status(name).get("containerStatuses", ())
    return {one["name"]: f"{one.get('containerID')} restarts {one['restartCount']}" for one in statuses}


def log_lines(kubelet: StandaloneKubelet, name: str) -> list[str]:
    """Of the container `main`, as the files on the node have them, with rotated files."""
    (directory,) = kubelet.settings.pod_logs.glob(f"default_{name}-node_*/main")
    lines: list[str] = []
    for path in [*sorted(directory.glob("0.log.*")), directory / "0.log"]:
        lines += [line.split(" ", 3)[3] for line in path.read_text().splitlines() if line.count(" ") >= 3]
    return lines

"""Pods that share a shim (ShimScope `namespace`) under a kubelet: probes, restarts of containerd, the removal of one
pod, and a crash of the shim, which ends all its pods."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deploy.cluster.containerd import NAMESPACE
from deploy.cluster.settings import DEFAULT_RUNTIME, NODE
from shim.commands import SHIM_SCOPE
from shim.commands.shared import DAEMON_PANIC_LOG
from tests.kubernetes.manifests import container, pod
from tests.kubernetes.processes import shims, vms
from tests.kubernetes.standalone import INTERVAL, TIMEOUT, StandaloneKubelet
from tests.support.eventually import eventually

PODS = ("one", "two", "three", "four")
# It must not fail because the machine is loaded, and the file that it looks for is one of the container's own.
PROBE = {"exec": {"command": ["test", "-e", "/tmp/ready"]}, "periodSeconds": 1, "timeoutSeconds": 30}
SCRIPT = "touch /tmp/ready; trap exit TERM; while :; do sleep 1; done"
# For the runtime of pods without a RuntimeClass, as docs/how-to/shim-scope.md has it.
CONFIG = f"""\
version = 3
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.{DEFAULT_RUNTIME}.options.DefaultContainerAnnotations]
  "{SHIM_SCOPE}" = "namespace"
"""


@pytest.fixture(scope="module")
def kubelet() -> Iterator[StandaloneKubelet]:
    """With pods of two containers each, which are ready, in one shim. The tests leave them so."""
    kubelet = StandaloneKubelet()
    try:
        (kubelet.settings.containerd_imports / "shim-scope.toml").write_text(CONFIG)
        kubelet.cluster.containerd.stop()
        kubelet.cluster.containerd.start_serving()
        for name in PODS:
            kubelet.run(probed(name))
        kubelet.expect_ready(*PODS)
        yield kubelet
    finally:
        kubelet.stop()  # with a check for leaks


def probed(name: str) -> dict[str, Any]:
    """A pod whose containers are ready as long as an exec in them succeeds, and are restarted if it fails."""
    containers = [container(one, SCRIPT, readinessProbe=PROBE, livenessProbe=PROBE) for one in ("main", "other")]
    return pod(name, *containers)


def containers_of(kubelet: StandaloneKubelet, *names: str) -> dict[str, set[str]]:
    """The containers of each pod, with how often each was restarted."""
    found = {}
    for name in names:
        statuses = kubelet.status(name).get("containerStatuses", ())
        found[name] = {f"{one['name']} {one.get('containerID')} restarts {one['restartCount']}" for one in statuses}
    return found


def one_shim(kubelet: StandaloneKubelet) -> int:
    """The pid of the only shim; commands of the shim exit soon."""
    eventually(lambda: len(shims(kubelet.settings)) == 1, "one shim for all pods", TIMEOUT, INTERVAL)
    return shims(kubelet.settings)[0]


def sandboxes(kubelet: StandaloneKubelet) -> list[Path]:
    """The bundles of pods."""
    return [path.parent for path in kubelet.settings.containerd_state.glob(f"*/{NAMESPACE}/*/{DAEMON_PANIC_LOG}")]


def expect_host_names(kubelet: StandaloneKubelet) -> None:
    """An exec in each pod reaches that pod."""
    for name in PODS:
        assert kubelet.exec(name, "hostname") == f"{name}-{NODE}\n"


def test_pods_with_exec_probes_share_a_shim(kubelet: StandaloneKubelet) -> None:
    shim = one_shim(kubelet)
    assert len(vms(kubelet.cluster)) == len(PODS), "each pod has a VM of its own"
    assert [(path / "shim.pid").read_text() for path in sandboxes(kubelet)] == [str(shim)] * len(PODS)
    assert len({(path / "address").read_text() for path in sandboxes(kubelet)}) == len(PODS)
    expect_host_names(kubelet)
    for name in PODS:
        assert [one["restartCount"] for one in kubelet.status(name)["containerStatuses"]] == [0, 0]


def test_removal_of_one_pod_does_not_affect_the_others(kubelet: StandaloneKubelet) -> None:
    shim, before = one_shim(kubelet), containers_of(kubelet, *PODS)
    kubelet.run(probed("late"))
    kubelet.expect_ready("late")
    assert one_shim(kubelet) == shim, "the shim takes another pod"
    kubelet.remove("late")
    eventually(lambda: len(vms(kubelet.cluster)) == len(PODS), "the end of its VM", TIMEOUT, INTERVAL)
    eventually(lambda: len(sandboxes(kubelet)) == len(PODS), "the end of its sandbox", TIMEOUT, INTERVAL)
    expect_host_names(kubelet)
    assert one_shim(kubelet) == shim
    assert containers_of(kubelet, *PODS) == before


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["terminated", "killed"])
def test_restart_of_containerd_keeps_pods_and_shim(kubelet: StandaloneKubelet, number: signal.Signals) -> None:
    shim, before = one_shim(kubelet), containers_of(kubelet, *PODS)
    kubelet.cluster.containerd.stop(number)
    kubelet.cluster.containerd.start_serving()
    kubelet.run(probed("late"))
    kubelet.expect_ready("late", *PODS)  # the kubelet connects again
    expect_host_names(kubelet)
    assert one_shim(kubelet) == shim, "the restarted containerd uses the same shim"
    assert containers_of(kubelet, *PODS) == before
    kubelet.remove("late")


def test_all_pods_return_after_their_shim_was_killed(kubelet: StandaloneKubelet) -> None:
    eventually(lambda: len(sandboxes(kubelet)) == len(PODS), "the end of other sandboxes", TIMEOUT, INTERVAL)
    shim, before, machines = one_shim(kubelet), containers_of(kubelet, *PODS), set(vms(kubelet.cluster))
    os.kill(shim, signal.SIGKILL)

    def is_back(name: str) -> bool:
        now = containers_of(kubelet, name)[name]
        return kubelet.is_ready(name) and len(now) == 2 and not now & before[name]

    for name in PODS:
        eventually(lambda name=name: is_back(name), f"pod {name} is ready with other containers", TIMEOUT, INTERVAL)
    assert one_shim(kubelet) != shim
    eventually(lambda: not set(vms(kubelet.cluster)) & machines, "the end of the VMs before", TIMEOUT, INTERVAL)
    eventually(lambda: len(sandboxes(kubelet)) == len(PODS), "the end of the sandboxes before", TIMEOUT, INTERVAL)
    expect_host_names(kubelet)


def test_shim_exits_with_its_last_pod(kubelet: StandaloneKubelet) -> None:
    for name in PODS:
        kubelet.remove(name)
    eventually(lambda: not shims(kubelet.settings), "the exit of the shim", TIMEOUT, INTERVAL)

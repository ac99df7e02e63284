"""Pods with a real containerd, with the calls of CRI: one shim serves all containers of a pod, and nothing leaks."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator

import grpc
import pytest

from runhcs.containerd.client import Client, ContainerdError
from runhcs.task_client import TaskClient
from shim.api.cgroups_v2 import Metrics
from shim.api.types import Status
from tests.containerd.node import Node
from tests.containerd.pods import SIGKILL, SIGTERM, CriPod, connect, direct, expect_exited
from tests.support.eventually import eventually
from tests.support.vm_image import options, vm_workers

ISOLATIONS = {"process": None, "hypervisor": options()}


@pytest.fixture
def client(node: Node) -> Iterator[Client]:
    with connect(node) as client:
        yield client


@pytest.fixture(params=ISOLATIONS)
def isolation(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def pod(node: Node, client: Client, isolation: str) -> CriPod:
    """A running pod, on the host or in a utility VM: the runtime options alone decide."""
    pod = CriPod(node, client, options=ISOLATIONS[isolation])
    pod.run()
    return pod


def test_pod_lifecycle(node: Node, client: Client, pod: CriPod, isolation: str) -> None:
    """Sandbox, two containers, exec, stats, pids, stop, remove, as for every pod of a kubelet."""
    one, two = pod.add(), pod.add("cmd", "/c", "ping -t localhost")
    pod.expect_running()
    assert len(pod.shims()) == 1
    (shim,) = pod.shims()
    assert pod.systems() == ([f"{pod.id}@vm"] if isolation == "hypervisor" else sorted(pod.members()))

    assert pod.exec(one, "cmd", "/c", "echo hello& exit 7") == (7, "hello\r\n")

    metrics = client.metrics(*pod.members())
    assert set(metrics) == set(pod.members())
    for name in pod.members():
        data = metrics[name].data
        assert data is not None and data.type_url == Metrics.FULL_NAME  # the type that CRI on Linux decodes
        stats = Metrics.decode(data.value)
        assert stats.memory is not None and stats.memory.usage > 0
        assert stats.pids is not None and stats.pids.current >= 1
        assert client.state(name).pid in [process.pid for process in client.pids(name)]

    pod.stop()
    expect_exited(shim)
    pod.remove()
    eventually(lambda: f"delete {one}" in node.events.received(one), "all events of the first")
    of_exec = ["exec-added", "exec-started", "exit", "delete"]
    assert [topic for topic, _ in node.events.with_fields(one)] == ["create", "start", *of_exec, "exit", "delete"]
    for name in (two, pod.id):
        node.events.expect(name, [f"create {name}", f"start {name}", f"exit {name}", f"delete {name}"])


def test_container_restarts_in_running_pod(node: Node, client: Client, pod: CriPod) -> None:
    """As a kubelet restarts a failed container: the pod and its shim keep running."""
    (shim,) = pod.shims()
    for code in (0, 3, 255):
        name = pod.add("cmd", "/c", f"exit {code}")
        assert pod.waits[name].result(60).exit_status == code
        pod.stop_container(name)
        pod.remove_container(name)
        assert pod.shims() == {shim}
        pod.expect_running()
    pod.stop()
    pod.remove()


def test_pod_with_ten_workloads(node: Node, client: Client, pod: CriPod) -> None:
    workloads = [pod.add() for _ in range(10)]
    assert len(pod.shims()) == 1
    pod.expect_running()
    assert set(client.metrics()) == set(pod.members())
    for number, name in enumerate(workloads):
        assert pod.exec(name, "cmd", "/c", f"echo {number}") == (0, f"{number}\r\n")
    pod.stop()
    pod.remove()


def test_killing_sandbox_stops_workloads(node: Node, client: Client, pod: CriPod) -> None:
    """containerd's client removes an unknown pod by force: with the task of the sandbox all workloads stop."""
    workloads = [pod.add(), pod.add()]
    client.kill(pod.id, SIGKILL, all=True)
    for name in (pod.id, *workloads):
        pod.waits[name].result(60)
    for name in workloads:
        pod.stop_container(name)
    pod.stop_container(pod.id)
    pod.remove()


def test_deleting_sandbox_stops_workloads(node: Node, client: Client, pod: CriPod) -> None:
    workloads = [pod.add(), pod.add()]
    (shim,) = pod.shims()
    pod.stop_container(pod.id)  # and Shutdown follows the Delete
    expect_exited(shim)
    for name in workloads:
        eventually(lambda name=name: name not in [task.id for task in client.tasks()], f"the removal of task {name}")
    assert not node.emulator.control("status")["systems"]
    pod.remove()


def test_workload_is_refused_if_sandbox_is_not_running(node: Node, client: Client, pod: CriPod) -> None:
    client.kill(pod.id, SIGTERM)
    pod.waits[pod.id].result(60)
    name = pod.create()
    with pytest.raises(ContainerdError, match="which is not running") as refusal:
        client.create_task(name)
    assert refusal.value.code == grpc.StatusCode.FAILED_PRECONDITION
    pod.stop()
    pod.remove()


def test_workload_without_sandbox_is_refused(node: Node, client: Client) -> None:
    """The `start` command refuses it already, so that no shim leaks."""
    pod = CriPod(node, client)
    name = pod.create()
    with pytest.raises(ContainerdError, match="remove the pod and make it again"):
        client.create_task(name)
    pod.remove_container(name)


@pytest.mark.parametrize("isolation", ["hypervisor"])
def test_lost_vm_stops_all_tasks_of_pod(node: Node, client: Client, pod: CriPod) -> None:
    """Every container reports its exit, the sandbox too, and the pod can be removed as usual."""
    one, two = pod.add(), pod.add()
    (worker,) = vm_workers(node.emulator)
    os.kill(worker, signal.SIGKILL)
    for name in (one, two, pod.id):
        assert pod.waits[name].result(60).exit_status != 0
    for name in (one, two, pod.id):
        eventually(lambda name=name: pod.status(name) == Status.STOPPED, f"the stop of {name}")
    pod.stop()
    pod.remove()


@pytest.mark.parametrize("isolation", ["hypervisor"])
def test_exec_in_vm_sandbox_is_refused(node: Node, client: Client, pod: CriPod) -> None:
    with pytest.raises(ContainerdError) as refusal:
        pod.exec(pod.id, "cmd", "/c", "echo hello")
    assert refusal.value.code == grpc.StatusCode.UNIMPLEMENTED
    pod.stop()
    pod.remove()


@pytest.mark.parametrize("isolation", ["process"])
def test_update_changes_only_its_container(node: Node, client: Client, pod: CriPod) -> None:
    one, _ = pod.add(), pod.add()
    changes = len(node.emulator.journal("HcsModifyComputeSystem"))
    client.update(one, {"memory": {"limit": 64 << 20}})
    (change,) = node.emulator.journal("HcsModifyComputeSystem")[changes:]
    assert str(64) in json.dumps(change["arguments"]) and one in json.dumps(change), change
    with pytest.raises(ContainerdError) as refusal:
        client.update(one, {"cpu": {"count": 1, "shares": 5}})
    assert refusal.value.code == grpc.StatusCode.UNKNOWN
    pod.expect_running()
    pod.stop()
    pod.remove()


class TestCrashes:
    """With a private node, because these tests restart containerd."""

    @pytest.fixture
    def node(self, own_node: Node) -> Node:
        return own_node

    def test_containerd_restart_during_pod_lifecycle(self, node: Node, client: Client, pod: CriPod) -> None:
        one, two = pod.add(), pod.add()
        (shim,) = pod.shims()
        # One task exits while containerd is down; its exit status must not be lost.
        node.containerd.terminate()
        with direct(node, pod.id) as shim_client:
            TaskClient(shim_client, two, "").kill(SIGKILL)
        node.containerd.start()
        node.events.start()
        with connect(node) as client:
            pod.client = client
            assert pod.shims() == {shim}
            assert pod.status(pod.id) == pod.status(one) == Status.RUNNING
            eventually(lambda: pod.status(two) == Status.STOPPED, "the stop of the killed task")
            pod.waits = {name: client.begin_wait(name) for name in pod.members()}
            assert pod.exec(one, "cmd", "/c", "echo again") == (0, "again\r\n")
            pod.add()
            assert pod.shims() == {shim}
            pod.stop()
            pod.remove()
            expect_exited(shim)
        node.expect_clean()

    def test_sigkill_of_containerd(self, node: Node, client: Client, pod: CriPod) -> None:
        pod.add()
        node.containerd.kill()
        node.containerd.start()
        with connect(node) as client:
            pod.client = client
            pod.expect_running()
            pod.waits = {name: client.begin_wait(name) for name in pod.members()}
            pod.add()
            pod.stop()
            pod.remove()
        node.expect_clean()

    def test_sigkill_of_shim(self, node: Node, client: Client, pod: CriPod) -> None:
        """containerd detects it, publishes the exit of every container, and cleans up each."""
        pod.add()
        pod.add()
        (shim,) = pod.shims()
        os.kill(shim, signal.SIGKILL)
        for name in pod.members():
            eventually(lambda name=name: f"exit {name}" in node.events.received(name), f"an exit event of {name}")
            with pytest.raises(ContainerdError):
                pod.waits[name].result(60)
        eventually(lambda: not client.tasks(), "the removal of all tasks")
        pod.remove()
        node.expect_clean()

"""The Sandbox service with containerd 2.x and the shim as sandboxer (`sandboxer = "shim"`)."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from runhcs.containerd.api.services.sandboxes_pb2 import ControllerStartResponse
from runhcs.containerd.client import Client, ContainerdError
from runhcs.containerd.sandboxes import Sandboxes
from shim.api import sandbox as api
from shim.api.cgroups_v2 import Metrics
from shim.api.cri_pod import PodSandboxConfig
from shim.api.packing import pack
from shim.api.runhcs_options import Options
from shim.api.types import Status
from shim.api.wellknown import Any as PackedAny
from shim.platform import host
from shim.task.sandbox_service import NOT_READY, READY, SANDBOX
from shim.ttrpc.status import NOT_FOUND, StatusError
from tests.containerd.daemon import NAMESPACE, RUNTIME
from tests.containerd.node import Node
from tests.containerd.pods import FOREVER, SIGKILL, CriPod, connect, direct, expect_exited
from tests.support.eventually import eventually
from tests.support.vm_image import options as vm_options
from tests.support.vm_image import vm_workers

pytestmark = pytest.mark.parametrize("version", ["2.3"])


# Pods on this system have Linux containers unless the options say otherwise.
WINDOWS = pack(Options(sandbox_platform="windows/amd64"))


class SandboxPod(CriPod):
    """A pod whose sandbox the shim implements; workloads join by its address."""

    def __init__(self, node: Node, client: Client, annotated: bool = True, options: PackedAny | None = WINDOWS) -> None:
        super().__init__(node, client, options=options)
        self.sandboxes = Sandboxes(client)
        self.annotated = annotated
        self.instance: ControllerStartResponse | None = None

    @property
    def bundle(self) -> Path:
        return sandbox_bundles(self.node) / self.id

    def run(self) -> None:
        self.sandboxes.create(self.id, runtime_options=self.options)
        self.instance = self.sandboxes.start(self.id)

    def _create(self, id: str, kind: str, *args: str, **members: object) -> None:
        annotations = {"io.kubernetes.cri.container-type": kind, "io.kubernetes.cri.sandbox-id": self.id}
        spec = self.node.spec(*args, annotations=annotations if self.annotated else {}, **members)
        self.client.create_container(id, spec, options=self.options, sandbox=self.id)

    def shim_pid(self) -> int:
        return int((self.bundle / "shim.pid").read_text())

    def stop(self) -> None:
        for name in self.workloads:
            if name in self.waits:
                self.stop_container(name)
        self.sandboxes.stop(self.id)

    def remove(self) -> None:
        for name in list(self.workloads):
            self.remove_container(name)
        self.sandboxes.shutdown(self.id)
        self.sandboxes.delete_record(self.id)


def sandbox_bundles(node: Node) -> Path:
    return node.containerd.state / "io.containerd.sandbox.controller.v1.shim" / NAMESPACE


def expect_no_bundles(node: Node) -> None:
    bundles = sandbox_bundles(node)
    eventually(lambda: not bundles.exists() or not list(bundles.iterdir()), "the removal of all bundles")


@pytest.fixture
def client(node: Node) -> Iterator[Client]:
    with connect(node) as client:
        yield client


@pytest.fixture
def pod(node: Node, client: Client) -> SandboxPod:
    pod = SandboxPod(node, client)
    pod.run()
    return pod


def test_sandbox_lifecycle(node: Node, client: Client, pod: SandboxPod) -> None:
    """Create, start, platform, status, metrics, a workload, wait, stop, shutdown."""
    assert not (pod.bundle / "config.json").exists()  # as with CRI
    assert pod.instance is not None
    shim = pod.shim_pid()
    assert pod.instance.pid == shim
    bootstrap = json.loads((pod.bundle / "bootstrap.json").read_text())
    assert bootstrap == {"version": 3, "protocol": "ttrpc", "address": (pod.bundle / "address").read_text()}
    status = pod.sandboxes.status(pod.id, verbose=True)
    assert (status.state, status.pid, status.info["isolation"]) == (READY, shim, "process")
    assert status.created_at == pod.instance.created_at
    metrics = pod.sandboxes.metrics(pod.id)
    assert metrics.id == pod.id and metrics.data is not None and metrics.data.type_url == Metrics.FULL_NAME

    one, two = pod.add(), pod.add()
    assert not (node.containerd.bundles / one / "address").exists()  # containerd ran no `start` command for it
    assert pod.exec(one, "cmd", "/c", "echo hello& exit 7") == (7, "hello\r\n")
    data = client.metrics(one)[one].data
    assert data is not None
    stats = Metrics.decode(data.value)  # the type that CRI on Linux decodes
    assert stats.memory is not None and stats.memory.usage > 0
    assert client.state(one).pid in [process.pid for process in client.pids(one)]
    assert pod.sandboxes.status(pod.id, verbose=True).info["tasks"] == f"{one} {two}"

    pending = pod.sandboxes.begin_wait(pod.id)
    pod.stop()
    assert pending.result(60).exit_status == 0
    stopped = pod.sandboxes.status(pod.id)
    assert stopped.state == NOT_READY and stopped.exited_at == pending.result().exited_at
    assert Path(f"/proc/{shim}").exists()  # only ShutdownSandbox stops it
    pod.remove()
    expect_exited(shim)
    expect_no_bundles(node)
    for name in (one, two):
        eventually(lambda name=name: f"delete {name}" in node.events.received(name), f"the delete event of {name}")
        published = node.events.received(name)
        assert published[:2] == [f"create {name}", f"start {name}"]
        assert published[-2:] == [f"exit {name}", f"delete {name}"]
    # The sandbox is not a task, although containerd publishes the exit of every shim as one.
    assert {topic for topic, _ in node.events.with_fields(pod.id)} <= {"exit", "delete"}


def test_platform_and_ping_called_directly(node: Node, client: Client) -> None:
    """containerd calls Platform from CRI only, and PingSandbox never."""
    pod = SandboxPod(node, client, options=None)
    pod.run()
    with direct(node, pod.id, sandbox_bundles(node)) as shim:
        answer = shim.call(SANDBOX, "Platform", api.PlatformRequest(sandbox_id=pod.id).encode(), timeout=30)
        platform = api.PlatformResponse.decode(answer).platform
        assert platform is not None
        # CRI creates specs for this platform.
        assert (platform.os, platform.architecture) == ("linux", host.architecture())
        assert shim.call(SANDBOX, "PingSandbox", api.PingRequest(sandbox_id=pod.id).encode(), timeout=30) == b""
        with pytest.raises(StatusError) as refusal:
            shim.call(SANDBOX, "PingSandbox", api.PingRequest(sandbox_id="other").encode(), timeout=30)
        assert refusal.value.code == NOT_FOUND
    pod.stop()
    pod.remove()


def test_workload_lifecycles_keep_sandbox_running(node: Node, client: Client, pod: SandboxPod) -> None:
    """containerd sends a Shutdown for the task after every Delete; later versions do not."""
    shim = pod.shim_pid()
    for code in (0, 3):
        name = pod.add("cmd", "/c", f"exit {code}")
        assert pod.waits[name].result(60).exit_status == code
        pod.stop_container(name)
        pod.remove_container(name)
    assert Path(f"/proc/{shim}").exists()
    assert pod.sandboxes.status(pod.id).state == READY
    assert list((pod.bundle / "members").iterdir()) == []
    pod.stop()
    pod.remove()


def test_workloads_join_without_annotations(node: Node, client: Client) -> None:
    """`ctr run --sandbox` sets no annotations."""
    pod = SandboxPod(node, client, annotated=False)
    pod.run()
    name = pod.add()
    assert pod.exec(name, "cmd", "/c", "echo hello") == (0, "hello\r\n")
    pod.stop()
    pod.remove()


def test_stop_sandbox_stops_workloads(node: Node, client: Client, pod: SandboxPod) -> None:
    one, two = pod.add(), pod.add()
    pod.sandboxes.stop(pod.id)
    for name in (one, two):
        pod.waits[name].result(60)
        pod.stop_container(name)
    late = pod.create()
    with pytest.raises(ContainerdError, match="which is not running") as refusal:
        client.create_task(late)
    assert refusal.value.code == grpc.StatusCode.FAILED_PRECONDITION
    pod.remove()


def test_shutdown_sandbox_with_running_workloads(node: Node, client: Client, pod: SandboxPod) -> None:
    """Without StopSandbox before."""
    one, two = pod.add(), pod.add()
    shim = pod.shim_pid()
    pod.sandboxes.shutdown(pod.id)
    expect_exited(shim)
    assert not node.emulator.control("status")["systems"]
    for name in (one, two):
        pod.waits.pop(name)
        try:
            client.delete_task(name)
        except ContainerdError as error:
            assert error.code in (grpc.StatusCode.NOT_FOUND, grpc.StatusCode.UNKNOWN), error
        pod.remove_container(name)
    pod.sandboxes.delete_record(pod.id)
    expect_no_bundles(node)


def test_failed_create_sandbox_stops_shim(node: Node, client: Client) -> None:
    """containerd sends ShutdownSandbox, and its client gets the error."""
    sandboxes = Sandboxes(client)
    with pytest.raises(ContainerdError, match=r"it must be 'sandbox', 'container' or absent"):
        sandboxes.create("odd", annotations={"io.kubernetes.cri.container-type": "vessel"})
    expect_no_bundles(node)
    assert sandboxes.records() == []


def test_ctr_sandboxes(node: Node) -> None:
    """With a spec for the sandbox, and a container that joins by `ctr run --sandbox`."""
    config = node.directory / "sandbox.json"
    config.write_text(json.dumps({"ociVersion": "1.0.2", "windows": {}, "annotations": {"a": "b"}}))
    name, workload = node.name(), node.name()
    node.ctr("sandboxes", "run", "--runtime", RUNTIME, str(config), name)
    assert (sandbox_bundles(node) / name / "config.json").exists()
    assert name in node.ctr("sandboxes", "list").stdout
    node.ctr(*node.run_arguments(workload, node.spec(*FOREVER), "-d", "--null-io", "--sandbox", name))
    assert node.status(workload) == "RUNNING"
    node.ctr("task", "kill", "-s", "SIGKILL", workload)
    node.expect_status(workload, "STOPPED")
    node.ctr("task", "delete", workload)
    node.ctr("container", "rm", workload)
    node.ctr("sandboxes", "remove", name)
    expect_no_bundles(node)


class TestHypervisor:
    """The sandbox is a utility VM. It boots from the path in the runtime options, because CRI gives it no image."""

    @pytest.fixture
    def pod(self, node: Node, client: Client) -> SandboxPod:
        pod = SandboxPod(node, client, options=vm_options(boot_files_root_path=str(node.layer)))
        pod.run()
        return pod

    def test_vm_sandbox_lifecycle(self, node: Node, client: Client, pod: SandboxPod) -> None:
        one, two = pod.add(), pod.add()
        assert pod.systems() == [f"{pod.id}@vm"]
        assert pod.sandboxes.status(pod.id, verbose=True).info["isolation"] == "hypervisor"
        data = pod.sandboxes.metrics(pod.id).data
        assert data is not None
        stats = Metrics.decode(data.value)
        assert stats.memory is not None and stats.memory.usage > 0
        assert pod.exec(one, "cmd", "/c", "echo hello& exit 7") == (7, "hello\r\n")
        pod.stop_container(two)
        pod.remove_container(two)
        pending = pod.sandboxes.begin_wait(pod.id)
        pod.stop()
        assert pending.result(60).exit_status == 0
        pod.remove()
        expect_no_bundles(node)

    def test_platform_comes_from_options(self, node: Node, pod: SandboxPod) -> None:
        with direct(node, pod.id, sandbox_bundles(node)) as shim:
            answer = shim.call(SANDBOX, "Platform", api.PlatformRequest(sandbox_id=pod.id).encode(), timeout=30)
        platform = api.PlatformResponse.decode(answer).platform
        assert platform is not None
        assert (platform.os, platform.architecture, platform.os_version) == ("windows", "amd64", "10.0.20348")
        pod.stop()
        pod.remove()

    def test_pod_annotations_size_the_vm(self, node: Node, client: Client) -> None:
        """As CRI passes them, in a PodSandboxConfig."""
        size = "io.microsoft.virtualmachine.computetopology.memory.sizeinmb"
        config = pack(PodSandboxConfig(hostname="web", annotations={size: "768"}))
        pod = SandboxPod(node, client, options=vm_options(boot_files_root_path=str(node.layer)))
        pod.sandboxes.create(pod.id, runtime_options=pod.options, options=config)
        (document,) = [
            entry["arguments"]["configuration"]
            for entry in node.emulator.journal("HcsCreateComputeSystem")
            if entry["arguments"]["id"] == f"{pod.id}@vm"
        ]
        assert document["VirtualMachine"]["ComputeTopology"]["Memory"]["SizeInMB"] == 768
        pod.sandboxes.start(pod.id)
        pod.stop()
        pod.remove()

    def test_lost_vm_is_reported(self, node: Node, client: Client, pod: SandboxPod) -> None:
        one = pod.add()
        pending = pod.sandboxes.begin_wait(pod.id)
        (worker,) = vm_workers(node.emulator)
        os.kill(worker, signal.SIGKILL)
        assert pending.result(60).exit_status == 1
        assert pod.sandboxes.status(pod.id).state == NOT_READY
        assert pod.waits[one].result(60).exit_status != 0
        pod.stop()
        pod.remove()

    def test_create_without_boot_files_is_refused(self, node: Node, client: Client) -> None:
        pod = SandboxPod(node, client, options=vm_options())
        with pytest.raises(ContainerdError, match="BootFilesRootPath"):
            pod.run()
        expect_no_bundles(node)


class TestCrashes:
    """With a private node, because these tests restart containerd."""

    @pytest.fixture
    def node(self, own_node: Node) -> Node:
        return own_node

    @pytest.mark.parametrize("crash", [False, True], ids=["restart", "kill -9"])
    def test_sandbox_survives_containerd_restart(
        self, node: Node, client: Client, pod: SandboxPod, crash: bool
    ) -> None:
        one = pod.add()
        shim = pod.shim_pid()
        if crash:
            node.containerd.kill()
        else:
            node.containerd.terminate()
        node.containerd.start()
        with connect(node) as client:
            pod.client, pod.sandboxes = client, Sandboxes(client)
            assert pod.sandboxes.status(pod.id).state == READY
            assert pod.status(one) == Status.RUNNING
            pod.waits = {one: client.begin_wait(one)}
            pending = pod.sandboxes.begin_wait(pod.id)
            assert pod.exec(one, "cmd", "/c", "echo again") == (0, "again\r\n")
            pod.add()
            assert pod.shim_pid() == shim
            pod.stop()
            assert pending.result(60).exit_status == 0
            pod.remove()
            expect_exited(shim)
        expect_no_bundles(node)
        node.expect_clean()

    @pytest.mark.parametrize("isolation", ["process", "hypervisor"])
    def test_sigkill_of_shim(self, node: Node, client: Client, isolation: str) -> None:
        """containerd runs `delete` for the sandbox only, which releases the resources of the workloads, too."""
        in_vm = vm_options(boot_files_root_path=str(node.layer)) if isolation == "hypervisor" else WINDOWS
        pod = SandboxPod(node, client, options=in_vm)
        pod.run()
        workloads = [pod.add(), pod.add()]
        pending = pod.sandboxes.begin_wait(pod.id)
        os.kill(pod.shim_pid(), signal.SIGKILL)
        with pytest.raises(ContainerdError):
            pending.result(60)
        eventually(lambda: not node.emulator.control("status")["systems"], "no compute system left")
        eventually(lambda: not node.emulator.mounts(), "no mount left")
        for name in workloads:
            with pytest.raises(ContainerdError):
                pod.waits.pop(name).result(60)
            with pytest.raises(ContainerdError):
                client.kill(name, SIGKILL)
            try:
                client.delete_task(name)
            except ContainerdError as error:
                assert error.code != grpc.StatusCode.DEADLINE_EXCEEDED
            pod.remove_container(name)
        pod.sandboxes.delete_record(pod.id)
        expect_no_bundles(node)
        node.expect_clean()

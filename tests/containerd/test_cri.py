"""containerd's CRI plugin with this runtime: the calls of a kubelet, with every version, and on 2.x with both
sandboxers.

Pods use the network of the node, because no CNI plugin is installed, and Linux images, because CRI creates specs for
the system it runs on.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runhcs.containerd.api.cri import pod_pb2, runtime_pb2
from runhcs.containerd.api.cri.runtime_pb2_grpc import RuntimeServiceStub
from runhcs.containerd.client import Client, ContainerdError
from tests.containerd.daemon import RUNTIME
from tests.containerd.node import Node
from tests.support.eventually import eventually
from tests.support.oci_image import pack_image

IMAGE = "example.test/pause:1"
HANDLER = "runhcs"
RUNNING, EXITED = runtime_pb2.CONTAINER_RUNNING, runtime_pb2.CONTAINER_EXITED
READY, NOT_READY = runtime_pb2.SANDBOX_READY, runtime_pb2.SANDBOX_NOTREADY

CONFIG_1 = """
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{image}"
disable_apparmor = true
stream_server_address = "127.0.0.1"
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{cni}"
conf_dir = "{cni}"
[plugins."io.containerd.grpc.v1.cri".containerd]
default_runtime_name = "{handler}"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.{handler}]
runtime_type = "{runtime}"
"""
CONFIG_2 = """
[plugins."io.containerd.grpc.v1.cri"]
stream_server_address = "127.0.0.1"
[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "{image}"
[plugins."io.containerd.cri.v1.runtime"]
disable_apparmor = true
[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = ["{cni}"]
conf_dir = "{cni}"
[plugins."io.containerd.cri.v1.runtime".containerd]
default_runtime_name = "{handler}"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.{handler}]
runtime_type = "{runtime}"
sandboxer = "{sandboxer}"
"""


class Kubelet:
    """A CRI client of this node."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.logs = node.directory / "pod-logs"
        self.logs.mkdir(exist_ok=True)
        self.pod = pod_pb2.PodSandboxConfig(
            metadata=pod_pb2.PodSandboxMetadata(name="web", uid="1", namespace="default"),
            hostname="web",
            log_directory=str(self.logs),
            linux=pod_pb2.LinuxPodSandboxConfig(
                security_context=pod_pb2.LinuxSandboxSecurityContext(
                    namespace_options=pod_pb2.NamespaceOption(network=pod_pb2.NODE)
                )
            ),
        )

    def call(self, method: str, **fields: object) -> Any:
        request = getattr(runtime_pb2, f"{method}Request")(**fields)
        with Client(str(self.node.containerd.address), "k8s.io") as client:
            stub = RuntimeServiceStub(client.channel)

            def attempt() -> list[Any]:
                try:
                    return [client.call(getattr(stub, method), request)]
                except ContainerdError as error:
                    if "not initialized yet" in error.details:  # CRI is ready a moment after containerd
                        return []
                    raise

            found: list[Any] = eventually(attempt, f"a response to {method}")
            return found[0]

    def run_pod(self) -> str:
        answer = self.call("RunPodSandbox", config=self.pod, runtime_handler=HANDLER)
        return answer.pod_sandbox_id

    def pod_state(self, pod: str) -> int:
        answer = self.call("PodSandboxStatus", pod_sandbox_id=pod)
        return answer.status.state

    def run(self, pod: str, name: str, *command: str) -> str:
        config = runtime_pb2.ContainerConfig(
            metadata=runtime_pb2.ContainerMetadata(name=name),
            image=runtime_pb2.ImageSpec(image=IMAGE),
            command=list(command),
            log_path=f"{name}.log",
        )
        answer = self.call("CreateContainer", pod_sandbox_id=pod, config=config, sandbox_config=self.pod)
        self.call("StartContainer", container_id=answer.container_id)
        return answer.container_id

    def status(self, container: str) -> runtime_pb2.ContainerStatus:
        answer = self.call("ContainerStatus", container_id=container)
        return answer.status

    def exec(self, container: str, *command: str) -> tuple[int, bytes]:
        answer = self.call("ExecSync", container_id=container, cmd=list(command), timeout=30)
        return answer.exit_code, answer.stdout

    def stats(self) -> dict[str, int]:
        """Bytes of memory by container."""
        answer = self.call("ListContainerStats")
        return {
            entry.attributes.id: entry.memory.working_set_bytes.value
            for entry in answer.stats
            if entry.memory.HasField("working_set_bytes")
        }

    def log(self, name: str) -> str:
        return (self.logs / f"{name}.log").read_text()


@pytest.fixture(params=["1.6", "1.7", "2.3", "2.3-shim"])
def node(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Node]:
    version, _, sandboxer = request.param.partition("-")
    template = CONFIG_2 if version.startswith("2") else CONFIG_1
    values = {"image": IMAGE, "handler": HANDLER, "runtime": RUNTIME, "sandboxer": sandboxer or "podsandbox"}
    config = template.format(**values, cni=tmp_path / "cni")  # containerd creates the directory, and it stays empty
    node = Node(version, cri=True, config=config)
    try:
        node.containerd.bundles = node.containerd.bundles.parent / "k8s.io"
        archive = pack_image(node.directory / "pause", IMAGE, ("/bin/sleep", "infinity"))
        node.ctr("--namespace", "k8s.io", "images", "import", str(archive))
        yield node
    finally:
        node.stop()


def shims(node: Node) -> list[str]:
    """The sockets of the shims, one each."""
    return [path.name for path in node.containerd.sockets.iterdir()]


def test_pod_lifecycle_through_cri(node: Node) -> None:
    kubelet = Kubelet(node)
    pod = kubelet.run_pod()
    assert kubelet.pod_state(pod) == READY
    one = kubelet.run(pod, "one", "/bin/sh", "-c", "echo to the log; exec /bin/sleep infinity")
    two = kubelet.run(pod, "two")
    assert kubelet.status(one).state == kubelet.status(two).state == RUNNING
    assert len(shims(node)) == 1
    assert kubelet.exec(one, "/bin/sh", "-c", "echo hello; exit 5") == (5, b"hello\n")
    eventually(lambda: "stdout F to the log" in kubelet.log("one"), "the container's log")
    stats = kubelet.stats()
    assert set(stats) == {one, two} and all(stats.values())

    exited = kubelet.run(pod, "three", "/bin/sh", "-c", "exit 3")
    eventually(lambda: kubelet.status(exited).state == EXITED, "an exit in the status of CRI")
    assert kubelet.status(exited).exit_code == 3

    # After a restart of containerd the pod is unchanged.
    node.containerd.restart()
    assert kubelet.pod_state(pod) == READY
    assert kubelet.status(one).state == RUNNING and kubelet.status(exited).exit_code == 3
    assert kubelet.exec(two, "/bin/sh", "-c", "echo again") == (0, b"again\n")

    kubelet.call("StopContainer", container_id=one, timeout=2)
    assert kubelet.status(one).state == EXITED
    for container in (one, exited):
        kubelet.call("RemoveContainer", container_id=container)
    # The second container still runs: StopPodSandbox stops it, RemovePodSandbox removes it.
    kubelet.call("StopPodSandbox", pod_sandbox_id=pod)
    assert kubelet.pod_state(pod) == NOT_READY
    kubelet.call("RemovePodSandbox", pod_sandbox_id=pod)
    eventually(lambda: not sandbox_bundles(node), "no bundle of a sandbox left")
    node.expect_clean()


def sandbox_bundles(node: Node) -> list[Path]:
    return list((node.containerd.state / "io.containerd.sandbox.controller.v1.shim" / "k8s.io").glob("*"))

"""The CRI plugin of containerd.exe: an image, a pod and a container in it, with the calls of a kubelet.

The image is imported into containerd's snapshotter for Windows, which creates its layers with HCS. It has directories
only, because Wine cannot write the contents of Windows backup streams. The CNI plugin is a stub, and the containers run
Wine's programs. The CRI client uses TCP, because gRPC for Python does not support named pipes.
"""

from __future__ import annotations

import io
import json
import socket
import subprocess
import tarfile
from collections.abc import Iterator
from typing import Any

import grpc
import pytest

from runhcs.containerd.api.cri import pod_pb2, runtime_pb2
from runhcs.containerd.api.cri.runtime_pb2_grpc import RuntimeServiceStub
from tests.support.eventually import eventually
from tests.support.oci_image import write_image
from tests.wine.conftest import ROOT, Machine
from tests.wine.node import Node

IMAGE = "example.test/pause:1"
TIMEOUT = 60
# The build that Wine reports: containerd accepts images of the host's build only.
PLATFORM = {"architecture": "amd64", "os": "windows", "os.version": "10.0.18362.0"}
FOREVER = ["cmd", "/c", "ping -n 6000 127.0.0.1 >nul"]
HANDLERS = {"runhcs-process": 0, "runhcs-hypervisor": 1}

CONFIG_1 = r"""
version = 2
root = 'C:\NAME\root'
state = 'C:\NAME\state'
[grpc]
address = 'ADDRESS'
tcp_address = '127.0.0.1:PORT'
[ttrpc]
address = 'ADDRESS.ttrpc'
[plugins."io.containerd.grpc.v1.cri"]
disable_tcp_service = false
stream_server_address = '127.0.0.1'
sandbox_image = 'IMAGE'
[plugins."io.containerd.grpc.v1.cri".containerd]
default_runtime_name = 'runhcs-process'
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = 'C:\NAME\cni'
conf_dir = 'C:\NAME\cni\conf'
"""
CONFIG_2 = r"""
version = 3
root = 'C:\NAME\root'
state = 'C:\NAME\state'
[grpc]
address = 'ADDRESS'
tcp_address = '127.0.0.1:PORT'
[ttrpc]
address = 'ADDRESS.ttrpc'
[plugins."io.containerd.grpc.v1.cri"]
disable_tcp_service = false
stream_server_address = '127.0.0.1'
[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = 'IMAGE'
[plugins."io.containerd.cri.v1.runtime".containerd]
default_runtime_name = 'runhcs-process'
[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = ['C:\NAME\cni']
conf_dir = 'C:\NAME\cni\conf'
"""


def directory_layer() -> bytes:
    """The tar of a layer with the directories of the boot files of a utility VM."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        boot = ("EFI", "EFI/Microsoft", "EFI/Microsoft/Boot")
        names = ("Files", "Files/Windows", "UtilityVM", "UtilityVM/Files", *(f"UtilityVM/Files/{one}" for one in boot))
        for name in names:
            entry = tarfile.TarInfo(name)
            entry.type = tarfile.DIRTYPE
            entry.pax_headers = {"MSWINDOWS.fileattr": "16"}
            tar.addfile(entry)
    return layer.getvalue()


class CriNode(Node):
    namespace = "k8s.io"
    cni_flags: tuple[str, ...] = ()

    def __init__(self, machine: Machine, version: str, kind: str = "cri") -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        super().__init__(machine, version, kind)
        self._make_network()
        self.logs = self.directory / "logs"
        self.logs.mkdir()
        self.add_images()

    def add_images(self) -> None:
        write_image(self.directory / "image.tar", directory_layer(), PLATFORM, {"Cmd": FOREVER}, IMAGE)
        self.checked("-n", "k8s.io", "images", "import", rf"C:\{self.name}\image.tar")
        # Under Wine only the directories of the boot files can be imported.
        snapshots = self.directory / "root" / "io.containerd.snapshotter.v1.windows" / "snapshots"
        self._make_bootable(snapshots / "1" / "UtilityVM")

    def start(self) -> None:
        super().start()
        self._channel = grpc.insecure_channel(f"127.0.0.1:{self.port}")

    def config(self) -> str:
        text = CONFIG_1 if self.version.startswith("v1.") else CONFIG_2
        table = next(line for line in text.splitlines() if line.endswith(".cni]")).replace(
            ".cni]", ".containerd.runtimes"
        )
        for handler, isolation in HANDLERS.items():
            text += f"{table}.{handler}]\nruntime_type = 'io.containerd.runhcs.v1'\n"
            text += f"{table}.{handler}.options]\nSandboxIsolation = {isolation}\n"
        values = {"NAME": self.name, "ADDRESS": self.address, "PORT": str(self.port), "IMAGE": IMAGE}
        for word, value in values.items():
            text = text.replace(word, value)
        return text

    def _make_network(self) -> None:
        conf = self.directory / "cni" / "conf"
        conf.mkdir(parents=True, exist_ok=True)
        network = {"cniVersion": "1.0.0", "name": "standin", "plugins": [{"type": "standin"}]}
        (conf / "10-standin.conflist").write_text(json.dumps(network))
        compiler = ["x86_64-w64-mingw32-gcc", "-O2", "-s", *self.cni_flags, str(ROOT / "tests" / "wine" / "cni.c")]
        subprocess.run([*compiler, "-o", str(self.directory / "cni" / "standin.exe"), "-lole32"], check=True)

    def call(self, method: str, **fields: object) -> Any:
        request = getattr(runtime_pb2, f"{method}Request")(**fields)
        stub_method = getattr(RuntimeServiceStub(self._channel), method)

        def attempt() -> list[Any]:
            try:
                return [stub_method(request, timeout=TIMEOUT, wait_for_ready=True)]
            except grpc.RpcError as error:
                assert "not initialized" in str(error), f"{method}: {error}\n{self.log()}"
                return []  # CRI, or its network, comes up a moment after containerd

        return eventually(attempt, f"{method} answered", 3 * TIMEOUT)[0]


@pytest.fixture(scope="module")
def cri_nodes(machine: Machine) -> Iterator[dict[str, CriNode]]:
    nodes: dict[str, CriNode] = {}
    yield nodes
    for node in nodes.values():
        node.stop()


@pytest.mark.parametrize("version", ["v2.3.4", "v1.7.34"])
@pytest.mark.parametrize("handler", list(HANDLERS))
def test_pod_lifecycle_through_cri(machine: Machine, cri_nodes: dict[str, CriNode], version: str, handler: str) -> None:
    if version not in cri_nodes:
        cri_nodes[version] = CriNode(machine, version)
    node = cri_nodes[version]
    node.begin()
    metadata = pod_pb2.PodSandboxMetadata(name=handler, uid=handler, namespace="default")
    config = pod_pb2.PodSandboxConfig(metadata=metadata, hostname="web", log_directory=rf"C:\{node.name}\logs")
    pod = node.call("RunPodSandbox", config=config, runtime_handler=handler).pod_sandbox_id
    status = node.call("PodSandboxStatus", pod_sandbox_id=pod).status
    assert status.state == runtime_pb2.SANDBOX_READY
    container = runtime_pb2.ContainerConfig(
        metadata=runtime_pb2.ContainerMetadata(name="web"),
        image=runtime_pb2.ImageSpec(image=IMAGE),
        command=["cmd", "/c", "echo into the log& ping -n 6000 127.0.0.1 >nul"],
        log_path=f"{handler}.log",
    )
    created = node.call("CreateContainer", pod_sandbox_id=pod, config=container, sandbox_config=config)
    container_id = created.container_id
    node.call("StartContainer", container_id=container_id)
    assert node.call("ContainerStatus", container_id=container_id).status.state == runtime_pb2.CONTAINER_RUNNING
    done = node.call("ExecSync", container_id=container_id, cmd=["cmd", "/c", "echo synced& exit 3"], timeout=60)
    assert (done.stdout.strip(), done.exit_code) == (b"synced", 3)
    assert len(node.shims()) == 1
    assert len(node.systems()) == (1 if HANDLERS[handler] else 2)
    log = node.logs / f"{handler}.log"
    eventually(lambda: log.exists() and "stdout F into the log" in log.read_text(), "the log of the container")
    node.call("StopContainer", container_id=container_id, timeout=0)
    node.call("RemoveContainer", container_id=container_id)
    node.call("StopPodSandbox", pod_sandbox_id=pod)
    node.call("RemovePodSandbox", pod_sandbox_id=pod)
    node.names += [pod, container_id]
    node.expect_clean()


@pytest.mark.parametrize("handler", list(HANDLERS))
def test_container_has_hostname_of_pod_and_terminal(
    machine: Machine, cri_nodes: dict[str, CriNode], handler: str
) -> None:
    version = "v2.3.4"
    if version not in cri_nodes:
        cri_nodes[version] = CriNode(machine, version)
    node = cri_nodes[version]
    node.begin()
    metadata = pod_pb2.PodSandboxMetadata(name="terminal", uid=f"terminal-{handler}", namespace="default")
    config = pod_pb2.PodSandboxConfig(metadata=metadata, hostname="web", log_directory=rf"C:\{node.name}\logs")
    pod = node.call("RunPodSandbox", config=config, runtime_handler=handler).pod_sandbox_id
    container = runtime_pb2.ContainerConfig(
        metadata=runtime_pb2.ContainerMetadata(name="terminal"),
        image=runtime_pb2.ImageSpec(image=IMAGE),
        command=["cmd", "/c", "echo this is %COMPUTERNAME%& ping -n 6000 127.0.0.1 >nul"],
        log_path=f"terminal-{handler}.log",
        stdin=True,
        tty=True,
    )
    created = node.call("CreateContainer", pod_sandbox_id=pod, config=container, sandbox_config=config)
    node.call("StartContainer", container_id=created.container_id)
    log = node.logs / f"terminal-{handler}.log"
    eventually(lambda: log.exists() and "this is WEB" in log.read_text(), "the output of the terminal")
    node.call("StopContainer", container_id=created.container_id, timeout=0)
    node.call("RemoveContainer", container_id=created.container_id)
    node.call("StopPodSandbox", pod_sandbox_id=pod)
    node.call("RemovePodSandbox", pod_sandbox_id=pod)
    node.names += [pod, created.container_id]
    node.expect_clean()

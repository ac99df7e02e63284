"""Linux pods with the CRI plugin of containerd.exe: the shim creates the sandbox (`sandboxer = "shim"`), and the
runtime is the one that `runhcs config` prints."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from runhcs.config.containerd import text
from runhcs.config.runtimes import runtime
from runhcs.containerd.api.cri import pod_pb2, runtime_pb2
from tests.support.busybox_image import NAME, pack
from tests.support.eventually import eventually
from tests.support.lcow_image import make_boot_files, make_scratch
from tests.wine.conftest import Machine
from tests.wine.test_cri import CriNode

HANDLER = "runhcs-lcow"
SNAPSHOTTER = "windows-lcow"


class LinuxCriNode(CriNode):
    cni_flags = ("-DWITH_ENDPOINT",)

    def __init__(self, machine: Machine, version: str) -> None:
        super().__init__(machine, version, "lcri")
        make_boot_files(self.directory / "LinuxBootFiles")
        # The cached scratch disk: that of 20 GB would be copied whole for each container.
        snapshots = self.directory / "root" / f"io.containerd.snapshotter.v1.{SNAPSHOTTER}"
        make_scratch(snapshots).rename(snapshots / "scratch.vhdx")
        shutil.copy(pack(machine.directory / "linux-image.tar"), self.directory / "linux.tar")
        flags = ("--local", "--platform", "linux/amd64", "--snapshotter", SNAPSHOTTER)
        self.checked("-n", "k8s.io", "images", "import", *flags, rf"C:\{self.name}\linux.tar")

    def config(self) -> str:
        return super().config() + text([runtime(HANDLER)], 2).replace("version = 3\n", "", 1)


@pytest.fixture(scope="module")
def node(machine: Machine) -> Iterator[LinuxCriNode]:
    node = LinuxCriNode(machine, "v2.3.4")
    yield node
    node.stop()


def test_linux_pod_lifecycle_through_cri(node: LinuxCriNode) -> None:
    node.begin()
    metadata = pod_pb2.PodSandboxMetadata(name="linux", uid="linux", namespace="default")
    config = pod_pb2.PodSandboxConfig(metadata=metadata, hostname="web", log_directory=rf"C:\{node.name}\logs")
    pod = node.call("RunPodSandbox", config=config, runtime_handler=HANDLER).pod_sandbox_id
    assert node.call("PodSandboxStatus", pod_sandbox_id=pod).status.state == runtime_pb2.SANDBOX_READY
    containers = []
    for name in ("one", "two"):
        container = runtime_pb2.ContainerConfig(
            metadata=runtime_pb2.ContainerMetadata(name=name),
            image=runtime_pb2.ImageSpec(image=NAME),
            command=["/bin/sh", "-c", f"echo from {name}; exec sleep 600"],
            log_path=f"{name}.log",
        )
        created = node.call("CreateContainer", pod_sandbox_id=pod, config=container, sandbox_config=config)
        containers.append(created.container_id)
        node.call("StartContainer", container_id=created.container_id)
        log = node.logs / f"{name}.log"
        eventually(lambda log=log, name=name: log.exists() and f"stdout F from {name}" in log.read_text(), "its log")
    done = node.call("ExecSync", container_id=containers[1], cmd=["/bin/cat", "/greeting"], timeout=60)
    assert (done.stdout, done.exit_code) == (b"hello from the image\n", 0)
    done = node.call("ExecSync", container_id=containers[0], cmd=["/bin/hostname"], timeout=60)
    assert done.stdout == b"web\n"
    done = node.call("ExecSync", container_id=containers[0], cmd=["/bin/ip", "-4", "addr"], timeout=60)
    assert b"inet 10.11.12.13/24" in done.stdout
    assert len(node.shims()) == 1 and len(node.systems()) == 1
    for container_id in containers:
        node.call("StopContainer", container_id=container_id, timeout=0)
        node.call("RemoveContainer", container_id=container_id)
    node.call("StopPodSandbox", pod_sandbox_id=pod)
    node.call("RemovePodSandbox", pod_sandbox_id=pod)
    node.names += [pod, *containers]
    node.expect_clean()

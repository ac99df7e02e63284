"""A Linux pod of the Sandbox service: the shim creates the sandbox container itself, and workloads join it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shim.api import sandbox as api
from shim.api.cri_pod import DNSConfig, PodSandboxConfig
from shim.api.packing import pack
from shim.task.sandbox_service import NOT_READY, READY
from tests.emulated.task.test_sandbox_service import Sandbox
from tests.support.eventually import eventually
from tests.support.fifo_reader import Reader
from tests.support.linux_shims import SLEEP, LinuxShims, options
from tests.support.shims import Shims


class LinuxPod:
    """A pod without an image for its sandbox, as CRI creates it with `sandboxer = "shim"`."""

    def __init__(self, lcow: LinuxShims, **fields: Any) -> None:
        self.lcow = lcow
        boot = str(lcow.emulator.directory / "LinuxBootFiles" / lcow.guest)
        self.shim = Sandbox.begin(lcow.shims, options=options(boot_files_root_path=boot))
        self.shim.create_sandbox(**fields)
        answer = self.shim.ask("StartSandbox", api.StartSandboxRequest(sandbox_id=self.shim.id))
        self.pid = api.StartSandboxResponse.decode(answer).pid

    def spec(self, *args: str, shared: tuple[str, ...] = ("net", "ipc", "uts")) -> dict[str, Any]:
        """The spec of a workload: it names the sandbox's namespaces by the pid of StartSandbox."""
        kinds = {"net": "network"}
        joined = [{"type": kinds.get(name, name), "path": f"/proc/{self.pid}/ns/{name}"} for name in shared]
        own = [{"type": name} for name in ("mount", "pid") if name not in shared]
        spec = self.lcow.spec(*args, linux={"namespaces": [*own, *joined]})
        del spec["windows"], spec["annotations"]
        return spec

    def create(self, id: str, spec: dict[str, Any], **fields: Any) -> None:
        bundle = self.lcow.shims.bundle(id, spec)
        self.shim.create(id=id, bundle=str(bundle), rootfs=self.lcow.rootfs(id), options=options(), **fields)

    def output(self, id: str, *args: str, **members: Any) -> str:
        stdout = self.lcow.fifo(f"{id}-out")
        out = Reader(stdout)
        self.create(id, self.spec(*args, **members), stdout=stdout, stderr=stdout)
        self.shim.start(id=id)
        code = self.shim.wait(id=id).exit_status
        text = out.text()
        assert code == 0, text
        self.shim.delete(id=id)
        return text


def test_pod_has_sandbox_container_that_workloads_join(lcow: LinuxShims) -> None:
    pod = LinuxPod(lcow, options=pack(PodSandboxConfig(hostname="podname")))
    assert pod.shim.sandbox_state() == READY
    assert pod.pid not in (0, pod.shim.pid)
    assert pod.output("c1", "hostname").strip() == "podname"
    listed = pod.output("c2", "ps", shared=("net", "ipc", "uts", "pid"))
    assert "/pause" in listed, "the sandbox is pid 1 of a shared pid namespace"
    pod.shim.stop_sandbox()
    assert pod.shim.sandbox_state() == NOT_READY
    pod.shim.shutdown_sandbox()
    pod.shim.wait_exited()
    eventually(lambda: not lcow.leaked(), "no leaked resource of the VM")


def test_platform_is_linux(lcow: LinuxShims) -> None:
    shim = Sandbox.begin(lcow.shims, options=options())
    answer = shim.ask("Platform", api.PlatformRequest(sandbox_id=shim.id))
    platform = api.PlatformResponse.decode(answer).platform
    assert platform is not None
    assert (platform.os, platform.architecture, platform.os_version) == ("linux", "amd64", "")


def test_workloads_get_the_pods_dns_settings(lcow: LinuxShims) -> None:
    dns = DNSConfig(servers=["10.0.0.10"], searches=["a.local", "b.local"], options=["ndots:5"])
    pod = LinuxPod(lcow, options=pack(PodSandboxConfig(hostname="p", dns_config=dns)))
    expected = "search a.local b.local\nnameserver 10.0.0.10\noptions ndots:5\n"
    assert pod.output("c1", "cat", "/etc/resolv.conf") == expected


@pytest.fixture
def netns() -> Iterator[Path]:
    """A network namespace of the host, as CNI creates it."""
    name = f"lcow-sandbox-{os.getpid()}"
    subprocess.run(["ip", "netns", "add", name], check=True)
    try:
        run = ["ip", "-n", name]
        subprocess.run([*run, "link", "set", "lo", "up"], check=True)
        subprocess.run([*run, "addr", "add", "10.11.12.13/32", "dev", "lo"], check=True)
        yield Path("/run/netns") / name
    finally:
        subprocess.run(["ip", "netns", "delete", name], check=True)


def test_network_namespace_of_the_host_is_the_pods(lcow: LinuxShims, netns: Path) -> None:
    pod = LinuxPod(lcow, netns_path=str(netns))
    assert "10.11.12.13" in pod.output("c1", "ip", "addr")


def test_workload_of_running_pod_is_killed_with_the_pod(lcow: LinuxShims) -> None:
    pod = LinuxPod(lcow)
    pod.create("c1", pod.spec(*SLEEP))
    pod.shim.start(id="c1")
    pod.shim.stop_sandbox()
    assert pod.shim.wait(id="c1").exit_status in (1, 137)
    assert pod.shim.wait_sandbox().exit_status == 137


def test_killed_shim_leaves_nothing(lcow: LinuxShims, shims: Shims) -> None:
    pod = LinuxPod(lcow)
    pod.create("c1", pod.spec(*SLEEP))
    pod.shim.start(id="c1")
    pod.shim.kill_daemon()
    pod.shim.delete_command()
    eventually(lambda: not lcow.leaked(), "no leaked resource of the VM")

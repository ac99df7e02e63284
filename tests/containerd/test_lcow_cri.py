"""Pods of Linux containers through containerd's CRI plugin: one utility VM per pod, with either guest, and on 2.x with
both sandboxers.

containerd runs in its own network namespace with CNI's bridge plugin. The pod's network namespace of CNI is the network
of the VM, so addresses, DNS and ports are those of any other pod.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from runhcs.containerd.api.cri import pod_pb2, runtime_pb2
from tests.containerd.kubelet import EXITED, NOT_READY, READY, RUNNING, Kubelet, cri_config, write_bridge_network
from tests.containerd.lcow import BOOT_FILES, GUESTS, boot_files
from tests.containerd.node import Node
from tests.support import busybox_image
from tests.support.eventually import eventually
from tests.support.vm_image import vm_workers
from tests.support.websocket import ERROR, STDERR, STDIN, STDOUT

PAUSE = "example.test/pause:1"
SLEEP = ("sleep", "infinity")
PRIVILEGED = "io.microsoft.virtualmachine.lcow.privileged"
DISK_SIZE = 1 << 20
KINDS = ["1.6", "1.7", "2.3", "2.3-shim"]


class LinuxKubelet(Kubelet):
    guest = ""

    def run_pod(self, name: str = "web", *, host_network: bool = False, **fields: Any) -> str:
        if self.node.version == "1.6":  # Debian's is built without the options of runhcs
            boot = {BOOT_FILES: str(boot_files(self.node.emulator, self.guest))}
            fields["annotations"] = boot | fields.get("annotations", {})
        return super().run_pod(name, host_network=host_network, **fields)


@pytest.fixture(params=[f"{kind}-{guest}" for kind in KINDS for guest in GUESTS])
def kubelet(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LinuxKubelet]:
    kind, _, guest = request.param.rpartition("-")
    with linux_kubelet(tmp_path, kind, guest) as client:
        yield client


@contextmanager
def linux_kubelet(tmp_path: Path, kind: str, guest: str) -> Iterator[LinuxKubelet]:
    """A node whose pods use one of the guests. `kind` is one of KINDS."""
    version, _, sandboxer = kind.partition("-")
    write_bridge_network(tmp_path / "cni", tmp_path / "leases")

    def configure(node: Node) -> str:
        options = f'SandboxIsolation = 1\nBootFilesRootPath = "{boot_files(node.emulator, guest)}"'
        return cri_config(
            version, PAUSE, {"runhcs-lcow": options}, tmp_path / "cni", sandboxer=sandboxer or "podsandbox"
        )

    node = Node(version, cri=True, config=configure, own_network=True)
    try:
        node.containerd.bundles = node.containerd.bundles.parent / "k8s.io"
        for name, command in ((PAUSE, SLEEP), (busybox_image.NAME, SLEEP)):
            archive = busybox_image.pack(node.directory / f"{name.split('/')[1][:5]}.tar", name, command)
            node.ctr("--namespace", "k8s.io", "images", "import", str(archive))
        client = LinuxKubelet(node, busybox_image.NAME, "runhcs-lcow")
        client.guest = guest
        yield client
        eventually(lambda: not leases(tmp_path), f"the release of all addresses: {leases(tmp_path)}")
    finally:
        node.stop()


def leases(directory: Path) -> list[str]:
    """Addresses that CNI has not released."""
    return [path.name for path in (directory / "leases").glob("*/10.*")]


def sandbox_bundles(node: Node) -> list[Path]:
    return list((node.containerd.state / "io.containerd.sandbox.controller.v1.shim" / "k8s.io").glob("*"))


def expect_clean(kubelet: Kubelet) -> None:
    eventually(lambda: not sandbox_bundles(kubelet.node), "no bundle of a sandbox left")
    kubelet.node.expect_clean()


def test_pod_with_two_containers(kubelet: LinuxKubelet) -> None:
    """One VM; exec, logs, stats, exit codes, a restart of containerd, stop and remove."""
    pod = kubelet.run_pod()
    assert kubelet.pod_state(pod) == READY
    one = kubelet.run(pod, "one", "sh", "-c", "echo to the log; echo and errors >&2; exec sleep infinity")
    two = kubelet.run(pod, "two", *SLEEP)
    assert kubelet.status(one).state == kubelet.status(two).state == RUNNING
    assert len(vm_workers(kubelet.node.emulator)) == 1
    assert len(list(kubelet.node.containerd.sockets.iterdir())) == 1  # one shim
    assert kubelet.exec(one, "sh", "-c", "echo hello; exit 5") == (5, b"hello\n")
    eventually(lambda: "stdout F to the log" in kubelet.log("one"), "the container's log")
    eventually(lambda: "stderr F and errors" in kubelet.log("one"), "the container's errors")
    stats = kubelet.stats()
    assert set(stats) == {one, two} and all(stats.values())

    exited = kubelet.run(pod, "three", "sh", "-c", "exit 3")
    assert kubelet.expect_exit(exited) == 3

    kubelet.node.containerd.restart()
    assert kubelet.pod_state(pod) == READY
    assert kubelet.status(one).state == RUNNING and kubelet.status(exited).exit_code == 3
    assert kubelet.exec(two, "sh", "-c", "echo again") == (0, b"again\n")

    kubelet.call("StopContainer", container_id=one, timeout=0)
    assert kubelet.status(one).state == EXITED and kubelet.status(one).exit_code == 137
    for container in (one, exited):
        kubelet.call("RemoveContainer", container_id=container)
    kubelet.call("StopPodSandbox", pod_sandbox_id=pod)
    assert kubelet.pod_state(pod) == NOT_READY
    kubelet.call("RemovePodSandbox", pod_sandbox_id=pod)
    expect_clean(kubelet)


def test_containers_share_network_and_hostname_of_the_pod(kubelet: LinuxKubelet) -> None:
    pod = kubelet.run_pod("web")
    one, two = kubelet.run(pod, "one", *SLEEP), kubelet.run(pod, "two", *SLEEP)
    script = "readlink /proc/self/ns/net; readlink /proc/self/ns/uts; readlink /proc/self/ns/ipc; hostname"
    shown = [kubelet.exec(container, "sh", "-c", script)[1].decode().split() for container in (one, two)]
    assert shown[0] == shown[1] and shown[0][3] == "web"
    mounts = [kubelet.exec(container, "readlink", "/proc/self/ns/mnt")[1] for container in (one, two)]
    assert mounts[0] != mounts[1]
    # The loopback interface is shared, too.
    kubelet.run(pod, "server", "httpd", "-f", "-p", "127.0.0.1:8081", "-h", "/www")
    fetch_page = ("wget", "-q", "-O-", "http://127.0.0.1:8081/")
    eventually(lambda: kubelet.exec(one, *fetch_page)[1] == busybox_image.PAGE.encode(), "the page")
    kubelet.stop_pod(pod)
    expect_clean(kubelet)


def test_addresses_dns_and_ports(kubelet: LinuxKubelet) -> None:
    dns = pod_pb2.DNSConfig(servers=["10.234.56.53"], searches=["pods.test"], options=["ndots:5"])
    pod = kubelet.run_pod("server", dns_config=dns)
    address = kubelet.address(pod)
    assert address.startswith("10.234.56."), address
    server = kubelet.run(pod, "server", "httpd", "-f", "-p", "8080", "-h", "/www")
    assert address in kubelet.exec(server, "ip", "-4", "addr", "show", "eth0")[1].decode()
    assert b"default via 10.234.56.1" in kubelet.exec(server, "ip", "route")[1]
    lines = kubelet.exec(server, "cat", "/etc/resolv.conf")[1].decode().splitlines()
    assert {"nameserver 10.234.56.53", "search pods.test"} <= set(lines), lines

    # From the node, and from another pod.
    eventually(lambda: fetch(kubelet, address, 8080).endswith(busybox_image.PAGE.encode()), "the page, from the node")
    client = kubelet.run_pod("client")
    assert kubelet.address(client) != address
    probe = kubelet.run(client, "probe", *SLEEP)
    code, page = kubelet.exec(probe, "wget", "-q", "-O-", f"http://{address}:8080/")
    assert (code, page) == (0, busybox_image.PAGE.encode())
    for one in (pod, client):
        kubelet.stop_pod(one)
    expect_clean(kubelet)


def fetch(kubelet: Kubelet, address: str, port: int) -> bytes:
    try:
        connection = kubelet.connect(address, port)
    except OSError:
        return b""
    with connection:
        connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
        return read(connection)


def read(connection: Any) -> bytes:
    data = b""
    while chunk := connection.recv(1 << 16):
        data += chunk
    return data


def test_port_forward(kubelet: LinuxKubelet) -> None:
    pod = kubelet.run_pod()
    server = kubelet.run(pod, "server", "httpd", "-f", "-p", "8080", "-h", "/www")
    eventually(lambda: kubelet.exec(server, "wget", "-q", "-O-", "http://127.0.0.1:8080/")[0] == 0, "the server")
    with kubelet.port_forward(pod, 8080) as stream:
        stream.send(0, b"GET / HTTP/1.0\r\n\r\n")
        stream.expect(0, busybox_image.PAGE.encode())
    kubelet.stop_pod(pod)
    expect_clean(kubelet)


def test_exec_and_attach_streams(kubelet: LinuxKubelet) -> None:
    pod = kubelet.run_pod()
    command = ("sh", "-c", 'while read line; do echo "got $line"; done; exec sleep infinity')
    shell = kubelet.run(pod, "shell", *command, stdin=True)
    with kubelet.stream_exec(shell, ["sh", "-c", "read x; echo out $x; echo err >&2; exit 6"]) as stream:
        stream.send(STDIN, b"words\n")
        channels = stream.read_all()
    assert channels[STDOUT] == b"out words\n" and channels[STDERR] == b"err\n"
    assert json.loads(channels[ERROR])["details"]["causes"][0]["message"] == "6"
    with kubelet.stream_exec(shell, ["sh", "-c", "read x; stty size; [ -t 1 ] && echo tty"], tty=True) as stream:
        stream.resize(123, 41)
        eventually(lambda: size_of_terminal(kubelet, shell) == "41 123", "the size")
        stream.send(STDIN, b"\n")
        channels = stream.read_all()
    assert b"41 123" in channels[STDOUT] and b"tty" in channels[STDOUT]
    with kubelet.attach(shell) as stream:
        stream.send(STDIN, b"attached\n")
        stream.expect(STDOUT, b"got attached\n")
    eventually(lambda: "stdout F got attached" in kubelet.log("shell"), "the same in the log")
    kubelet.stop_pod(pod)
    expect_clean(kubelet)


def size_of_terminal(kubelet: Kubelet, container: str) -> str:
    """Of the first pseudo terminal in the container."""
    return kubelet.exec(container, "sh", "-c", "stty size < /dev/pts/0")[1].decode().strip()


def test_resources_and_security_of_containers(kubelet: LinuxKubelet) -> None:
    pod = kubelet.run_pod()
    limit = 64 << 20
    resources = runtime_pb2.LinuxContainerResources(memory_limit_in_bytes=limit)
    drop = runtime_pb2.Capability(drop_capabilities=["ALL"], add_capabilities=["KILL"])
    context = runtime_pb2.LinuxContainerSecurityContext(
        capabilities=drop,
        run_as_username="alice",
        no_new_privs=True,
        readonly_rootfs=True,
        masked_paths=["/proc/uptime"],
    )
    config = runtime_pb2.LinuxContainerConfig(resources=resources, security_context=context)
    one = kubelet.run(pod, "one", *SLEEP, linux=config)
    script = (
        "id -u; grep -E '^(CapBnd|NoNewPrivs)' /proc/self/status; wc -c < /proc/uptime; touch /x 2>/dev/null || echo ro"
    )
    assert kubelet.exec(one, "sh", "-c", script)[1].split() == [
        b"1234", b"CapBnd:", b"0000000000000020", b"NoNewPrivs:", b"1", b"0", b"ro",
    ]  # fmt: skip
    assert memory_limit(kubelet, one) == limit
    kubelet.call(
        "UpdateContainerResources",
        container_id=one,
        linux=runtime_pb2.LinuxContainerResources(memory_limit_in_bytes=2 * limit),
    )
    assert memory_limit(kubelet, one) == 2 * limit

    small = runtime_pb2.LinuxContainerConfig(resources=resources)
    greedy = kubelet.run(pod, "greedy", "tail", "/dev/zero", linux=small)
    assert kubelet.expect_exit(greedy) == 137
    eventually(lambda: kubelet.status(greedy).reason == "OOMKilled", f"OOMKilled, not {kubelet.status(greedy).reason}")
    assert kubelet.status(one).state == RUNNING
    kubelet.stop_pod(pod)
    expect_clean(kubelet)


def disk_boot_files(kubelet: LinuxKubelet, directory: Path) -> Path:
    """Boot files of a VM whose root file system is a disk, which is /dev/pmem0 in the VM."""
    shutil.copytree(boot_files(kubelet.node.emulator, kubelet.guest), directory)
    os.truncate(shutil.copy(directory / "initrd.img", directory / "rootfs.vhd"), DISK_SIZE)
    return directory


def test_privileged_annotation_gives_devices_of_the_vm(kubelet: LinuxKubelet, tmp_path: Path) -> None:
    pod = kubelet.run_pod(annotations={BOOT_FILES: str(disk_boot_files(kubelet, tmp_path / "boot"))})
    plain = kubelet.run(pod, "plain", *SLEEP)
    privileged = kubelet.run(pod, "privileged", *SLEEP, annotations={PRIVILEGED: "true"})
    assert kubelet.exec(plain, "sh", "-c", "ls /dev/pmem0 || echo absent") == (0, b"absent\n")
    assert kubelet.exec(privileged, "sh", "-c", "[ -b /dev/pmem0 ] && head -c 1 /dev/pmem0 | wc -c") == (0, b"1\n")
    kubelet.stop_pod(pod)
    expect_clean(kubelet)


def memory_limit(kubelet: Kubelet, container: str) -> int:
    """As the container's own control group has it, of version 1 or 2."""
    files = "/sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/memory.max"
    return int(kubelet.exec(container, "sh", "-c", f"cat {files} 2>/dev/null")[1])


def test_mounts_are_shared_with_the_node(kubelet: LinuxKubelet, tmp_path: Path) -> None:
    (tmp_path / "config").write_text("setting\n")
    (tmp_path / "data").mkdir()
    mounts = [
        runtime_pb2.Mount(container_path="/etc/config", host_path=str(tmp_path / "config"), readonly=True),
        runtime_pb2.Mount(container_path="/data", host_path=str(tmp_path / "data")),
    ]
    pod = kubelet.run_pod()
    one, two = (kubelet.run(pod, name, *SLEEP, mounts=mounts) for name in ("one", "two"))
    assert kubelet.exec(one, "sh", "-c", "cat /etc/config; echo x > /data/file; touch /etc/config || echo ro")[1] == (
        b"setting\nro\n"
    )
    assert kubelet.exec(two, "cat", "/data/file")[1] == b"x\n"
    assert (tmp_path / "data" / "file").read_text() == "x\n"
    kubelet.stop_pod(pod)
    expect_clean(kubelet)


def test_lost_vm_stops_the_pod(kubelet: LinuxKubelet) -> None:
    """All containers exit, the sandbox is not ready, and the kubelet can remove the pod."""
    pod = kubelet.run_pod()
    one, two = kubelet.run(pod, "one", *SLEEP), kubelet.run(pod, "two", *SLEEP)
    (worker,) = vm_workers(kubelet.node.emulator)
    os.kill(worker, signal.SIGKILL)
    for container in (one, two):
        assert kubelet.expect_exit(container) != 0
    eventually(lambda: kubelet.pod_state(pod) == NOT_READY, "the pod is not ready")
    kubelet.stop_pod(pod)
    expect_clean(kubelet)

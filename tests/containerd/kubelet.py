"""A CRI client, with the calls of a kubelet: pods and containers, exec, attach, port-forward, logs and stats.

`cri_config` is containerd's configuration for it. With `network` containerd runs in a network namespace of its own,
where a bridge and the addresses of pods exist, and vanish with it.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from runhcs.containerd.api.cri import pod_pb2, runtime_pb2
from runhcs.containerd.api.cri.runtime_pb2_grpc import RuntimeServiceStub
from runhcs.containerd.client import Client, ContainerdError
from tests.containerd.daemon import RUNTIME
from tests.containerd.node import Node
from tests.support import network_namespace
from tests.support.eventually import eventually
from tests.support.websocket import WebSocket

RUNNING, EXITED = runtime_pb2.CONTAINER_RUNNING, runtime_pb2.CONTAINER_EXITED
READY, NOT_READY = runtime_pb2.SANDBOX_READY, runtime_pb2.SANDBOX_NOTREADY
CNI_PLUGINS = "/usr/lib/cni"
SUBNET = "10.234.56.0/24"

CONFIG_1 = """
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{image}"
disable_apparmor = true
restrict_oom_score_adj = true
stream_server_address = "127.0.0.1"
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{plugins}"
conf_dir = "{cni}"
[plugins."io.containerd.grpc.v1.cri".containerd]
default_runtime_name = "{default}"
"""
RUNTIME_1 = """
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.{handler}]
runtime_type = "{runtime}"
pod_annotations = ["io.microsoft.*"]
container_annotations = ["io.microsoft.*"]
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.{handler}.options]
{options}
"""
CONFIG_2 = """
[plugins."io.containerd.grpc.v1.cri"]
stream_server_address = "127.0.0.1"
[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "{image}"
[plugins."io.containerd.cri.v1.runtime"]
disable_apparmor = true
restrict_oom_score_adj = true
[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = ["{plugins}"]
conf_dir = "{cni}"
[plugins."io.containerd.cri.v1.runtime".containerd]
default_runtime_name = "{default}"
"""
RUNTIME_2 = """
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.{handler}]
runtime_type = "{runtime}"
sandboxer = "{sandboxer}"
pod_annotations = ["io.microsoft.*"]
container_annotations = ["io.microsoft.*"]
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.{handler}.options]
{options}
"""


def cri_config(
    version: str, image: str, handlers: Mapping[str, str], cni: Path, *, sandboxer: str = "podsandbox"
) -> str:
    """Runtime handlers with their options (TOML), and the directory of CNI's configuration."""
    second = version.startswith("2")
    text = (CONFIG_2 if second else CONFIG_1).format(
        image=image, plugins=CNI_PLUGINS, cni=cni, default=next(iter(handlers))
    )
    for handler, options in handlers.items():
        values = {"handler": handler, "runtime": RUNTIME, "options": options, "sandboxer": sandboxer}
        text += (RUNTIME_2 if second else RUNTIME_1).format(**values)
    return text


def write_bridge_network(cni: Path, state: Path) -> None:
    """A network of a bridge with addresses from `SUBNET`; `state` has the leases."""
    cni.mkdir(parents=True)
    addresses = {
        "type": "host-local", "dataDir": str(state), "ranges": [[{"subnet": SUBNET}]],
    }  # fmt: skip
    bridge = {"type": "bridge", "bridge": "pods0", "isDefaultGateway": True, "hairpinMode": True, "ipam": addresses}
    network = {"cniVersion": "0.4.0", "name": f"pods-{state.parent.name}", "plugins": [bridge]}
    (cni / "10-pods.conflist").write_text(json.dumps(network))


class Kubelet:
    """A CRI client of a node."""

    def __init__(self, node: Node, image: str, handler: str) -> None:
        self.node = node
        self.image = image
        self.handler = handler
        self.logs = node.directory / "pod-logs"
        self.logs.mkdir(exist_ok=True)
        self.configs: dict[str, pod_pb2.PodSandboxConfig] = {}

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

    # Pods.

    def run_pod(self, name: str = "web", *, host_network: bool = True, **fields: Any) -> str:
        """`host_network`: without a network of CNI."""
        mode = pod_pb2.NODE if host_network else pod_pb2.POD
        options = pod_pb2.NamespaceOption(
            network=mode, pid=fields.pop("pid", pod_pb2.POD if host_network else pod_pb2.CONTAINER)
        )
        config = pod_pb2.PodSandboxConfig(
            metadata=pod_pb2.PodSandboxMetadata(name=name, uid=name, namespace="default"),
            hostname=name,
            log_directory=str(self.logs),
            linux=pod_pb2.LinuxPodSandboxConfig(
                security_context=pod_pb2.LinuxSandboxSecurityContext(namespace_options=options)
            ),
            **fields,
        )
        answer = self.call("RunPodSandbox", config=config, runtime_handler=self.handler)
        pod: str = answer.pod_sandbox_id
        self.configs[pod] = config
        return pod

    def pod_state(self, pod: str) -> int:
        answer = self.call("PodSandboxStatus", pod_sandbox_id=pod)
        return answer.status.state

    def address(self, pod: str) -> str:
        answer = self.call("PodSandboxStatus", pod_sandbox_id=pod)
        return answer.status.network.ip

    def stop_pod(self, pod: str) -> None:
        self.call("StopPodSandbox", pod_sandbox_id=pod)
        self.call("RemovePodSandbox", pod_sandbox_id=pod)

    # Containers.

    def create(self, pod: str, name: str, *command: str, **fields: Any) -> str:
        config = runtime_pb2.ContainerConfig(
            metadata=runtime_pb2.ContainerMetadata(name=name),
            image=runtime_pb2.ImageSpec(image=self.image),
            command=list(command),
            log_path=f"{name}.log",
            **fields,
        )
        sandbox = self.configs[pod]
        answer = self.call("CreateContainer", pod_sandbox_id=pod, config=config, sandbox_config=sandbox)
        return answer.container_id

    def run(self, pod: str, name: str, *command: str, **fields: Any) -> str:
        container = self.create(pod, name, *command, **fields)
        self.call("StartContainer", container_id=container)
        return container

    def status(self, container: str) -> runtime_pb2.ContainerStatus:
        answer = self.call("ContainerStatus", container_id=container)
        return answer.status

    def expect_exit(self, container: str) -> int:
        eventually(lambda: self.status(container).state == EXITED, "an exit in the status of CRI")
        return self.status(container).exit_code

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

    # Streams.

    def stream_exec(self, container: str, command: Sequence[str], *, tty: bool = False) -> WebSocket:
        streams = {"stdin": True, "stdout": True, "stderr": not tty, "tty": tty}
        return self._stream(self.call("Exec", container_id=container, cmd=list(command), **streams).url)

    def attach(self, container: str, *, tty: bool = False) -> WebSocket:
        streams = {"stdin": True, "stdout": True, "stderr": not tty, "tty": tty}
        return self._stream(self.call("Attach", container_id=container, **streams).url)

    def port_forward(self, pod: str, port: int) -> WebSocket:
        answer = self.call("PortForward", pod_sandbox_id=pod, port=[port])
        return self._stream(answer.url, f"port={port}")

    def _stream(self, url: str, query: str = "") -> WebSocket:
        parts = urlsplit(url)
        return WebSocket(self.connect(str(parts.hostname), int(parts.port or 0)), url, query)

    def connect(self, address: str, port: int) -> socket.socket:
        """A connection from the node, in the network of its containerd."""
        process = self.node.containerd.process
        assert process is not None
        return network_namespace.connect(f"/proc/{process.pid}/ns/net", (address, port))

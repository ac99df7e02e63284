"""The pods of a node, by CRI: as its runtime has them, whatever the kubelet knows."""

from __future__ import annotations

from deploy.cluster.settings import Settings
from runhcs.containerd.api.cri import runtime_pb2
from runhcs.containerd.api.cri.runtime_pb2_grpc import RuntimeServiceStub
from runhcs.containerd.client import Client

TIMEOUT = 120.0


def remove_all(settings: Settings) -> None:
    """After the kubelet has stopped. Raises ContainerdError if containerd does not answer or does not remove a pod."""
    with Client(str(settings.containerd_socket), "k8s.io", TIMEOUT) as client:
        stub = RuntimeServiceStub(client.channel)
        listed = client.call(stub.ListPodSandbox, runtime_pb2.ListPodSandboxRequest())
        for sandbox in listed.items:
            client.call(stub.StopPodSandbox, runtime_pb2.StopPodSandboxRequest(pod_sandbox_id=sandbox.id))
            client.call(stub.RemovePodSandbox, runtime_pb2.RemovePodSandboxRequest(pod_sandbox_id=sandbox.id))


def ready(settings: Settings) -> list[str]:
    """The names of pods whose sandbox is ready. Raises ContainerdError."""
    with Client(str(settings.containerd_socket), "k8s.io", TIMEOUT) as client:
        listed = client.call(RuntimeServiceStub(client.channel).ListPodSandbox, runtime_pb2.ListPodSandboxRequest())
    return [one.metadata.name for one in listed.items if one.state == runtime_pb2.SANDBOX_READY]

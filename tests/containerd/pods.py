"""Pods as CRI creates them, over containerd's gRPC API: a sandbox container and workloads marked by annotations, in
CRI's order of calls."""

from __future__ import annotations

import os
import select
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc

from runhcs.containerd.api.services.tasks_pb2 import WaitResponse
from runhcs.containerd.client import Client, ContainerdError, Exit, Pending, Streams
from shim.api.types import Status
from shim.api.wellknown import Any as PackedAny
from shim.ttrpc import client as ttrpc
from tests.containerd.daemon import NAMESPACE
from tests.containerd.node import Node
from tests.support.eventually import eventually

CONTAINER_TYPE = "io.kubernetes.cri.container-type"
SANDBOX_ID = "io.kubernetes.cri.sandbox-id"
SIGKILL, SIGTERM = 9, 15
FOREVER = ("ping", "-t", "localhost")


def connect(node: Node) -> Client:
    return Client(str(node.containerd.address), NAMESPACE)


@contextmanager
def direct(node: Node, id: str, bundles: Path | None = None) -> Iterator[ttrpc.Client]:
    """A ttrpc client connected directly to the shim that serves this id, without containerd."""
    address = ((bundles or node.containerd.bundles) / id / "address").read_text()
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(60)
    connection.connect(address.removeprefix("unix://"))
    connection.settimeout(None)
    client = ttrpc.Client(connection)
    try:
        yield client
    finally:
        client.close()


class CriPod:
    """One pod. `options` are those of the runtime handler, which CRI passes with every container of the pod."""

    def __init__(self, node: Node, client: Client, *, options: PackedAny | None = None, **sandbox: Any) -> None:
        self.node = node
        self.client = client
        self.options = options
        self.id = node.name()
        self.workloads: list[str] = []
        self.waits: dict[str, Pending[WaitResponse]] = {}
        self._sandbox = sandbox

    # RunPodSandbox, CreateContainer, StartContainer.

    def run(self) -> None:
        self._create(self.id, "sandbox", *FOREVER, **self._sandbox)
        self._start(self.id)

    def add(self, *args: str, **members: Any) -> str:
        """Create and start a workload."""
        name = self.create(*args, **members)
        self._start(name)
        return name

    def create(self, *args: str, **members: Any) -> str:
        """Create the container's record; CRI creates the task only when it starts the container."""
        name = self.node.name()
        self._create(name, "container", *(args or FOREVER), **members)
        self.workloads.append(name)
        return name

    def _create(self, id: str, kind: str, *args: str, **members: Any) -> None:
        annotations = {
            CONTAINER_TYPE: kind,
            SANDBOX_ID: self.id,
            "io.kubernetes.cri.sandbox-name": "web",
            "io.kubernetes.cri.sandbox-namespace": "default",
            **members.pop("annotations", {}),
        }
        spec = self.node.spec(*args, annotations=annotations, **members)
        self.client.create_container(id, spec, options=self.options, labels={"io.cri-containerd.kind": kind})

    def _start(self, id: str) -> None:
        self.client.create_task(id)
        self.waits[id] = self.client.begin_wait(id)
        self.client.start(id)

    # ExecSync, ContainerStatus.

    def exec(self, id: str, *args: str) -> tuple[int, str]:
        """ExecSync: returns exit status and output."""
        exec_id = os.urandom(8).hex()
        with output_fifo(self.node.directory / f"{exec_id}-stdout") as output:
            process = {"args": list(args), "cwd": "C:\\", "user": {"username": "ContainerAdministrator"}}
            self.client.exec(id, exec_id, process, Streams(stdout=str(output.path)))
            pending = self.client.begin_wait(id, exec_id)
            self.client.start(id, exec_id)
            status = pending.result(60).exit_status
            text = output.read()
        assert self.client.delete_exec(id, exec_id).status == status
        return status, text

    def status(self, id: str) -> int:
        return self.client.state(id).status

    # StopContainer, RemoveContainer, StopPodSandbox, RemovePodSandbox.

    def stop_container(self, id: str, signal: int = SIGKILL) -> Exit:
        """Kill the task, wait for its exit, and delete it, as CRI's exit monitor does."""
        try:
            self.client.kill(id, signal)
        except ContainerdError as error:
            assert error.code == grpc.StatusCode.NOT_FOUND, error
        exited = self.waits.pop(id).result(60)
        deleted = self.client.delete_task(id)
        assert deleted.status == exited.exit_status
        assert deleted.at == exited.exited_at
        return deleted

    def remove_container(self, id: str) -> None:
        self.client.delete_container(id)
        if id in self.workloads:
            self.workloads.remove(id)

    def stop(self) -> None:
        for name in self.workloads:
            if name in self.waits:
                self.stop_container(name)
        self.stop_container(self.id)

    def remove(self) -> None:
        for name in list(self.workloads):
            self.remove_container(name)
        self.remove_container(self.id)

    # Shims and compute systems of the pod.

    def members(self) -> list[str]:
        return [self.id, *self.workloads]

    def shims(self) -> set[int]:
        """The pids of the shims that serve its containers; there should be one."""
        return {self.node.shim_pid(name) for name in self.members()}

    def systems(self) -> list[str]:
        """The compute systems of this host, without those inside a VM."""
        return sorted(system["Id"] for system in self.node.emulator.control("status")["systems"])

    def expect_running(self) -> None:
        states = {task.id: task.status for task in self.client.tasks()}
        assert {name: states.get(name) for name in self.members()} == dict.fromkeys(self.members(), Status.RUNNING)


class Output:
    def __init__(self, path: Path) -> None:
        self.path = path
        os.mkfifo(path, 0o600)
        self._descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)

    def read(self, timeout: float = 30.0) -> str:
        """Read until end of file, that is until the shim has closed its end."""
        deadline = time.monotonic() + timeout
        chunks = []
        while True:
            ready, _, _ = select.select([self._descriptor], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"no end of file in {self.path.name} after {timeout} s"
            chunk = os.read(self._descriptor, 1 << 16)
            if not chunk:
                return b"".join(chunks).decode()
            chunks.append(chunk)

    def close(self) -> None:
        os.close(self._descriptor)
        self.path.unlink()


@contextmanager
def output_fifo(path: Path) -> Iterator[Output]:
    """The read end of a FIFO, open before the shim gets its path."""
    output = Output(path)
    try:
        yield output
    finally:
        output.close()


def expect_exited(pid: int) -> None:
    eventually(lambda: not Path(f"/proc/{pid}").exists(), f"the exit of process {pid}")

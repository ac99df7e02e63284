"""A small client of containerd's gRPC API: containers, tasks and events, for tools, tests and benchmarks.

    with Client("/run/containerd/containerd.sock", namespace="default") as client:
        client.create_container("c1", spec)
        client.create_task("c1")
        exit = client.begin_wait("c1")
        client.start("c1")
        print(exit.result().exit_status)
        client.delete_task("c1")
        client.delete_container("c1")

Messages and stubs are generated from proto/ (`runhcs.containerd.api`). The client adds deadlines and error translation,
and does nothing by itself: no snapshots, no FIFOs, no retries. A failed call raises `ContainerdError` with the status
code of gRPC. Sandboxes are in `runhcs.containerd.sandboxes`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Generic, Protocol, TypeVar

import grpc
from attrs import frozen
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.empty_pb2 import Empty
from google.protobuf.timestamp_pb2 import Timestamp

from runhcs.containerd.api.services import containers_pb2, events_pb2, tasks_pb2, version_pb2
from runhcs.containerd.api.services.containers_pb2_grpc import ContainersStub
from runhcs.containerd.api.services.events_pb2_grpc import EventsStub
from runhcs.containerd.api.services.tasks_pb2_grpc import TasksStub
from runhcs.containerd.api.services.version_pb2_grpc import VersionStub
from runhcs.containerd.api.types.event_pb2 import Envelope
from runhcs.containerd.api.types.metrics_pb2 import Metric
from runhcs.containerd.api.types.mount_pb2 import Mount
from runhcs.containerd.api.types.task_pb2 import Process, ProcessInfo

RUNTIME = "io.containerd.runhcs.v1"
SPEC_TYPE = "types.containerd.io/opencontainers/runtime-spec/1/Spec"
PROCESS_TYPE = "types.containerd.io/opencontainers/runtime-spec/1/Process"
WINDOWS_RESOURCES = "types.containerd.io/opencontainers/runtime-spec/1/WindowsResources"
LINUX_RESOURCES = "types.containerd.io/opencontainers/runtime-spec/1/LinuxResources"

TIMEOUT = 60.0
# The deadline of a Wait or a subscription, unless the caller sets one.
LONG_TIMEOUT = 24 * 3600.0

M = TypeVar("M")
Json = Mapping[str, Any]


class Packed(Protocol):
    """A packed message: google.protobuf.Any, from the protobuf runtime or from shim.api.wellknown."""

    type_url: str
    value: bytes


class ContainerdError(Exception):
    """containerd returned an error, or did not answer before the deadline."""

    def __init__(self, call: str, code: grpc.StatusCode, details: str) -> None:
        super().__init__(f"{call}: {code.name}: {details}")
        self.code = code
        self.details = details


@frozen
class Streams:
    """The stdio of a process, created by the caller: paths of FIFOs or pipes, or URIs."""

    stdin: str = ""
    stdout: str = ""
    stderr: str = ""
    terminal: bool = False


NO_STREAMS = Streams()


@frozen
class Exit:
    status: int
    at: Timestamp


@frozen
class Version:
    version: str
    revision: str


class Client:
    def __init__(self, address: str, namespace: str = "default", timeout: float = TIMEOUT) -> None:
        self.timeout = timeout
        self._metadata = (("containerd-namespace", namespace),)
        # Reconnect to a restarted containerd quickly, without gRPC's growing backoff.
        options = [("grpc.initial_reconnect_backoff_ms", 100), ("grpc.max_reconnect_backoff_ms", 1000)]
        self.channel = grpc.insecure_channel(f"unix://{address}", options)
        self._containers: Any = ContainersStub(self.channel)
        self._tasks: Any = TasksStub(self.channel)
        self._events: Any = EventsStub(self.channel)
        self._version: Any = VersionStub(self.channel)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self.channel.close()

    # Calls.

    def call(self, method: grpc.UnaryUnaryMultiCallable[Any, M], request: object, timeout: float | None = None) -> M:
        """Call a unary method of a stub, for example `SomeStub(client.channel).Method`."""
        return self.begin(method, request, timeout).result()

    def begin(
        self, method: grpc.UnaryUnaryMultiCallable[Any, M], request: object, timeout: float | None = None
    ) -> Pending[M]:
        deadline = self.timeout if timeout is None else timeout
        name = "Version" if isinstance(request, Empty) else type(request).__name__.removesuffix("Request")
        return Pending(name, method.future(request, timeout=deadline, metadata=self._metadata))

    def version(self) -> Version:
        answer: version_pb2.VersionResponse = self.call(self._version.Version, Empty())
        return Version(answer.version, answer.revision)

    # Containers.

    def create_container(
        self,
        id: str,
        spec: Json,
        *,
        runtime: str = RUNTIME,
        options: Packed | None = None,
        labels: Mapping[str, str] | None = None,
        sandbox: str = "",
    ) -> None:
        """Create a container without a snapshot. Its options reach the shim on stdin of `start`, and in Create."""
        container = containers_pb2.Container(
            id=id,
            labels=labels,
            runtime=containers_pb2.Container.Runtime(name=runtime, options=as_any(options)),
            spec=pack_json(SPEC_TYPE, spec),
            sandbox=sandbox,
        )
        self.call(self._containers.Create, containers_pb2.CreateContainerRequest(container=container))

    def containers(self, *filters: str) -> Sequence[containers_pb2.Container]:
        request = containers_pb2.ListContainersRequest(filters=filters)
        answer: containers_pb2.ListContainersResponse = self.call(self._containers.List, request)
        return answer.containers

    def delete_container(self, id: str) -> None:
        self.call(self._containers.Delete, containers_pb2.DeleteContainerRequest(id=id))

    # Tasks and their execs. Without an exec id a call is about the init process.

    def create_task(
        self,
        id: str,
        streams: Streams = NO_STREAMS,
        *,
        rootfs: Sequence[Mount] = (),
        address: str = "",
        version: int = 0,
        timeout: float | None = None,
    ) -> int:
        """Return the pid that containerd reports, 0 for a task that has not been started. With `address` and `version`
        of a sandbox the task joins it (containerd 2.x)."""
        request = tasks_pb2.CreateTaskRequest(
            container_id=id,
            rootfs=rootfs,
            stdin=streams.stdin,
            stdout=streams.stdout,
            stderr=streams.stderr,
            terminal=streams.terminal,
            task_api_address=address,
            task_api_version=version,
        )
        answer: tasks_pb2.CreateTaskResponse = self.call(self._tasks.Create, request, timeout)
        return answer.pid

    def start(self, id: str, exec_id: str = "", timeout: float | None = None) -> int:
        request = tasks_pb2.StartRequest(container_id=id, exec_id=exec_id)
        answer: tasks_pb2.StartResponse = self.call(self._tasks.Start, request, timeout)
        return answer.pid

    def exec(self, id: str, exec_id: str, process: Json, streams: Streams = NO_STREAMS) -> None:
        """Add an exec; `start` runs it."""
        request = tasks_pb2.ExecProcessRequest(
            container_id=id,
            exec_id=exec_id,
            stdin=streams.stdin,
            stdout=streams.stdout,
            stderr=streams.stderr,
            terminal=streams.terminal,
            spec=pack_json(PROCESS_TYPE, process),
        )
        self.call(self._tasks.Exec, request)

    def begin_wait(self, id: str, exec_id: str = "", timeout: float = LONG_TIMEOUT) -> Pending[tasks_pb2.WaitResponse]:
        """Call Wait; the response arrives when the process exits."""
        return self.begin(self._tasks.Wait, tasks_pb2.WaitRequest(container_id=id, exec_id=exec_id), timeout)

    def wait(self, id: str, exec_id: str = "", timeout: float = TIMEOUT) -> Exit:
        answer = self.begin_wait(id, exec_id, timeout).result()
        return Exit(answer.exit_status, answer.exited_at)

    def kill(self, id: str, signal: int, exec_id: str = "", *, all: bool = False) -> None:
        request = tasks_pb2.KillRequest(container_id=id, exec_id=exec_id, signal=signal, all=all)
        self.call(self._tasks.Kill, request)

    def delete_task(self, id: str, timeout: float | None = None) -> Exit:
        request = tasks_pb2.DeleteTaskRequest(container_id=id)
        answer: tasks_pb2.DeleteResponse = self.call(self._tasks.Delete, request, timeout)
        return Exit(answer.exit_status, answer.exited_at)

    def delete_exec(self, id: str, exec_id: str) -> Exit:
        request = tasks_pb2.DeleteProcessRequest(container_id=id, exec_id=exec_id)
        answer: tasks_pb2.DeleteResponse = self.call(self._tasks.DeleteProcess, request)
        return Exit(answer.exit_status, answer.exited_at)

    def state(self, id: str, exec_id: str = "") -> Process:
        request = tasks_pb2.GetRequest(container_id=id, exec_id=exec_id)
        answer: tasks_pb2.GetResponse = self.call(self._tasks.Get, request)
        return answer.process

    def tasks(self) -> Sequence[Process]:
        answer: tasks_pb2.ListTasksResponse = self.call(self._tasks.List, tasks_pb2.ListTasksRequest())
        return answer.tasks

    def pids(self, id: str) -> Sequence[ProcessInfo]:
        request = tasks_pb2.ListPidsRequest(container_id=id)
        answer: tasks_pb2.ListPidsResponse = self.call(self._tasks.ListPids, request)
        return answer.processes

    def metrics(self, *ids: str) -> dict[str, Metric]:
        """Metrics by id, of all tasks if no id is given. containerd leaves out tasks without metrics."""
        request = tasks_pb2.MetricsRequest(filters=[f"id=={task}" for task in ids])
        answer: tasks_pb2.MetricsResponse = self.call(self._tasks.Metrics, request)
        return {metric.id: metric for metric in answer.metrics}

    def update(
        self, id: str, resources: Json, annotations: Mapping[str, str] | None = None, kind: str = WINDOWS_RESOURCES
    ) -> None:
        packed = pack_json(kind, resources)
        request = tasks_pb2.UpdateTaskRequest(container_id=id, resources=packed, annotations=annotations)
        self.call(self._tasks.Update, request)

    def pause(self, id: str) -> None:
        self.call(self._tasks.Pause, tasks_pb2.PauseTaskRequest(container_id=id))

    def resume(self, id: str) -> None:
        self.call(self._tasks.Resume, tasks_pb2.ResumeTaskRequest(container_id=id))

    def close_stdin(self, id: str, exec_id: str = "") -> None:
        self.call(self._tasks.CloseIO, tasks_pb2.CloseIORequest(container_id=id, exec_id=exec_id, stdin=True))

    def resize(self, id: str, width: int, height: int, exec_id: str = "") -> None:
        request = tasks_pb2.ResizePtyRequest(container_id=id, exec_id=exec_id, width=width, height=height)
        self.call(self._tasks.ResizePty, request)

    # Events.

    def subscribe(self, *filters: str, timeout: float = LONG_TIMEOUT) -> Subscription:
        """The events that containerd publishes from now on, in all namespaces unless a filter has `namespace==…`."""
        request = events_pb2.SubscribeRequest(filters=filters)
        stream = self._events.Subscribe(request, timeout=timeout, metadata=self._metadata, wait_for_ready=True)
        return Subscription(stream)


class Pending(Generic[M]):
    """A call in progress."""

    def __init__(self, name: str, future: Any) -> None:
        self._name = name
        self._future = future

    @property
    def done(self) -> bool:
        return bool(self._future.done())

    def result(self, timeout: float | None = None) -> M:
        """Wait for the response, for at most `timeout`. May be repeated; the call has its own deadline."""
        try:
            answer: M = self._future.result(timeout)
        except grpc.FutureTimeoutError:
            raise TimeoutError(f"{self._name}: no response after {timeout} s") from None
        except grpc.RpcError as error:
            raise _containerd_error(self._name, error) from None
        return answer

    def cancel(self) -> None:
        self._future.cancel()


class Subscription:
    """Iterates over envelopes until it is closed or containerd stops."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __enter__(self) -> Subscription:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def __iter__(self) -> Iterator[Envelope]:
        try:
            yield from self._stream
        except grpc.RpcError as error:
            if error.code() != grpc.StatusCode.CANCELLED:
                raise _containerd_error("Subscribe", error) from None

    def close(self) -> None:
        self._stream.cancel()


def pack_json(type_url: str, document: Json) -> AnyMessage:
    """Pack a JSON document as Go's typeurl does for types that are not protobuf messages."""
    return AnyMessage(type_url=type_url, value=json.dumps(document).encode())


def as_any(packed: Packed | None) -> AnyMessage | None:
    return None if packed is None else AnyMessage(type_url=packed.type_url, value=packed.value)


def _containerd_error(name: str, error: Any) -> ContainerdError:
    return ContainerdError(name, error.code(), error.details() or "")

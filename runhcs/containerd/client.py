"""A small client of containerd's gRPC API: containers, tasks and events, for tools, tests and benchmarks.

    with Client("/run/containerd/containerd.sock", namespace="default") as client:
        client.create_container("c1", spec)
        client.create_task("c1")
        ending = client.begin_wait("c1")
        client.start("c1")
        print(ending.result().status)
        client.delete_task("c1")
        client.delete_container("c1")

It says what containerd's own client library would say, and nothing by itself: no snapshots, no FIFOs, no retries. Every
call has a deadline. What goes wrong is a `ContainerdError` with gRPC's status code. Sandboxes are in
`runhcs.containerd.sandboxes`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Generic, NamedTuple, TypeVar

import grpc

from runhcs.containerd_api import containers, events, tasks, version
from shim.api.events_ttrpc import Envelope
from shim.api.types import Metric, Mount, Process, ProcessInfo
from shim.api.wellknown import Any as PackedAny
from shim.api.wellknown import Empty, Timestamp
from shim.api.wire import Message

RUNTIME = "io.containerd.runhcs.v1"
SPEC_TYPE = "types.containerd.io/opencontainers/runtime-spec/1/Spec"
PROCESS_TYPE = "types.containerd.io/opencontainers/runtime-spec/1/Process"
WINDOWS_RESOURCES = "types.containerd.io/opencontainers/runtime-spec/1/WindowsResources"

CONTAINERS = "containerd.services.containers.v1.Containers"
TASKS = "containerd.services.tasks.v1.Tasks"
EVENTS = "containerd.services.events.v1.Events"
VERSION = "containerd.services.version.v1.Version"

TIMEOUT = 60.0
# How long a Wait or a subscription stays open if nobody says otherwise.
LONG_TIMEOUT = 24 * 3600.0

M = TypeVar("M", bound=Message)
Json = Mapping[str, Any]


class ContainerdError(Exception):
    """containerd refused, or did not answer in time."""

    def __init__(self, call: str, code: grpc.StatusCode, details: str) -> None:
        super().__init__(f"{call}: {code.name}: {details}")
        self.code = code
        self.details = details


class Streams(NamedTuple):
    """The ends of a process's stdio that the caller has made: paths of FIFOs or pipes, or URIs."""

    stdin: str = ""
    stdout: str = ""
    stderr: str = ""
    terminal: bool = False


NO_STREAMS = Streams()


class Exit(NamedTuple):
    status: int
    at: Timestamp | None


class Version(NamedTuple):
    version: str
    revision: str


class Client:
    def __init__(self, address: str, namespace: str = "default", timeout: float = TIMEOUT) -> None:
        self.timeout = timeout
        self._metadata = (("containerd-namespace", namespace),)
        # A containerd that restarts is found again at once, not after gRPC's growing pauses.
        options = [("grpc.initial_reconnect_backoff_ms", 100), ("grpc.max_reconnect_backoff_ms", 1000)]
        self._channel = grpc.insecure_channel(f"unix://{address}", options)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._channel.close()

    # Calls.

    def call(self, service: str, method: str, request: Message, answer: type[M], timeout: float | None = None) -> M:
        """Any unary method, with our messages."""
        return self.begin(service, method, request, answer, timeout).result()

    def begin(
        self, service: str, method: str, request: Message, answer: type[M], timeout: float | None = None
    ) -> Pending[M]:
        name = f"/{service}/{method}"
        call = self._channel.unary_unary(name, request_serializer=_encode, response_deserializer=answer.decode)
        deadline = self.timeout if timeout is None else timeout
        return Pending(method, call.future(request, timeout=deadline, metadata=self._metadata))

    def version(self) -> Version:
        answer = self.call(VERSION, "Version", Empty(), version.VersionResponse)
        return Version(answer.version, answer.revision)

    # Containers.

    def create_container(
        self,
        id: str,
        spec: Json,
        *,
        runtime: str = RUNTIME,
        options: PackedAny | None = None,
        labels: Mapping[str, str] | None = None,
        sandbox: str = "",
    ) -> None:
        """A container without a snapshot. Its options reach the shim twice: on stdin of `start`, and in Create."""
        container = containers.Container(
            id=id,
            labels=dict(labels or {}),
            runtime=containers.Container.Runtime(name=runtime, options=options),
            spec=pack_json(SPEC_TYPE, spec),
            sandbox=sandbox,
        )
        request = containers.CreateContainerRequest(container=container)
        self.call(CONTAINERS, "Create", request, containers.CreateContainerResponse)

    def containers(self, *filters: str) -> list[containers.Container]:
        request = containers.ListContainersRequest(filters=list(filters))
        return self.call(CONTAINERS, "List", request, containers.ListContainersResponse).containers

    def delete_container(self, id: str) -> None:
        self.call(CONTAINERS, "Delete", containers.DeleteContainerRequest(id=id), Empty)

    # Tasks and their execs; without an exec id a call is about the task's first process.

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
        """The pid that containerd tells, 0 for a task that has not been started. With `address` and `version` of a
        sandbox the task joins it (containerd 2.x)."""
        request = tasks.CreateTaskRequest(
            container_id=id,
            rootfs=list(rootfs),
            stdin=streams.stdin,
            stdout=streams.stdout,
            stderr=streams.stderr,
            terminal=streams.terminal,
            task_api_address=address,
            task_api_version=version,
        )
        return self.call(TASKS, "Create", request, tasks.CreateTaskResponse, timeout).pid

    def start(self, id: str, exec_id: str = "", timeout: float | None = None) -> int:
        request = tasks.StartRequest(container_id=id, exec_id=exec_id)
        return self.call(TASKS, "Start", request, tasks.StartResponse, timeout).pid

    def exec(self, id: str, exec_id: str, process: Json, streams: Streams = NO_STREAMS) -> None:
        """Add an exec; `start` runs it."""
        request = tasks.ExecProcessRequest(
            container_id=id,
            exec_id=exec_id,
            stdin=streams.stdin,
            stdout=streams.stdout,
            stderr=streams.stderr,
            terminal=streams.terminal,
            spec=pack_json(PROCESS_TYPE, process),
        )
        self.call(TASKS, "Exec", request, Empty)

    def begin_wait(self, id: str, exec_id: str = "", timeout: float = LONG_TIMEOUT) -> Pending[tasks.WaitResponse]:
        """Ask for the end; the answer comes when it has come."""
        request = tasks.WaitRequest(container_id=id, exec_id=exec_id)
        return self.begin(TASKS, "Wait", request, tasks.WaitResponse, timeout)

    def wait(self, id: str, exec_id: str = "", timeout: float = TIMEOUT) -> Exit:
        answer = self.begin_wait(id, exec_id, timeout).result()
        return Exit(answer.exit_status, answer.exited_at)

    def kill(self, id: str, signal: int, exec_id: str = "", *, everybody: bool = False) -> None:
        request = tasks.KillRequest(container_id=id, exec_id=exec_id, signal=signal, all=everybody)
        self.call(TASKS, "Kill", request, Empty)

    def delete_task(self, id: str, timeout: float | None = None) -> Exit:
        answer = self.call(TASKS, "Delete", tasks.DeleteTaskRequest(container_id=id), tasks.DeleteResponse, timeout)
        return Exit(answer.exit_status, answer.exited_at)

    def delete_exec(self, id: str, exec_id: str) -> Exit:
        request = tasks.DeleteProcessRequest(container_id=id, exec_id=exec_id)
        answer = self.call(TASKS, "DeleteProcess", request, tasks.DeleteResponse)
        return Exit(answer.exit_status, answer.exited_at)

    def state(self, id: str, exec_id: str = "") -> Process:
        request = tasks.GetRequest(container_id=id, exec_id=exec_id)
        return self.call(TASKS, "Get", request, tasks.GetResponse).process or Process()

    def tasks(self) -> list[Process]:
        return self.call(TASKS, "List", tasks.ListTasksRequest(), tasks.ListTasksResponse).tasks

    def pids(self, id: str) -> list[ProcessInfo]:
        return self.call(TASKS, "ListPids", tasks.ListPidsRequest(container_id=id), tasks.ListPidsResponse).processes

    def metrics(self, *ids: str) -> dict[str, Metric]:
        """By id; all tasks without one. A task that has no figures is missing, as containerd has it."""
        request = tasks.MetricsRequest(filters=[f"id=={task}" for task in ids])
        answer = self.call(TASKS, "Metrics", request, tasks.MetricsResponse)
        return {metric.id: metric for metric in answer.metrics}

    def update(self, id: str, resources: Json, annotations: Mapping[str, str] | None = None) -> None:
        packed = pack_json(WINDOWS_RESOURCES, resources)
        request = tasks.UpdateTaskRequest(container_id=id, resources=packed, annotations=dict(annotations or {}))
        self.call(TASKS, "Update", request, Empty)

    def pause(self, id: str) -> None:
        self.call(TASKS, "Pause", tasks.PauseTaskRequest(container_id=id), Empty)

    def resume(self, id: str) -> None:
        self.call(TASKS, "Resume", tasks.ResumeTaskRequest(container_id=id), Empty)

    def close_stdin(self, id: str, exec_id: str = "") -> None:
        self.call(TASKS, "CloseIO", tasks.CloseIORequest(container_id=id, exec_id=exec_id, stdin=True), Empty)

    def resize(self, id: str, width: int, height: int, exec_id: str = "") -> None:
        request = tasks.ResizePtyRequest(container_id=id, exec_id=exec_id, width=width, height=height)
        self.call(TASKS, "ResizePty", request, Empty)

    # Events.

    def subscribe(self, *filters: str, timeout: float = LONG_TIMEOUT) -> Subscription:
        """What containerd publishes from now on, in all namespaces unless a filter says `namespace==…`."""
        call = self._channel.unary_stream(
            f"/{EVENTS}/Subscribe", request_serializer=_encode, response_deserializer=Envelope.decode
        )
        request = events.SubscribeRequest(filters=list(filters))
        return Subscription(call(request, timeout=timeout, metadata=self._metadata, wait_for_ready=True))


class Pending(Generic[M]):
    """A call under way."""

    def __init__(self, name: str, future: Any) -> None:
        self._name = name
        self._future = future

    @property
    def done(self) -> bool:
        return bool(self._future.done())

    def result(self, timeout: float | None = None) -> M:
        """The answer. `timeout` bounds this wait, which may be asked again; the call has its own deadline."""
        try:
            answer: M = self._future.result(timeout)
        except grpc.FutureTimeoutError:
            raise TimeoutError(f"{self._name}: no answer after {timeout} s") from None
        except grpc.RpcError as error:
            raise _told(self._name, error) from None
        return answer

    def cancel(self) -> None:
        self._future.cancel()


class Subscription:
    """Envelopes as they come; ends when closed, or when containerd goes away."""

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
                raise _told("Subscribe", error) from None

    def close(self) -> None:
        self._stream.cancel()


def pack_json(type_url: str, document: Json) -> PackedAny:
    """As Go's typeurl packs what is no protobuf message."""
    return PackedAny(type_url=type_url, value=json.dumps(document).encode())


def _told(name: str, error: Any) -> ContainerdError:
    return ContainerdError(name, error.code(), error.details() or "")


def _encode(message: Message) -> bytes:
    return message.encode()

"""Fakes of containers, processes and stdio, for unit tests of `shim.task`. Tests make the fake processes exit.

The package itself is real, from the ttrpc client down to `Task` and `Process`.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from typing import Any

import pytest

from runhcs.task_client import TaskClient
from shim.api import events
from shim.api import task as api
from shim.api.wire import Message
from shim.container.base import BaseContainer
from shim.logs import Log, NullChannel
from shim.task.context import ShimContext
from shim.task.events.task_events import TaskEvents
from shim.task.pod import Pod, Role
from shim.task.service import TASK_V2, TaskService
from shim.task.task import Task
from shim.ttrpc.client import Client
from shim.ttrpc.server import Call, Server
from shim.ttrpc.status import StatusError

KILLED = 0xC000013A


class FakeIO:
    """Stdio without data. `drain` waits until `drained` is set, which it is at first."""

    def __init__(self, stdin: str = "", stdout: str = "", stderr: str = "", terminal: bool = False) -> None:
        self.stdin, self.stdout, self.stderr, self.terminal = stdin, stdout, stderr, terminal
        self.drained = threading.Event()
        self.drained.set()
        self.attached: Any = None
        self.attach_error: Exception | None = None
        self.stdin_closed = 0
        self.closed = 0
        self.waits_for_late_client: Callable[[], bool] | None = None
        self.waits_for_reader: Callable[[], bool] | None = None

    def attach(self, process: Any) -> None:
        if self.attach_error is not None:
            raise self.attach_error
        self.attached = process

    def close_stdin(self) -> None:
        self.stdin_closed += 1

    def drain(
        self,
        idle_timeout: float,
        *,
        waits_for_late_client: Callable[[], bool],
        waits_for_reader: Callable[[], bool],
        on_held_open: Callable[[], None] | None,
    ) -> bool:
        self.waits_for_reader = waits_for_reader
        self.waits_for_late_client = waits_for_late_client
        if on_held_open is not None and not self.drained.is_set():
            on_held_open()
        return self.drained.wait(idle_timeout)

    def close(self) -> None:
        self.closed += 1


class FakeExit:
    def __init__(self, code: int) -> None:
        self.code = code


class FakeProcess:
    def __init__(self, container: FakeContainer, pid: int) -> None:
        self.container = container
        self.pid = pid
        self.calls: list[Any] = []
        self.signal_block: threading.Event | None = None
        self.close_block: threading.Event | None = None
        self._lock = threading.Lock()
        self._code: int | None = None
        self._callback: Callable[[Any], object] | None = None

    def exit(self, code: int) -> None:
        with self._lock:
            if self._code is not None:
                return
            self._code = code
            callback = self._callback
        if callback is not None:
            callback(FakeExit(code))

    def on_exit(self, callback: Callable[[Any], object]) -> None:
        with self._lock:
            self._callback = callback
            code = self._code
        if code is not None:
            callback(FakeExit(code))

    def signal(self, options: dict[str, Any]) -> bool:
        self.calls.append(options)
        if self.signal_block is not None:
            self.signal_block.wait(10)
        return True

    def terminate(self, timeout: float | None = None) -> bool:
        self.calls.append("terminate")
        if "terminate" in self.container.errors:
            raise self.container.errors["terminate"]
        if self.container.kill_works:
            self.exit(KILLED)
        return self.container.kill_works

    def modify(self, settings: dict[str, Any], timeout: float | None = None) -> None:
        self.calls.append(settings)

    def close(self) -> None:
        self.calls.append("close")
        if self.close_block is not None:
            self.close_block.wait(30)


class FakeContainer(BaseContainer):
    def __init__(self) -> None:
        super().__init__("c1", lambda warning: None)
        self.calls: list[Any] = []
        self.processes: list[FakeProcess] = []
        self.errors: dict[str, Exception] = {}
        self.answers: dict[str, Any] = {}
        self.kill_works = True
        self.teardown_gate = threading.Event()
        self.teardown_gate.set()
        #: Called when it has stopped.
        self.on_stop: Callable[[], object] = lambda: None
        self._exited: Callable[[], object] | None = None

    def _called(self, name: str, *details: Any) -> None:
        self.calls.append((name, *details) if details else name)
        if name in self.errors:
            raise self.errors[name]

    def start(self) -> None:
        self._called("start")

    def create_process(self, parameters: dict[str, Any]) -> FakeProcess:
        self._called("create_process", parameters)
        process = FakeProcess(self, 100 + len(self.processes))
        self.processes.append(process)
        return process

    def exec_parameters(self, process: Any, **pipes: Any) -> dict[str, Any]:
        return {"process": process, **pipes}

    def on_exit(self, callback: Callable[[], object]) -> None:
        self._exited = callback

    def die(self) -> None:
        assert self._exited is not None
        self._exited()

    @property
    def system(self) -> FakeContainer:
        return self

    def properties(self, *types: str, timeout: float | None = None) -> dict[str, Any]:
        self._called("properties", *types)
        return {name: self.answers[name] for name in types if name in self.answers}

    def modify(self, request: dict[str, Any], timeout: float | None = None) -> None:
        self._called("modify", request)

    def pause(self) -> None:
        self._called("pause")

    def resume(self) -> None:
        self._called("resume")

    def stop(self) -> None:
        self._called("stop")
        self._end()

    def teardown(self) -> None:
        self.teardown_gate.wait(10)
        self._called("teardown")
        self._end()

    def _end(self) -> None:
        for process in self.processes:
            process.exit(KILLED)
        self.on_stop()


class FakePublisher:
    def __init__(self) -> None:
        self.events: list[tuple[str, Any]] = []

    def publish(self, topic: str, event: Message) -> None:
        # Through the codec, as on the wire.
        self.events.append((topic, type(event).decode(event.encode())))

    def topics(self) -> list[str]:
        return [topic for topic, _ in self.events]

    def published(self) -> list[str]:
        """The events by topic and id: `exit c1`, `exit e1` …"""
        out = []
        for topic, event in list(self.events):
            who = event.container_id
            if isinstance(event, (events.TaskExecAdded, events.TaskExecStarted)):
                who = event.exec_id
            elif isinstance(event, (events.TaskExit, events.TaskDelete)):
                who = event.id or event.container_id
            out.append(f"{topic.removeprefix('/tasks/')} {who}")
        return out


class Harness(TaskClient):
    """A Task service on a real ttrpc server and client, with fake containers."""

    def __init__(self, id: str = "c1", *, is_sandbox: bool = False, bundle: str = "/nowhere") -> None:
        self.publisher = FakePublisher()
        self.containers: dict[str, FakeContainer] = {}
        self.ios: dict[str, FakeIO] = {}
        self.roles: dict[str, Role] = {}
        self.shutdowns: list[bool] = []
        self.shutdown_requested = threading.Event()
        self.context = ShimContext(
            namespace="test", id=id, bundle=bundle, address="unix:///nowhere", options_type="", options=b"",
            is_sandbox=is_sandbox, debug=False, publisher=self.publisher,  # type: ignore[arg-type]
            log=Log(NullChannel()), pid=4242, on_shutdown=self._on_shutdown,
        )  # fmt: skip
        self.pod = Pod(self.context)
        methods = _Service(self).methods()
        self.server = Server({TASK_V2: methods})
        self.clients: list[Client] = []
        super().__init__(self.dial(), id, bundle)

    def dial(self) -> Client:
        ours, theirs = socket.socketpair()
        self.server.attach(ours)
        client = Client(theirs)
        self.clients.append(client)
        return client

    def close(self) -> None:
        for client in self.clients:
            client.close()
        self.server.shutdown(5)

    def _on_shutdown(self, now: bool) -> None:
        self.shutdowns.append(now)
        self.shutdown_requested.set()

    def create_task(self, request: api.CreateTaskRequest) -> Task:
        """As `shim.task.create.create_task`, with a fake container."""
        with self.pod.reserve(request.id):
            task = self._new_task(request)
            self.pod.add(task)
            task.publish_created(request)
            task.watch_container()
            return task

    def _new_task(self, request: api.CreateTaskRequest) -> Task:
        self.pod.check(request.id, self.roles.get(request.id, Role("", "")))
        container = self.containers.setdefault(request.id, FakeContainer())
        io = FakeIO(request.stdin, request.stdout, request.stderr, request.terminal)
        self.ios[request.id] = io
        task_events = TaskEvents(self.publisher, request.id)  # type: ignore[arg-type]
        return Task(request.id, request.bundle, container, {"init": True}, io, task_events, self.context.log)

    def add_exec(self, exec_id: str, id: str = "c1", *, terminal: bool = False) -> FakeIO:
        """What Exec does once the request has been decoded."""
        task = self.pod.task(id)
        io = FakeIO(terminal=terminal)
        task.check_exec(exec_id)
        task.add_exec(exec_id, io, {"exec": exec_id})
        return io

    def run(self, id: str = "c1") -> FakeProcess:
        self.create(id)
        self.start(id=id)
        return self.containers[id].processes[0]

    def run_exec(self, exec_id: str, id: str = "c1") -> FakeProcess:
        self.add_exec(exec_id, id)
        self.start(exec_id, id)
        return self.containers[id].processes[-1]


class _Service(TaskService):
    """Its Create makes tasks with fake containers; everything else is real."""

    def __init__(self, harness: Harness) -> None:
        super().__init__(harness.pod, harness.context)
        self._harness = harness

    def create(self, call: Call) -> bytes:
        task = self._harness.create_task(api.CreateTaskRequest.decode(call.payload))
        return api.CreateTaskResponse(pid=task.init.pid).encode()


def refused(code: int, call: Callable[..., Any], *args: Any, **kwargs: Any) -> str:
    """Expect the call to fail with this status; returns the message."""
    with pytest.raises(StatusError) as caught:
        call(*args, **kwargs)
    assert caught.value.code == code, caught.value
    return caught.value.message

"""The events of one task: builds the messages and publishes them under their topics.

The publisher keeps the order of the calls and never fails. The task publishes in the order that the protocol requires:
create, start, exit, delete for a task; exec-added, exec-started, exit, delete for an exec; the exits of all execs
before the exit of the task.
"""

from __future__ import annotations

from shim.api import events

TYPE_CHECKING = False
if TYPE_CHECKING:
    from shim.api.task import CreateTaskRequest
    from shim.task.events.publisher import Event, Publisher
    from shim.task.process import Process


class TaskEvents:
    __slots__ = ("_id", "_publish")

    def __init__(self, publisher: Publisher, task_id: str) -> None:
        self._publish = publisher.publish
        self._id = task_id

    def publish_created(self, request: CreateTaskRequest) -> None:
        io = events.TaskIO(stdin=request.stdin, stdout=request.stdout, stderr=request.stderr, terminal=request.terminal)
        event = events.TaskCreate(
            container_id=self._id, bundle=request.bundle, rootfs=request.rootfs, io=io, checkpoint=request.checkpoint
        )
        self._publish("/tasks/create", event)

    def publish_started(self, process: Process) -> None:
        if process.is_init:
            self._publish("/tasks/start", events.TaskStart(container_id=self._id, pid=process.pid))
        else:
            started = events.TaskExecStarted(container_id=self._id, exec_id=process.exec_id, pid=process.pid)
            self._publish("/tasks/exec-started", started)

    def publish_exec_added(self, exec_id: str) -> None:
        self._publish("/tasks/exec-added", events.TaskExecAdded(container_id=self._id, exec_id=exec_id))

    def publish_exited(self, process: Process) -> None:
        event = events.TaskExit(
            container_id=self._id,
            id=process.exec_id,
            pid=process.pid,
            exit_status=process.exit_status,
            exited_at=process.exited_at,
        )
        self._publish("/tasks/exit", event)

    def publish_deleted(self, process: Process) -> None:
        event = events.TaskDelete(
            container_id=self._id,
            pid=process.pid,
            exit_status=process.exit_status,
            exited_at=process.exited_at,
            id="" if process.is_init else process.exec_id,
        )
        self._publish("/tasks/delete", event)

    def publish_paused(self) -> None:
        self._publish("/tasks/paused", events.TaskPaused(container_id=self._id))

    def publish_resumed(self) -> None:
        self._publish("/tasks/resumed", events.TaskResumed(container_id=self._id))

    def publish_oom(self) -> None:
        self._publish("/tasks/oom", events.TaskOOM(container_id=self._id))


class UnpublishedEvents(TaskEvents):
    """For a task that containerd knows nothing about."""

    __slots__ = ()

    def __init__(self) -> None:
        self._publish = _drop
        self._id = ""


def _drop(topic: str, event: Event) -> None:
    pass

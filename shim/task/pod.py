"""The tasks of one shim and the rules between them.

A shim serves either one standalone container, or a pod: its sandbox, created first, and the workload containers that
join it while the sandbox runs. The spec's annotations say which one a Create is for, and have to agree with
how the shim was started and with the tasks that exist. `shim.task.create` creates the containers: it reserves an id
here, creates, and adds the finished task.

A standalone task and a sandbox stay in the pod after their Delete, until Shutdown, so that a repeated Delete gets the
same answer; a deleted workload is removed, since its pod may run for years.
"""

from __future__ import annotations

import time
from _thread import allocate_lock

from shim.task.errors import already_exists, failed_precondition, not_found
from shim.threads import run_parallel, run_soon
from shim.ttrpc import status
from shim.ttrpc.status import StatusError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from shim.task.context import ShimContext
    from shim.task.process import Process
    from shim.task.task import Task
    from shim.uvm.vm import Vm

# How long a shim that shuts down waits for the teardown of running containers. The ledger lists what is left then.
STOP_TIMEOUT = 10.0


class Role:
    """The role of a container in its pod, from its annotations."""

    __slots__ = ("container_type", "sandbox_id")

    def __init__(self, container_type: str, sandbox_id: str) -> None:
        self.container_type = container_type
        self.sandbox_id = sandbox_id


class Reservation:
    """A task id that a Create has taken, until its `with` block ends."""

    __slots__ = ("_id", "_pod")

    def __init__(self, pod: Pod, id: str) -> None:
        self._pod = pod
        self._id = id

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        self._pod.end_reservation(self._id)


class Pod:
    def __init__(self, context: ShimContext) -> None:
        self._context = context
        self._lock = allocate_lock()
        self._tasks: dict[str, Task] = {}
        self._creating: set[str] = set()

    # Lookup.

    def task(self, id: str) -> Task:
        task = self._tasks.get(id)
        if task is None:
            raise not_found(f"task with id: '{id}' not found")
        return task

    def tasks(self) -> list[Task]:
        """All tasks."""
        with self._lock:
            return list(self._tasks.values())

    def creating(self) -> list[str]:
        """The ids of tasks whose Create is under way."""
        with self._lock:
            return sorted(self._creating)

    def process(self, id: str, exec_id: str) -> Process:
        return self.task(id).process(exec_id)

    @property
    def sandbox(self) -> Task | None:
        """The pod's sandbox, if this is a pod and its sandbox has been created."""
        return self._tasks.get(self._context.id) if self._context.is_sandbox else None

    @property
    def vm(self) -> Vm | None:
        """The utility VM of this pod, if it has one."""
        sandbox = self._tasks.get(self._context.id)
        return sandbox.vm if sandbox is not None else None

    def task_pid(self, id: str) -> int:
        """The `task_pid` of Connect: the init's, 0 before the start.

        Microsoft's shim returns its own pid. But containerd's client refuses to delete a created task that has a pid,
        and requires a kill first; with 0, `ctr task delete` works on it.
        """
        task = self._tasks.get(id)
        return task.init.pid if task is not None else 0

    # Create.

    def reserve(self, id: str) -> Reservation:
        """`with pod.reserve(id):` for the time of a Create. Refuses an id that is in use or being created, and a second
        task in a shim that is no pod."""
        with self._lock:
            if id in self._tasks or id in self._creating:
                raise already_exists(f"task with id: '{id}' already exists")
            if not self._context.is_sandbox and (self._tasks or self._creating):
                own = self._context.id
                raise already_exists(f"task with id: '{own}' already exists, and this shim serves it alone")
            self._creating.add(id)
        return Reservation(self, id)

    def reserve_sandbox(self) -> Reservation:
        """The same for CreateSandbox."""
        own = self._context.id
        with self._lock:
            if own in self._tasks or own in self._creating:
                raise already_exists(f"sandbox with id: '{own}' already exists")
            self._creating.add(own)
        return Reservation(self, own)

    def end_reservation(self, id: str) -> None:
        with self._lock:
            self._creating.discard(id)

    def add(self, task: Task) -> None:
        """From now on the task can be found."""
        with self._lock:
            self._tasks[task.id] = task

    def check(self, id: str, role: Role) -> None:
        """Refuse a container whose annotations do not fit this shim, before anything is created for it."""
        from shim.oci.annotations.container import CONTAINER_TYPE, SANDBOX_ID  # loaded already, with the spec

        kind, sandbox_id = role.container_type, role.sandbox_id
        if not self._context.is_sandbox:
            if kind:
                raise failed_precondition(
                    f"cannot create standalone task, expected no annotation: '{CONTAINER_TYPE}': got '{kind}'"
                )
            return
        pod = self._context.id
        expected = "container" if self._tasks or id != pod else "sandbox"
        if expected == "container":
            from shim.api.types import Status

            sandbox = self._tasks.get(pod)
            if sandbox is None or sandbox.init.status != Status.RUNNING:
                raise failed_precondition(
                    f"task with id: '{id}' cannot be created in pod: '{pod}' which is not running"
                )
        if kind != expected:
            raise failed_precondition(f"expected annotation: '{CONTAINER_TYPE}': '{expected}' got '{kind}'")
        if sandbox_id != pod:
            raise failed_precondition(f"expected annotation '{SANDBOX_ID}': '{pod}' got '{sandbox_id}'")

    # Kill, delete, shutdown.

    def kill(self, id: str, exec_id: str, signal: int, all_processes: bool) -> None:
        task = self.task(id)
        if all_processes and not exec_id and self._is_sandbox(id):
            self._kill_workloads(signal)
        task.kill(exec_id, signal, all_processes)

    def _kill_workloads(self, signal: int) -> None:
        """In parallel: one that hangs must not delay the others."""
        with self._lock:
            workloads = [task for task in self._tasks.values() if task.id != self._context.id]

        def kill(task: Task) -> Callable[[], None]:
            return lambda: self._kill_workload(task, signal)

        run_parallel([kill(task) for task in workloads], STOP_TIMEOUT)

    def _kill_workload(self, task: Task, signal: int) -> None:
        try:
            task.kill("", signal, True)
        except Exception as error:
            if not (isinstance(error, StatusError) and error.code == status.NOT_FOUND):
                self._context.log.warning("failed to signal workload of the pod", tid=task.id, error=error)

    def delete(self, id: str, exec_id: str) -> Process:
        from shim.api.types import Status

        task = self.task(id)
        if self._is_sandbox(id) and task.process(exec_id) is task.init and task.init.status == Status.STOPPED:
            self._stop_workloads()
        if id == self._context.id:
            return task.delete(exec_id)
        try:
            return task.delete(exec_id, once=True)
        finally:
            with self._lock:
                # Not another task, which has been created with this id since.
                if task.deleted and self._tasks.get(id) is task:
                    del self._tasks[id]

    def _is_sandbox(self, id: str) -> bool:
        return self._context.is_sandbox and id == self._context.id

    @property
    def workloads(self) -> list[str]:
        with self._lock:
            return [task for task in self._tasks if not self._is_sandbox(task)]

    def stop_sandbox(self) -> None:
        """Stop the workloads, then request the stop of the sandbox itself."""
        self._stop_workloads()
        self.task(self._context.id).request_stop()

    def _stop_workloads(self) -> None:
        with self._lock:
            workloads = [task for task in self._tasks.values() if not self._is_sandbox(task.id)]
        self._stop_tasks([task for task in workloads if not task.init.done.is_set])

    def _stop_tasks(self, tasks: list[Task]) -> None:
        for task in tasks:
            # Each in a thread: one whose start hangs cannot be stopped, and must not delay the others.
            run_soon(task.request_stop)
        deadline = time.monotonic() + STOP_TIMEOUT
        for task in tasks:
            task.init.done.wait(max(0.0, deadline - time.monotonic()))

    def shutdown_stops_shim(self, id: str) -> bool:
        """Whether Shutdown of this id stops the shim: its own id always does, another id only when all tasks are
        deleted. A sandbox of the Sandbox service outlives all tasks."""
        if self._context.sandbox_api:
            return False
        if id == self._context.id:
            return True
        with self._lock:
            return bool(self._tasks) and not self._creating and all(task.deleted for task in self._tasks.values())

    @property
    def is_released(self) -> bool:
        """No task holds resources any more."""
        with self._lock:
            return not self._creating and all(task.init.done.is_set for task in self._tasks.values())

    def stop_all(self) -> None:
        """Before the shim exits: stop the running tasks and wait, bounded, until their resources are released."""
        self._stop_tasks(self.tasks())

"""Stats: queried from HCS while the container runs, cached after that.

The task keeps the last result, and queries once more when the init exits, so that a client that reads the stats right
after the exit still gets them. Delete drops them.
"""

from __future__ import annotations

from shim.api.types import Status
from shim.platform.client_quirks import needs_cgroup_metrics
from shim.task.errors import has_no_stats, not_found
from shim.task.stats.messages import cgroup_metrics, statistics, windows_statistics
from shim.task.stats.pids import must_exist
from shim.task.stats.vm_messages import vm_as_container, vm_statistics

LAST_STATS_TIMEOUT = 1.0

TYPE_CHECKING = False
if TYPE_CHECKING:
    from shim.api.wellknown import Any
    from shim.task.interfaces import Document
    from shim.task.task import Task


def stats(task: Task) -> Any:
    """Never an empty response: under CRI one such response fails the listing of all containers."""
    must_exist(task)
    # A task that is exiting is about to sample its last stats; while its output drains, there may be newer ones.
    if task.init.started and not (task.init.stopped.is_set and task.stats_final.wait(LAST_STATS_TIMEOUT)):
        try:
            task.refresh_stats()
        except Exception as error:
            if not has_no_stats(error):
                raise
    document, of_vm = task.last_stats
    if document is None and of_vm is None:
        raise not_found(f"failed to fetch stats: task '{task.id}' is {task.init.state_name} and has no stats")
    backed = task.vm is not None and task.vm.settings.physically_backed
    if document is not None and task.container.is_linux:
        return _linux_stats(task, document, of_vm, backed)
    if needs_cgroup_metrics(under_cri=task.is_pod_member):
        running = sum(process.status == Status.RUNNING for process in task.processes())
        if document is None:
            document = vm_as_container(of_vm or {}, backed)
        processes = max(running, len(task.last_processes)) if running else 0
        return cgroup_metrics(document, processes, task.memory_limit)
    vm = vm_statistics(of_vm, backed) if of_vm else None
    return statistics(windows_statistics(document) if document else None, vm)


def _linux_stats(task: Task, document: Document, of_vm: Document | None, backed: bool) -> Any:
    from shim.api.packing import pack
    from shim.task.stats.linux_messages import metrics

    found = metrics(document)
    if needs_cgroup_metrics(under_cri=task.is_pod_member):
        return pack(found)
    return statistics(None, vm_statistics(of_vm, backed) if of_vm else None, found)


def no_stats() -> Any:
    """For a sandbox without a container: clients need at least the type."""
    return cgroup_metrics({}, 0) if needs_cgroup_metrics(under_cri=True) else statistics(None)

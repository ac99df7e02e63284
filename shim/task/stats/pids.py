"""Pids: HCS's process list, with the exec ids of the processes.

When containerd restarts, it takes a shim whose list is empty for a leaked one and removes it with its task. So as long
as the task has not been deleted, its init is in the list, whether it runs, has not been started, or has exited.
"""

from __future__ import annotations

from shim.api import runhcs_options
from shim.api.packing import pack
from shim.api.types import ProcessInfo, Status
from shim.platform.client_quirks import accepts_runhcs_process_details
from shim.task.errors import has_no_stats, not_found
from shim.task.process import ZERO_TIME
from shim.task.stats.hcs_time import timestamp

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from shim.task.interfaces import Document
    from shim.task.process import Process
    from shim.task.task import Task


def pids(task: Task) -> list[ProcessInfo]:
    must_exist(task)
    listed: list[Document] = []
    if task.init.status in (Status.RUNNING, Status.PAUSED):
        try:
            listed = task.refresh_processes()
        except Exception as error:
            if not has_no_stats(error):
                raise
    elif task.init.started:
        # Only the init is reported after its exit.
        listed = [entry for entry in task.last_processes if entry.get("ProcessId") == task.init.pid]
    return process_infos(listed, task.processes(), runhcs_details=accepts_runhcs_process_details())


def must_exist(task: Task) -> None:
    if task.deleted:
        raise not_found(f"task with id: '{task.id}' not found, it has been deleted")


def process_infos(
    listed: Sequence[Document], processes: Sequence[Process], *, runhcs_details: bool
) -> list[ProcessInfo]:
    """`processes` are the init, first, and the execs. Without `runhcs_details` the details are exec ids only, in runc's
    type: `ctr task ps` on Linux fails on types it does not know."""
    names = {process.pid: process.exec_id for process in processes if process.started}
    entries = list(listed)
    init = processes[0]
    if not any(entry.get("ProcessId") == init.pid for entry in entries):
        entries.insert(0, {"ProcessId": init.pid})
        names[init.pid] = init.exec_id
    details = _runhcs_info if runhcs_details else _runc_info
    return [details(entry, names.get(entry.get("ProcessId", 0), "")) for entry in entries]


def _runhcs_info(entry: Document, exec_id: str) -> ProcessInfo:
    pid = entry.get("ProcessId", 0)
    details = runhcs_options.ProcessDetails(
        image_name=entry.get("ImageName", ""),
        # As Microsoft's shim sends it if there is none: Linux guests report no times.
        created_at=timestamp(entry.get("CreateTimestamp", "")) or ZERO_TIME,
        kernel_time_100_ns=entry.get("KernelTime100ns", 0),
        memory_commit_bytes=entry.get("MemoryCommitBytes", 0),
        memory_working_set_private_bytes=entry.get("MemoryWorkingSetPrivateBytes", 0),
        memory_working_set_shared_bytes=entry.get("MemoryWorkingSetSharedBytes", 0),
        process_id=pid,
        user_time_100_ns=entry.get("UserTime100ns", 0),
        exec_id=exec_id,
    )
    return ProcessInfo(pid=pid, info=pack(details))


def _runc_info(entry: Document, exec_id: str) -> ProcessInfo:
    from shim.api.runc_options import ProcessDetails

    info = pack(ProcessDetails(exec_id=exec_id)) if exec_id else None
    return ProcessInfo(pid=entry.get("ProcessId", 0), info=info)

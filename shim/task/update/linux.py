"""Update of a Linux container in the VM of its pod: its guest changes the limits of the container's cgroup."""

from __future__ import annotations

from shim.task.errors import unknown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from shim.task.task import Task


def apply(task: Task, kind: str, resources: dict[str, Any], timeout: float) -> None:
    if kind not in ("WindowsResources", "LinuxResources", "ContainerMount"):
        raise unknown(f"update resources must be of type *WindowsResources or *LinuxResources, not {kind!r}")
    if kind != "LinuxResources":
        raise unknown(
            "must have resources be non-nil and type *LinuxResources when updating a lcow container: these are "
            f"{kind}; limits of Windows apply to the VM, by its pod's sandbox"
        )
    if task.init.stopped.is_set:
        raise unknown(f"task {task.id!r} is {task.init.state_name}, and its resources cannot be changed")
    settings = {"Windows": {}, "Linux": resources}
    request = {"ResourceType": "ContainerConstraints", "RequestType": "Update", "Settings": settings}
    task.container.system.modify(request, timeout=timeout)

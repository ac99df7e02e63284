"""Update of a task with its own VM: a pod's sandbox, or a standalone container. It changes the VM.

Memory is assigned in steps of 2 MB. The limit and the weight of the processors can be changed, not their number. The
request's annotations may move the VM to another CPU group.
"""

from __future__ import annotations

from shim.oci.annotations.container import Annotations
from shim.oci.annotations.vm import CPU_GROUP
from shim.task.errors import unimplemented, unknown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from shim.task.interfaces import Document

MEMORY = "VirtualMachine/ComputeTopology/Memory/SizeInMB"
PROCESSOR = "VirtualMachine/ComputeTopology/Processor/Limits"
GROUP = "VirtualMachine/ComputeTopology/Processor/CpuGroup"
NO_GROUP = "00000000-0000-0000-0000-000000000000"
_MIB = 1 << 20
# The unit of a VM's limit is 1/1000 % of its processors; weights are as for containers.
_MAX_LIMIT = 100_000
_MAX_WEIGHT = 10_000


def modify_requests(kind: str, resources: dict[str, Any], annotations: Mapping[str, str]) -> list[Document]:
    """The modify requests for resources of this type (`WindowsResources`, `LinuxResources`)."""
    if kind == "ContainerMount":
        raise unknown("invalid resource: a mount cannot be given to a VM; name memory and cpu")
    if kind not in ("WindowsResources", "LinuxResources"):
        raise unknown(f"update resources must be of type *WindowsResources or *LinuxResources, not {kind!r}")
    if (resources.get("cpu") or {}).get("affinity"):
        raise unimplemented("a utility VM has no processor affinity; use a CPU group (annotation) instead")
    if _number(resources, "cpu", "count"):
        raise unimplemented("the number of processors of a running VM cannot be changed: use cpu.maximum or cpu.shares")
    requests = []
    limit = _number(resources, "memory", "limit")
    if limit:
        megabytes = max(2, limit // _MIB)
        requests.append(_update(MEMORY, megabytes + megabytes % 2))
    maximum = _number(resources, "cpu", "maximum" if kind == "WindowsResources" else "quota")
    weight = _number(resources, "cpu", "shares")
    for name, value, most in (("limit", maximum, _MAX_LIMIT), ("weight", weight, _MAX_WEIGHT)):
        if value > most:
            raise unknown(f"a processor {name} of {value} is above {most}, the most a VM can have")
    limits = {name: value for name, value in (("Limit", maximum), ("Weight", weight)) if value}
    if limits:
        requests.append(_update(PROCESSOR, limits))
    if group := Annotations(dict(annotations)).guid(CPU_GROUP):
        if group != NO_GROUP:
            # A VM must leave its group before it can join another.
            requests.append(_update(GROUP, {"Id": NO_GROUP}))
        requests.append(_update(GROUP, {"Id": group}))
    return requests


def _number(resources: dict[str, Any], part: str, name: str) -> int:
    section = resources.get(part) or {}
    value = section.get(name) or 0 if isinstance(section, dict) else None
    if not isinstance(value, int) or isinstance(value, bool):
        raise unknown(f"{part}.{name} of the resources is not a number")
    return max(value, 0)


def _update(path: str, settings: object) -> Document:
    return {"ResourcePath": path, "RequestType": "Update", "Settings": settings}

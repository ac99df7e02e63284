"""Update: new resource limits, or a new mount, for a running container.

The request holds JSON in an Any: the OCI resources of Windows or Linux, or Microsoft's own `ContainerMount`. Each
becomes one or more modify requests to HCS. As in Microsoft's shim they are sent one by one, so a request for memory and
processor may be applied in part; the error says which part failed.
"""

from __future__ import annotations

from shim.api.packing import type_name
from shim.lean_json import loads
from shim.platform import host
from shim.task.errors import invalid_argument, is_not_supported, unimplemented, unknown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from shim.api.task import UpdateTaskRequest
    from shim.task.interfaces import Document
    from shim.task.task import Task

MEMORY = "Container/Memory/SizeInMB"
PROCESSOR = "Container/Processor"
VM_MEMORY = "VirtualMachine/ComputeTopology/Memory/SizeInMB"
MOUNTS = "Container/MappedDirectories"
MODIFY_TIMEOUT = 30.0
# 20H2. HCS of older builds does not change processor limits.
FIRST_BUILD_WITH_LIMITS = 19042
_MIB = 1 << 20
# HCS's unit of a processor limit is 1/100 % of the host; weights are 1 to 10000.
_WHOLE_HOST = 10_000
# Sources that refer to a utility VM, or are not directories.
_NOT_MOUNTABLE = ("sandbox://", "sandbox-tmp://", "hugepages://", "uvm://", "\\\\.\\pipe\\")


def require_resources(request: UpdateTaskRequest) -> None:
    if request.resources is None:
        raise invalid_argument(f"resources cannot be empty, updating container {request.id} resources failed")


def apply(task: Task, request: UpdateTaskRequest) -> None:
    require_resources(request)
    assert request.resources is not None
    kind, value = type_name(request.resources), request.resources.value
    if task.vm is not None:
        from shim.task.update import vm

        documents = iter(vm.modify_requests(kind, _parse(value), request.annotations))
        modify = task.vm.modify
    elif task.container.is_linux:
        from shim.task.update import linux

        linux.apply(task, kind, _parse(value), MODIFY_TIMEOUT)
        return
    else:
        documents = modify_requests(kind, value, host.processors(), task.id, in_vm=task.container.in_vm)
        modify = task.container.system.modify
    for document in documents:
        path = document["ResourcePath"]
        if path in LIMITS:
            _require_limits(path)
        if task.init.stopped.is_set:
            raise unknown(
                f"hcs::System::Modify {task.id}: hcsshim: the handle has already been closed: the task is "
                f"{task.init.state_name}, and its resources cannot be changed"
            )
        try:
            modify(document, timeout=MODIFY_TIMEOUT)
        except Exception as error:
            if is_not_supported(error):
                raise unimplemented(f"HCS does not change {path} here ({error})") from error
            if path == MOUNTS:
                where = "hyperV" if task.container.in_vm else "process isolated"
                raise unknown(f"failed to add mount to {where} container: {error}") from error
            raise
        if task.vm is not None and path == VM_MEMORY:
            task.vm.guest.memory_changed()
        if path == MEMORY:
            task.memory_limit = document["Settings"] * _MIB
    if task.vm is None and kind == "WindowsResources" and _part(_parse(value), "cpu").get("affinity"):
        _set_affinity(task, _part(_parse(value), "cpu"))


LIMITS = (PROCESSOR, "VirtualMachine/ComputeTopology/Processor/Limits")


def _require_limits(path: str) -> None:
    from shim.hcs_bindings.windows_version import windows_build

    if (build := windows_build()) < FIRST_BUILD_WITH_LIMITS:
        raise unimplemented(f"{path} can be changed from Windows build {FIRST_BUILD_WITH_LIMITS} on; this is {build}")


def _set_affinity(task: Task, cpu: dict[str, Any]) -> None:
    """HCS has no affinity: it is set on the job object, which only a container on the host has."""
    from shim.container import affinity
    from shim.oci.section import Section

    _require_limits("processor affinity")
    task.container.set_affinity(affinity.parse(Section(cpu, "cpu")))


def modify_requests(
    kind: str, value: bytes, processors: int, id: str = "", *, in_vm: bool = False
) -> Iterator[Document]:
    """The modify requests for resources of this type; `processors` is the number of the host's. An error in the second
    part is raised after the first was sent."""
    resources = _parse(value)
    if kind == "ContainerMount":
        yield _mount(resources, in_vm)
        return
    if kind not in ("WindowsResources", "LinuxResources"):
        raise unknown(f"update resources must be of type *WindowsResources or *LinuxResources, not {kind!r}")
    limit = _number(_part(resources, "memory"), "limit")
    if limit > 0:
        megabytes = max(2, limit // _MIB)  # 0 means no limit
        yield _update(MEMORY, megabytes + megabytes % 2)
    cpu = _part(resources, "cpu")
    if kind == "LinuxResources":
        settings = _linux_processor(cpu, processors)
    else:
        settings = _windows_processor(cpu, processors, id) if resources.get("cpu") is not None else None
    if settings is not None:
        yield _update(PROCESSOR, settings)


def _parse(value: bytes) -> dict[str, Any]:
    try:
        resources = loads(value)
    except ValueError as error:
        raise unknown(f"failed to unmarshal resources: they are not JSON ({error})") from error
    if not isinstance(resources, dict):
        raise unknown("failed to unmarshal resources: they are not a JSON object")
    return resources


def _windows_processor(cpu: dict[str, Any], processors: int, id: str) -> Document | None:
    """One of count, maximum and shares; affinity may come with it, or alone."""
    given = {name: _number(cpu, name) for name in ("count", "maximum", "shares") if cpu.get(name) is not None}
    if len(given) > 1 or not (given or cpu.get("affinity")):
        raise unknown(
            f"invalid cpu resources request for container {id}: it has {' and '.join(given) or 'nothing'}; give one of "
            "count, maximum and shares"
        )
    if "count" in given:
        return {"Count": min(given["count"], processors)}
    if "maximum" in given:
        return {"Maximum": given["maximum"]}
    return {"Weight": given["shares"]} if given else None


def _linux_processor(cpu: dict[str, Any], processors: int) -> Document | None:
    """CRI always gives shares with a quota. HCS accepts one of them; the quota is the limit."""
    quota, period, shares = (_number(cpu, name) for name in ("quota", "period", "shares"))
    if quota > 0:
        rate = _WHOLE_HOST * quota // ((period or 100_000) * processors)
        return {"Maximum": max(1, min(rate, _WHOLE_HOST))}
    return {"Weight": max(1, min(shares, _WHOLE_HOST))} if shares else None


def _mount(mount: dict[str, Any], in_vm: bool) -> Document:
    source, target = mount.get("HostPath") or "", mount.get("ContainerPath") or ""
    if not source or not target:
        raise unknown("invalid OCI spec - a mount must have both host and container path set")
    kind = mount.get("Type") or ""
    if kind or source.lower().startswith(_NOT_MOUNTABLE):
        raise unknown(
            f"invalid mount type {kind}. Currently only host volumes/directories can be mounted to running containers, "
            f"and not {source!r}"
        )
    if in_vm:  # a VSMB share accepts links in the path, HCS itself does not
        if not host.exists(source):
            raise unknown(f"failed to add mount as vSMB share to UVM: {source} does not exist; create it")
    else:
        try:
            source = host.final_path(source)
        except OSError as error:
            raise unknown(f"failed to resolve path for hostPath {source}: {error.strerror}; create it") from None
    settings: Document = {"HostPath": source, "ContainerPath": target}
    if mount.get("ReadOnly"):
        settings["ReadOnly"] = True
    return {"ResourcePath": MOUNTS, "RequestType": "Add", "Settings": settings}


def _update(path: str, settings: object) -> Document:
    return {"ResourcePath": path, "RequestType": "Update", "Settings": settings}


def _part(resources: dict[str, Any], name: str) -> dict[str, Any]:
    part = resources.get(name) or {}
    if not isinstance(part, dict):
        raise unknown(f"failed to unmarshal resources: {name} is not a JSON object")
    return part


def _number(part: dict[str, Any], name: str) -> int:
    value = part.get(name) or 0
    if not isinstance(value, int):
        raise unknown(f"failed to unmarshal resources: {name} is not a number")
    return value

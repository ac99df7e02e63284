"""computecore.dll: the service itself and files of VMs; ntdll.dll: the Windows build, job objects of containers."""

from __future__ import annotations

import json
import os
import struct

from hcs_emulator.service.compute_system.container import Container
from hcs_emulator.service.errors import (
    ERROR_FILE_NOT_FOUND,
    HCS_E_INVALID_JSON,
    STATUS_INVALID_PARAMETER,
    STATUS_NOT_IMPLEMENTED,
    STATUS_OBJECT_NAME_NOT_FOUND,
    HcsError,
)
from hcs_emulator.service.exports.registry import Call, export
from hcs_emulator.service.storage.layers import absolute
from hcs_emulator.service.transport.wire import Reply

JOB = "\\Container_"
GROUP_INFORMATION_EX = 14
GROUP_AFFINITY = struct.Struct("<QH6x")
DRIVE = "\\\\.\\physicaldrive"


@export("HcsGetServiceProperties")
async def service_properties(call: Call) -> Reply:
    return Reply(document=json.dumps(call.host.service.query(call.document("propertyQuery"))))


@export("HcsModifyServiceSettings")
async def modify_service(call: Call) -> Reply:
    call.host.service.modify(call.document("settings"))
    return Reply()


@export("HcsSubmitWerReport")
async def submit_report(call: Call) -> Reply:
    if call.document("settings") is None:
        raise HcsError(HCS_E_INVALID_JSON, "[HcsSubmitWerReport] no report", data="$")
    return Reply()


def _path(call: Call, argument: str = "filePath") -> str:
    given = call.text(argument) or ""
    return call.host.disk("PassThru", given) if given.lower().startswith(DRIVE) else absolute(given)


def _file(call: Call, argument: str = "filePath") -> str:
    path = _path(call, argument)
    if not os.path.exists(path):
        raise HcsError(ERROR_FILE_NOT_FOUND, f"[{call.name}] {path} does not exist", data=path)
    return path


@export("HcsGrantVmAccess", "GrantVmAccess")
async def grant(call: Call) -> Reply:
    call.host.vm_access.grant(call.required("vmId"), _file(call))
    return Reply()


@export("HcsRevokeVmAccess")
async def revoke(call: Call) -> Reply:
    call.host.vm_access.revoke(call.required("vmId"), _path(call))
    return Reply()


@export("HcsGrantVmGroupAccess", since=19041)
async def grant_group(call: Call) -> Reply:
    call.host.vm_access.grant(call.host.vm_access.EVERY_VM, _file(call))
    return Reply()


@export("HcsRevokeVmGroupAccess", since=19041)
async def revoke_group(call: Call) -> Reply:
    call.host.vm_access.revoke(call.host.vm_access.EVERY_VM, _path(call))
    return Reply()


@export("HcsCreateEmptyGuestStateFile")
async def guest_state(call: Call) -> Reply:
    return _state_file(call, "guestStateFilePath")


@export("HcsCreateEmptyRuntimeStateFile")
async def runtime_state(call: Call) -> Reply:
    return _state_file(call, "runtimeStateFilePath")


def _state_file(call: Call, argument: str) -> Reply:
    path = absolute(call.text(argument))
    try:
        with open(path, "w"):
            pass
    except OSError as error:
        raise HcsError(ERROR_FILE_NOT_FOUND, f"[{call.name}] {path}: {error.strerror}", data=path) from error
    return Reply()


@export("HcsGetProcessorCompatibilityFromSavedState", since=20348)
async def compatibility(call: Call) -> Reply:
    _file(call, "runtimeFileName")
    return Reply(document=json.dumps({"ProcessorFeatures": []}))


def _job(call: Call) -> Container:
    """The container of a job object, by HCS's name for it: `\\Container_<id>`."""
    name = call.required("name")
    system = call.host.systems.get(name.removeprefix(JOB)) if name.startswith(JOB) else None
    if not isinstance(system, Container):
        raise HcsError(STATUS_OBJECT_NAME_NOT_FOUND, f"[{call.name}] there is no job {name}", data=name)
    return system


@export("NtOpenJobObject")
async def open_job(call: Call) -> Reply:
    _job(call)
    return Reply()


@export("NtSetInformationJobObject")
async def set_job_information(call: Call) -> Reply:
    container = _job(call)
    data = bytes.fromhex(call.required("information"))
    if call.number != GROUP_INFORMATION_EX or not data or len(data) % GROUP_AFFINITY.size:
        raise HcsError(STATUS_NOT_IMPLEMENTED, f"[{call.name}] class {call.number} is not supported by the emulator")
    groups = {group: mask for mask, group in GROUP_AFFINITY.iter_unpack(data)}
    processors = {index for index in range(64) if groups.get(0, 0) >> index & 1}
    if set(groups) != {0} or not processors or processors - set(range(os.cpu_count() or 1)):
        raise HcsError(STATUS_INVALID_PARAMETER, f"[{call.name}] the host has no such processors", data=str(groups))
    container.set_affinity(processors)
    return Reply()


@export("RtlGetVersion")
async def get_version(call: Call) -> Reply:
    return Reply(pid=call.host.build)

"""The requests of the bridge and the documents in them: their shapes. A Windows guest is as strict as HCS."""

from __future__ import annotations

from typing import Any

from hcs_emulator.service.schema.common import VERSION
from hcs_emulator.service.schema.container import CONTAINER
from hcs_emulator.service.schema.shapes import Anything, Bool, Enum, Int, ListOf, Record, Shape, Str, check
from hcs_emulator.service.schema.system import check_version
from hcs_emulator.vm import bridge_frames

UINT32 = Int(0, 2**32 - 1)
# The caller's span: ocsc in shims up to hcsshim 0.15.0-rc.3, otsc since.
_BASE: dict[str, Shape] = {"ContainerId": Str(), "ActivityId": Str(), "ocsc": Anything(), "otsc": Anything()}


def _message(members: dict[str, Shape] | None = None, *required: str) -> Record:
    return Record(_BASE | (members or {}), required=("ContainerId", *required))


_EXECUTE = Record(
    {
        "ProcessParameters": Str(empty=False),
        "StdioRelaySettings": Record({"StdIn": Str(), "StdOut": Str(), "StdErr": Str()}),
        "VsockStdioRelaySettings": Anything(),
    },
    required=("ProcessParameters",),
)

REQUESTS: dict[int, Record] = {
    bridge_frames.NEGOTIATE: _message(
        {"MinimumVersion": UINT32, "MaximumVersion": UINT32}, "MinimumVersion", "MaximumVersion"
    ),
    bridge_frames.CREATE: _message({"ContainerConfig": Str()}, "ContainerConfig"),
    bridge_frames.EXECUTE_PROCESS: _message({"Settings": _EXECUTE}, "Settings"),
    bridge_frames.WAIT_FOR_PROCESS: _message({"ProcessId": UINT32, "TimeoutInMs": UINT32}, "ProcessId"),
    bridge_frames.SIGNAL_PROCESS: _message({"ProcessId": UINT32, "Options": Anything()}, "ProcessId"),
    bridge_frames.RESIZE_CONSOLE: _message(
        {"ProcessId": UINT32, "Height": Int(0, 65535), "Width": Int(0, 65535)}, "ProcessId"
    ),
    bridge_frames.GET_PROPERTIES: _message({"Query": Str()}),
    bridge_frames.MODIFY_SETTINGS: _message({"Request": Anything()}, "Request"),
    bridge_frames.MODIFY_SERVICE_SETTINGS: _message({"PropertyType": Str(), "Settings": Anything()}, "PropertyType"),
}
_PLAIN = _message()

CONTAINER_DOCUMENT = Record({"SchemaVersion": VERSION, "Owner": Str(), "Container": CONTAINER}, required=("Container",))

_DATE = Record(
    {name: Int(0, 65535) for name in ("Year", "Month", "DayOfWeek", "Day", "Hour", "Minute", "Second", "Milliseconds")}
)
HOST_SYSTEM = Record(
    {
        "SystemType": Enum("Container"),
        "TimeZoneInformation": Record(
            {
                "Bias": Int(-(2**31), 2**31 - 1),
                "StandardName": Str(),
                "StandardDate": _DATE,
                "StandardBias": Int(-(2**31), 2**31 - 1),
                "DaylightName": Str(),
                "DaylightDate": _DATE,
                "DaylightBias": Int(-(2**31), 2**31 - 1),
                "TimeZoneKeyName": Str(),
                "DynamicDaylightTimeDisabled": Bool(),
            }
        ),
    },
    required=("SystemType",),
)

QUERY = Record({"PropertyTypes": ListOf(Enum("Statistics", "ProcessList", "SystemGUID", "Memory", "Basic"))})


def check_request(procedure: int, message: Any, build: int) -> None:
    check(REQUESTS.get(procedure, _PLAIN), message, "bridge", build)


def check_host_system(document: Any, build: int) -> None:
    check(HOST_SYSTEM, document, "Create container", build)


def check_container(document: Any, build: int) -> dict[str, Any]:
    """The Container part of the document of a container in the VM."""
    operation = "Create container"
    check(CONTAINER_DOCUMENT, document, operation, build)
    check_version(document, operation, build)
    settings: dict[str, Any] = document["Container"]
    return settings


def check_query(query: Any, build: int) -> list[str]:
    if query is None:
        return []
    check(QUERY, query, "Get properties", build)
    return list(query.get("PropertyTypes", ()))

"""Service-wide settings: CPU groups and credential guard instances."""

from __future__ import annotations

from typing import Any

from hcs_emulator.service.schema.shapes import Anything, Enum, Guid, Int, ListOf, Record, Shape, Str, check

OPERATION = "Modify service settings"

MODIFY_SERVICE = Record(
    {"PropertyType": Enum("CpuGroup", "ContainerCredentialGuard"), "Settings": Anything()},
    required=("PropertyType", "Settings"),
)

_CPU_GROUP: dict[str, Shape] = {
    "CreateGroup": Record(
        {"GroupId": Guid(), "LogicalProcessorCount": Int(0, 2**32 - 1), "LogicalProcessors": ListOf(Int(0, 2**32 - 1))},
        required=("GroupId",),
    ),
    "DeleteGroup": Record({"GroupId": Guid()}, required=("GroupId",)),
    "SetProperty": Record(
        {"GroupId": Guid(), "PropertyCode": Int(0, 2**32 - 1), "PropertyValue": Int(0, 2**64 - 1)},
        required=("GroupId", "PropertyCode", "PropertyValue"),
    ),
}

_CREDENTIAL_GUARD: dict[str, Shape] = {
    "AddInstance": Record(
        {"Id": Str(empty=False), "CredentialSpec": Str(empty=False), "Transport": Enum("LRPC", "HvSocket")},
        required=("Id", "CredentialSpec", "Transport"),
    ),
    "RemoveInstance": Record({"Id": Str(empty=False)}, required=("Id",)),
}

_OPERATIONS = {"CpuGroup": _CPU_GROUP, "ContainerCredentialGuard": _CREDENTIAL_GUARD}


def check_service_modification(document: Any, build: int) -> tuple[str, dict[str, Any]]:
    """The operation's name and its validated details."""
    check(MODIFY_SERVICE, document, OPERATION, build)
    operations = _OPERATIONS[document["PropertyType"]]
    envelope = Record(
        {"Operation": Enum(*operations), "OperationDetails": Anything()}, required=("Operation", "OperationDetails")
    )
    check(envelope, document["Settings"], OPERATION, build, path="$.Settings")
    operation = document["Settings"]["Operation"]
    details = document["Settings"]["OperationDetails"]
    check(operations[operation], details, OPERATION, build, path="$.Settings.OperationDetails")
    return operation, details

"""The `ComputeSystem` document of HcsCreateComputeSystem: a version, an owner, and exactly one kind of system."""

from __future__ import annotations

from typing import Any

from hcs_emulator.service.errors import HCS_E_INVALID_JSON, HcsError
from hcs_emulator.service.schema.common import VERSION, newest_minor
from hcs_emulator.service.schema.container import CONTAINER
from hcs_emulator.service.schema.shapes import Bool, Record, Str, check
from hcs_emulator.service.schema.virtual_machine import VIRTUAL_MACHINE

KINDS = ("Container", "VirtualMachine", "HostedSystem")

HOSTED_SYSTEM = Record({"SchemaVersion": VERSION, "Container": CONTAINER}, required=("SchemaVersion", "Container"))

COMPUTE_SYSTEM = Record(
    {
        "Owner": Str(),
        "SchemaVersion": VERSION,
        "HostingSystemId": Str(empty=False),
        "HostedSystem": HOSTED_SYSTEM,
        "Container": CONTAINER,
        "VirtualMachine": VIRTUAL_MACHINE,
        "ShouldTerminateOnLastHandleClosed": Bool(),
    }
)


def check_version(document: dict[str, Any], operation: str, build: int, path: str = "$") -> None:
    """SchemaVersion must be present and supported by the emulated build (2.0 up to its newest minor version)."""
    version = document.get("SchemaVersion")
    where = f"{path}.SchemaVersion"
    if version is None:
        raise HcsError(
            HCS_E_INVALID_JSON, f"[{operation}] missing member at {where}", data=where, operation="Construct"
        )
    check(VERSION, version, operation, build, path=where)
    if version["Major"] != 2 or version["Minor"] > newest_minor(build):
        asked = f"{version['Major']}.{version['Minor']}"
        supported = f"2.0 to 2.{newest_minor(build)}"
        raise HcsError(
            HCS_E_INVALID_JSON,
            f"[{operation}] schema version {asked} is not supported by build {build} (it takes {supported}) at {where}",
            data=where,
            operation="Construct",
        )


def check_compute_system(document: Any, build: int) -> str:
    """Validate a create document; returns the kind of system that it requests."""
    operation = "Create compute system"
    if not isinstance(document, dict):
        raise HcsError(HCS_E_INVALID_JSON, f"[{operation}] expected an object at $", data="$", operation="Construct")
    check_version(document, operation, build)
    check(COMPUTE_SYSTEM, document, operation, build)
    kinds = [kind for kind in KINDS if kind in document]
    if len(kinds) != 1:
        found = " and ".join(kinds) or "none"
        raise HcsError(
            HCS_E_INVALID_JSON,
            f"[{operation}] exactly one of {', '.join(KINDS)} must be given, found {found} at $",
            data="$",
            operation="Construct",
        )
    hosted = kinds[0] == "HostedSystem"
    if hosted != ("HostingSystemId" in document):
        raise HcsError(
            HCS_E_INVALID_JSON,
            f"[{operation}] HostedSystem and HostingSystemId belong together at $.HostingSystemId",
            data="$.HostingSystemId",
            operation="Construct",
        )
    return kinds[0]

"""Modify requests: which resource paths exist, for which kind of system, for which request, with what settings.

A path is looked up in one table. Numbers and GUIDs in it are captured, so that the code that applies the request does
not parse the path again.
"""

from __future__ import annotations

import re
from typing import Any

import attrs

from hcs_emulator.service.errors import HCS_E_INVALID_JSON, HcsError
from hcs_emulator.service.schema import container, virtual_machine
from hcs_emulator.service.schema.common import HVSOCKET_SERVICE, LTSC2022, MAPPED_DIRECTORY, MAPPED_PIPE
from hcs_emulator.service.schema.shapes import Anything, Bool, Enum, Int, ListOf, Record, Shape, Str, check

OPERATION = "Modify compute system"

REQUEST = Record(
    {
        "ResourcePath": Str(),
        "RequestType": Enum("Add", "Remove", "Update"),
        "Settings": Anything(),
        "GuestRequest": Anything(),
    }
)


@attrs.frozen
class Resource:
    """One row of the table: a request type that is absent here is refused for the resource."""

    name: str
    pattern: re.Pattern[str]
    kind: str
    requests: dict[str, Shape | None]
    since: int = 0


@attrs.frozen
class Modification:
    """A validated request. `name` is the name of its row in the table; `keys` holds what was captured from the path."""

    name: str
    request: str
    settings: Any = None
    keys: dict[str, str] = attrs.Factory(dict)
    guest_request: Any = None


_GUID = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_IGNORED = Anything()
_NAMED = Record(
    {"Name": Str(empty=False), "AccessName": Str(), "Port": Int(0, 2**32 - 1), "Path": Str(), "Options": Anything()},
    required=("Name",),
)


def _vm(name: str, path: str, requests: dict[str, Shape | None], since: int = 0) -> Resource:
    return Resource(name, re.compile("VirtualMachine/" + path + r"\Z"), "VirtualMachine", requests, since)


def _container(name: str, path: str, requests: dict[str, Shape | None], since: int = 0) -> Resource:
    return Resource(name, re.compile("Container/" + path + r"\Z"), "Container", requests, since)


RESOURCES = (
    _container("memory", "Memory/SizeInMB", {"Update": container.MEMORY_SIZE}),
    _container("processor", "Processor", {"Update": container.PROCESSOR}, since=19042),
    _container("mapped directory", "MappedDirectories", {"Add": MAPPED_DIRECTORY, "Remove": MAPPED_DIRECTORY}),
    _container("mapped pipe", "MappedPipes", {"Add": MAPPED_PIPE, "Remove": MAPPED_PIPE}),
    _container("registry flush", "RegistryFlushState", {"Update": Record({"Enabled": Bool()})}),
    _container("network namespace", "Networking/Namespace", {"Update": Str(), "Add": Str(), "Remove": None}),
    _vm("memory", "ComputeTopology/Memory/SizeInMB", {"Update": virtual_machine.MEMORY_SIZE}),
    _vm(
        "processor limits",
        "ComputeTopology/Processor/Limits",
        {"Update": virtual_machine.PROCESSOR_LIMITS},
        since=19042,
    ),
    _vm("cpu group", "ComputeTopology/Processor/CpuGroup", {"Update": virtual_machine.CPU_GROUP}),
    _vm("idled processors", "ComputeTopology/Processor/IdledProcessors", {"Update": Anything()}, since=LTSC2022),
    _vm(
        "frequency cap", "ComputeTopology/Processor/CpuFrequencyPowerCap", {"Update": Int(0, 2**32 - 1)}, since=LTSC2022
    ),
    _vm(
        "share",
        "Devices/VirtualSmb/Shares",
        {"Add": virtual_machine.SHARE, "Update": virtual_machine.SHARE, "Remove": _NAMED},
    ),
    _vm(
        "attachment",
        rf"Devices/Scsi/(?P<controller>{_GUID})/Attachments/(?P<lun>[0-9]{{1,2}})",
        {"Add": virtual_machine.ATTACHMENT, "Update": virtual_machine.ATTACHMENT, "Remove": _IGNORED},
    ),
    _vm(
        "network adapter",
        rf"Devices/NetworkAdapters/(?P<adapter>{_GUID})",
        {"Add": virtual_machine.NETWORK_ADAPTER, "Update": virtual_machine.NETWORK_ADAPTER, "Remove": _IGNORED},
    ),
    _vm("mapped pipe", r"Devices/MappedPipes/(?P<pipe>.+)", {"Add": None, "Remove": None}),
    _vm(
        "plan9 share",
        "Devices/Plan9/Shares",
        {"Add": virtual_machine.PLAN9_SHARE, "Update": virtual_machine.PLAN9_SHARE, "Remove": _NAMED},
    ),
    _vm(
        "pmem device",
        r"Devices/VirtualPMem/Devices/(?P<device>[0-9]{1,3})",
        {"Add": virtual_machine.PMEM_DEVICE, "Remove": _IGNORED},
    ),
    _vm(
        "pmem mapping",
        r"Devices/VirtualPMem/Devices/(?P<device>[0-9]{1,3})/Mappings/(?P<offset>[0-9]{1,19})",
        {"Add": virtual_machine.PMEM_MAPPING, "Remove": _IGNORED},
        since=18362,
    ),
    _vm(
        "pci device",
        rf"Devices/VirtualPci/(?P<device>{_GUID})",
        {"Add": virtual_machine.PCI_DEVICE, "Remove": _IGNORED},
        since=18362,
    ),
    _vm(
        "hvsocket service",
        rf"Devices/HvSocket/HvSocketConfig/ServiceTable/(?P<service>{_GUID})",
        {"Update": HVSOCKET_SERVICE, "Add": HVSOCKET_SERVICE, "Remove": _IGNORED},
    ),
    _vm(
        "com port",
        r"Devices/ComPorts/(?P<port>[0-3])",
        {"Add": virtual_machine.COM_PORT, "Update": virtual_machine.COM_PORT, "Remove": _IGNORED},
    ),
    _vm(
        "flexible iov",
        rf"Devices/FlexibleIov/(?P<device>{_GUID})",
        {"Add": virtual_machine.FLEXIBLE_IOV, "Remove": _IGNORED},
    ),
    _vm("shared memory", "Devices/SharedMemory/Regions", {"Add": Anything(), "Remove": Anything()}),
    _vm(
        "licensing",
        "Devices/Licensing",
        {"Update": Record({"ContainerId": Str(), "PackageFamilyNames": ListOf(Str())})},
    ),
    _vm("gpu", "ComputeTopology/Gpu", {"Update": Anything()}),
)

GUEST = "guest"


def _refuse(problem: str, place: str) -> HcsError:
    return HcsError(HCS_E_INVALID_JSON, f"[{OPERATION}] {problem} at {place}", data=place, operation="Construct")


def check_modification(document: Any, kind: str, build: int) -> Modification:
    """Validate a request for a system of this kind. One without ResourcePath is for the guest only (name `guest`)."""
    check(REQUEST, document, OPERATION, build)
    path = document.get("ResourcePath", "")
    if not path:
        if "GuestRequest" not in document:
            raise _refuse("neither a resource path nor a guest request", "$.ResourcePath")
        return Modification(GUEST, document.get("RequestType", "Add"), guest_request=document["GuestRequest"])
    for resource in RESOURCES:
        match = resource.pattern.match(path)
        if match is None or resource.kind != kind or resource.since > build:
            continue
        request = document.get("RequestType") or ("Update" if list(resource.requests) == ["Update"] else "Add")
        if request not in resource.requests:
            raise _refuse(f"{request} is not possible for {path}", "$.RequestType")
        shape = resource.requests[request]
        settings = document.get("Settings")
        if shape is None:
            if settings not in (None, {}):
                raise _refuse(f"{path} takes no settings", "$.Settings")
        elif shape is not _IGNORED:
            if "Settings" not in document:
                raise _refuse("missing member", "$.Settings")
            check(shape, settings, OPERATION, build, path="$.Settings")
        return Modification(resource.name, request, settings, match.groupdict(), document.get("GuestRequest"))
    raise _refuse(f"resource path {path} does not exist for a {kind} on build {build}", "$.ResourcePath")

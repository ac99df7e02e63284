"""Queries: properties of systems and of the service, enumeration."""

from __future__ import annotations

from typing import Any

from hcs_emulator.service.schema.common import LTSC2022
from hcs_emulator.service.schema.shapes import Anything, Bool, Enum, ListOf, MapOf, Record, Str, check, since

SYSTEM_PROPERTIES = [
    "Statistics",
    "ProcessList",
    "Memory",
    "GuestConnection",
    "TerminateOnLastHandleClosed",
    "SharedMemoryRegion",
    "CpuGroup",
    "IcHeartbeatStatus",
    "MappedVirtualDisk",
    "Basic",
    "ProcessorTopology",
    "CacheAllocation",
    "CacheMonitoring",
    "ContainerCredentialGuard",
    "QoSCapabilities",
    "MemoryBwAllocation",
    "Undefined",
]

SERVICE_PROPERTIES = ("Basic", "ProcessorTopology", "CpuGroup", "ContainerCredentialGuard", "QoSCapabilities", "Memory")

PROPERTY_QUERY = Record(
    {"PropertyTypes": ListOf(Enum(*SYSTEM_PROPERTIES)), "Queries": since(LTSC2022, MapOf(Anything()))},
)

SERVICE_QUERY = Record(
    {"PropertyTypes": ListOf(Enum(*SERVICE_PROPERTIES)), "PropertyQueries": since(LTSC2022, MapOf(Anything()))},
)

ENUMERATE_QUERY = Record(
    {
        "Ids": ListOf(Str()),
        "Names": ListOf(Str()),
        "Types": ListOf(Enum("Container", "VirtualMachine")),
        "Owners": ListOf(Str()),
    }
)

SAVE_OPTIONS = Record({"SaveType": Enum("ToFile", "AsTemplate"), "SaveStateFilePath": Str()})
PAUSE_OPTIONS = Record(
    {
        "SuspensionLevel": Enum("Suspend", "MemoryLow", "MemoryMedium", "MemoryHigh"),
        "HostedNotification": Record({"Reason": Enum("None", "Save")}),
    }
)
CRASH_OPTIONS = Record({"Type": Enum("CrashGuest")})
FORCE_OPTIONS = Record(
    {
        "Mechanism": Enum("GuestConnection", "IntegrationService"),
        "Type": Enum("Shutdown", "Hibernate", "Reboot"),
        "Force": Bool(),
        "Reason": Str(),
    }
)


def property_types(query: Any, build: int) -> list[str]:
    """The property types that a system query requests, in order; no query requests only the basic ones."""
    if query is None:
        return []
    check(PROPERTY_QUERY, query, "Get properties", build)
    return list(query.get("PropertyTypes", ()))

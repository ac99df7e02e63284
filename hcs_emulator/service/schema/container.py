"""The `Container` document: a process-isolated container, or a container in a utility VM."""

from __future__ import annotations

from hcs_emulator.service.schema.common import (
    CREDENTIAL_GUARD,
    HVSOCKET_SERVICE,
    LAYER,
    LTSC2022,
    MAPPED_DIRECTORY,
    MAPPED_PIPE,
    REGISTRY_CHANGES,
    V19H1,
)
from hcs_emulator.service.schema.shapes import (
    Anything,
    Bool,
    Enum,
    Guid,
    Int,
    ListOf,
    MapOf,
    Record,
    Str,
    at_most_one,
    since,
)

MEMORY_SIZE = Int(1, 2**40)

PROCESSOR = Record(
    {"Count": Int(0, 2**31 - 1), "Maximum": Int(0, 10000), "Weight": Int(0, 10000)},
    rule=at_most_one("Count", "Maximum", "Weight"),
)

ASSIGNED_DEVICE = Record(
    {
        "Type": since(V19H1, Enum("ClassGuid", "DeviceInstance", "GpuMirror")),
        "InterfaceClassGuid": Guid(),
        "LocationPath": since(V19H1, Str(empty=False)),
    }
)

CONTAINER = Record(
    {
        "GuestOs": Record({"HostName": Str()}),
        "Storage": Record(
            {
                "Layers": ListOf(LAYER),
                "Path": Str(),
                "QoS": Record({"IopsMaximum": Int(0, 2**31 - 1), "BandwidthMaximum": Int(0, 2**31 - 1)}),
                "PrivilegedContainerRootPath": since(LTSC2022, Str()),
            }
        ),
        "MappedDirectories": ListOf(MAPPED_DIRECTORY),
        "MappedPipes": ListOf(MAPPED_PIPE),
        "Memory": Record({"SizeInMB": MEMORY_SIZE}),
        "Processor": PROCESSOR,
        "Networking": Record(
            {
                "AllowUnqualifiedDnsQuery": Bool(),
                "DnsSearchList": Str(),
                "NetworkSharedContainerName": Str(),
                "Namespace": Str(),
                "NetworkAdapters": ListOf(Guid()),
            }
        ),
        "HvSocket": Record(
            {"Config": Record({"ServiceTable": MapOf(HVSOCKET_SERVICE, key=Guid())}), "EnablePowerShellDirect": Bool()}
        ),
        "ContainerCredentialGuard": CREDENTIAL_GUARD,
        "RegistryChanges": REGISTRY_CHANGES,
        "AssignedDevices": ListOf(ASSIGNED_DEVICE),
        "AdditionalDeviceNamespace": since(LTSC2022, Record({"device_extension": ListOf(Anything())})),
        "IsolationType": since(LTSC2022, Enum("", "HostProcess")),
    }
)

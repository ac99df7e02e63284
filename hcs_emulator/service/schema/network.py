"""HCN documents: namespaces, endpoints, networks and queries for them."""

from __future__ import annotations

from hcs_emulator.service.schema.common import VERSION
from hcs_emulator.service.schema.shapes import Anything, Enum, Guid, Int, ListOf, Record, Str

QUERY = Record({"SchemaVersion": VERSION, "Flags": Int(0, 2**32 - 1), "Filter": Str()})

POLICY = Record({"Type": Str(empty=False), "Settings": Anything(), "Data": Anything()}, required=("Type",))
RESOURCE = Record({"Type": Str(empty=False), "Data": Anything()}, required=("Type", "Data"))

NAMESPACE = Record(
    {
        "SchemaVersion": VERSION,
        "ID": Guid(),
        "Id": Guid(),
        "NamespaceId": Int(0, 2**32 - 1),
        "Type": Enum("", "Host", "HostDefault", "Guest", "GuestDefault"),
        "Resources": ListOf(RESOURCE),
        "ReadyOnCreate": Anything(),
    },
    required=("SchemaVersion",),
)

ROUTE = Record({"NextHop": Str(), "DestinationPrefix": Str(), "Metric": Int(0, 65535)})
IP_CONFIGURATION = Record({"IpAddress": Str(), "PrefixLength": Int(0, 128), "IpSubnetId": Str()})
DNS = Record({"Domain": Str(), "Search": ListOf(Str()), "ServerList": ListOf(Str()), "Options": ListOf(Str())})

ENDPOINT = Record(
    {
        "SchemaVersion": VERSION,
        "ID": Guid(),
        "Id": Guid(),
        "Name": Str(),
        "HostComputeNetwork": Str(),
        "HostComputeNamespace": Str(),
        "Policies": ListOf(POLICY),
        "IpConfigurations": ListOf(IP_CONFIGURATION),
        "Dns": DNS,
        "Routes": ListOf(ROUTE),
        "MacAddress": Str(),
        "Flags": Int(0, 2**32 - 1),
        "Health": Anything(),
    },
    required=("SchemaVersion",),
)

NETWORK = Record(
    {
        "SchemaVersion": VERSION,
        "ID": Guid(),
        "Id": Guid(),
        "Name": Str(),
        "Type": Enum("NAT", "Transparent", "L2Bridge", "L2Tunnel", "ICS", "Internal", "Overlay", "Private", "Mirrored"),
        "Policies": ListOf(POLICY),
        "MacPool": Anything(),
        "Dns": DNS,
        "Ipams": ListOf(Anything()),
        "Flags": Int(0, 2**32 - 1),
        "Health": Anything(),
    },
    required=("SchemaVersion",),
)

MODIFY = Record(
    {
        "ResourceType": Str(empty=False),
        "RequestType": Enum("Add", "Remove", "Update", "Refresh"),
        "Settings": Anything(),
    },
    required=("ResourceType", "RequestType"),
)
ENDPOINT_REFERENCE = Record({"EndpointId": Guid()}, required=("EndpointId",))

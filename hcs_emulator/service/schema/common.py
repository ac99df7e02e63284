"""Shapes that several documents share, and the schema versions of Windows builds."""

from __future__ import annotations

from hcs_emulator.service.schema.shapes import Bool, Enum, Guid, Int, ListOf, Record, Str

RS5 = 17763
V19H1 = 18362
V20H1 = 19041
V21H1 = 19043
LTSC2022 = 20348
WIN11_22H2 = 22621
LTSC2025 = 26100

# (first build, greatest minor version of schema 2 that it supports)
_SCHEMA_MINORS = ((LTSC2025, 11), (WIN11_22H2, 7), (LTSC2022, 5), (V20H1, 3), (V19H1, 2), (RS5, 1))


def newest_minor(build: int) -> int:
    """The greatest minor version of schema 2 that a build supports."""
    return next((minor for first, minor in _SCHEMA_MINORS if build >= first), 0)


VERSION = Record({"Major": Int(0, 2**32 - 1), "Minor": Int(0, 2**32 - 1)}, required=("Major", "Minor"))

LAYER = Record(
    {
        "Id": Guid(),
        "Path": Str(empty=False),
        "PathType": Enum("AbsolutePath", "VirtualSmbPathFileName"),
        "Cache": Enum("", "Disabled", "Enabled", "Private", "PrivateAllowSharing"),
    },
    required=("Id", "Path"),
)

REGISTRY_KEY = Record(
    {"Hive": Enum("System", "Software", "Security", "Sam"), "Name": Str(empty=False), "Volatile": Bool()},
    required=("Hive", "Name"),
)

REGISTRY_VALUE = Record(
    {
        "Key": REGISTRY_KEY,
        "Name": Str(),
        "Type": Enum("None", "String", "ExpandedString", "MultiString", "Binary", "DWord", "QWord", "CustomType"),
        "StringValue": Str(),
        "BinaryValue": Str(),
        "DWordValue": Int(0, 2**32 - 1),
        "QWordValue": Int(0, 2**64 - 1),
        "CustomType": Int(0, 2**32 - 1),
    },
    required=("Key", "Name", "Type"),
)

REGISTRY_CHANGES = Record({"AddValues": ListOf(REGISTRY_VALUE), "DeleteKeys": ListOf(REGISTRY_KEY)})

HVSOCKET_SERVICE = Record(
    {
        "BindSecurityDescriptor": Str(),
        "ConnectSecurityDescriptor": Str(),
        "AllowWildcardBinds": Bool(),
        "Disabled": Bool(),
    }
)

CREDENTIAL_GUARD = Record(
    {
        "Cookie": Str(),
        "RpcEndpoint": Str(),
        "Transport": Enum("LRPC", "HvSocket"),
        "CredentialSpec": Str(),
    }
)

MAPPED_DIRECTORY = Record(
    {
        "HostPath": Str(empty=False),
        "HostPathType": Enum("AbsolutePath", "VirtualSmbPathFileName"),
        "ContainerPath": Str(empty=False),
        "ReadOnly": Bool(),
        "SupportCloudFiles": Bool(),
    },
    required=("HostPath", "ContainerPath"),
)

MAPPED_PIPE = Record(
    {
        "ContainerPipeName": Str(empty=False),
        "HostPath": Str(empty=False),
        "HostPathType": Enum("AbsolutePath", "VirtualSmbPathFileName"),
    },
    required=("ContainerPipeName", "HostPath"),
)

"""The JSON of the bridge: requests with their members and types. Go matches names without case and takes null as the
member's zero value; a wrong type is an invalid document.
"""

from __future__ import annotations

import json
from typing import Any

from hcs_emulator.vm.linux.agent import rules
from hcs_emulator.vm.linux.agent.errors import INVALID_JSON, RuleError, with_code

Shape = Any  # str, bool, dict (any object), ("uint", bits), ("int", bits), [shape], {"*": shape} or a dict of members

UINT8, UINT16, UINT32, UINT64 = ("uint", 8), ("uint", 16), ("uint", 32), ("uint", 64)
INT32 = ("int", 32)
_TRACING = {"otsc": dict, "ocsc": dict}
BASE: dict[str, Shape] = {"ContainerId": str, "ActivityId": str, **_TRACING}

NEGOTIATE = {**BASE, "MinimumVersion": UINT32, "MaximumVersion": UINT32}
CREATE = {**BASE, "ContainerConfig": str}
CONTAINER_CONFIG = {
    "SchemaVersion": {"Major": UINT32, "Minor": UINT32},
    "OciBundlePath": str,
    "OciSpecification": dict,
    "ScratchDirPath": str,
}
RELAY = {"StdIn": UINT32, "StdOut": UINT32, "StdErr": UINT32}
EXECUTE_PROCESS = {**BASE, "Settings": {"ProcessParameters": str, "VsockStdioRelaySettings": RELAY}}
PROCESS_PARAMETERS = {
    "CommandLine": str,
    "CommandArgs": [str],
    "WorkingDirectory": str,
    "Environment": {"*": str},
    "EmulateConsole": bool,
    "CreateStdInPipe": bool,
    "CreateStdOutPipe": bool,
    "CreateStdErrPipe": bool,
    "CreateInUtilityVM": bool,
    "OciSpecification": dict,
    "OciProcess": dict,
    # The host's document for both kinds of guest has these; gcs does not know them.
    "ApplicationName": str,
    "User": str,
    "ConsoleSize": [INT32],
    "RestrictedToken": bool,
    "UseExistingLogin": bool,
    "UseLegacyConsole": bool,
}
WAIT_FOR_PROCESS = {**BASE, "ProcessId": UINT32, "TimeoutInMs": UINT32}
SIGNAL_PROCESS = {**BASE, "ProcessId": UINT32, "Options": {"Signal": INT32}}
RESIZE_CONSOLE = {**BASE, "ProcessId": UINT32, "Height": UINT16, "Width": UINT16}
GET_PROPERTIES = {**BASE, "Query": str}
QUERY = {"PropertyTypes": [str], "Queries": None}
MODIFY_SETTINGS = {**BASE, "Request": dict}
REQUEST = {"RequestType": str, "ResourceType": str, "Settings": None}

_VERITY = dict
SETTINGS: dict[str, tuple[str, Shape]] = {
    "SCSIDevice": ("SCSIDevice", {"Controller": UINT8, "Lun": UINT8}),
    "MappedVirtualDisk": (
        "MappedVirtualDiskV2",
        {
            "MountPath": str,
            "Lun": UINT8,
            "Controller": UINT8,
            "Partition": UINT64,
            "ReadOnly": bool,
            "Encrypted": bool,
            "Options": [str],
            "BlockDev": bool,
            "VerityInfo": _VERITY,
            "EnsureFilesystem": bool,
            "Filesystem": str,
        },
    ),
    "MappedDirectory": (
        "MappedDirectoryV2",
        {"MountPath": str, "Port": INT32, "ShareName": str, "ReadOnly": bool},
    ),
    "VPMemDevice": (
        "MappedVPMemDeviceV2",
        {
            "DeviceNumber": UINT32,
            "MountPath": str,
            "MappingInfo": {"DeviceOffsetInBytes": UINT64, "DeviceSizeInBytes": UINT64},
            "VerityInfo": _VERITY,
        },
    ),
    "CombinedLayers": (
        "CombinedLayersV2",
        {
            "ContainerID": str,
            "ContainerRootPath": str,
            "Layers": [{"Id": str, "Path": str, "PathType": str, "Cache": str}],
            "ScratchPath": str,
        },
    ),
    "Network": (
        "NetworkAdapterV2",
        {
            "NamespaceID": str,
            "ID": str,
            "MacAddress": str,
            "DNSSuffix": str,
            "DNSServerList": str,
            "EncapOverhead": UINT16,
            "VPCIAssigned": bool,
            "IPConfigs": [{"IPAddress": str, "PrefixLength": UINT8}],
            "Routes": [{"NextHop": str, "DestinationPrefix": str, "Metric": UINT16}],
            "PolicyBasedRouting": bool,
            "EnableLowMetric": bool,
        },
    ),
    "VPCIDevice": ("MappedVPCIDeviceV2", {"VMBusGUID": str}),
    "ContainerConstraints": ("ContainerConstraintsV2", {"Windows": dict, "Linux": dict}),
    "PodCgroupMemoryLimit": ("PodCgroupMemoryLimit", dict),
    "SecurityPolicy": (
        "ConfidentialOptions",
        {
            "EnforcerType": str,
            "EncodedSecurityPolicy": str,
            "EncodedUVMReference": str,
            "EncodedUVMHashEnvelopeReference": str,
        },
    ),
    "SecurityPolicyFragment": ("SecurityPolicyFragment", {"Fragment": str, "MediaType": str}),
}


class MismatchError(ValueError):
    """A value has another type than its member."""


def decode(text: bytes | str, shape: Shape, context: str) -> dict[str, Any]:
    """The members of a document, by the names of `shape`; absent ones have their zero value."""
    try:
        value = json.loads(text)
        return convert(value, shape, "")  # type: ignore[no-any-return]
    except (ValueError, RecursionError) as error:
        shown = text.decode(errors="replace") if isinstance(text, bytes) else text
        raise with_code(INVALID_JSON, str(error)).within(f'{context} "{shown}"') from error


def zero(shape: Shape) -> Any:
    if shape is str:
        return ""
    if shape is bool:
        return False
    if isinstance(shape, tuple):
        return 0
    if isinstance(shape, list):
        return []
    return None


def convert(value: Any, shape: Shape, path: str) -> Any:
    if shape is None:
        return value
    if value is None:
        return zero(shape)
    if shape is str or shape is bool or shape is dict:
        if not isinstance(value, shape):
            raise MismatchError(f"json: cannot unmarshal {_kind(value)} into {path or 'the document'}")
        return value
    if isinstance(shape, tuple):
        return _number(value, shape, path)
    if isinstance(shape, list):
        if not isinstance(value, list):
            raise MismatchError(f"json: cannot unmarshal {_kind(value)} into {path}")
        return [convert(item, shape[0], f"{path}[{index}]") for index, item in enumerate(value)]
    if not isinstance(value, dict):
        raise MismatchError(f"json: cannot unmarshal {_kind(value)} into {path or 'the document'}")
    if "*" in shape:
        return {name: convert(item, shape["*"], f"{path}.{name}") for name, item in value.items()}
    return _record(value, shape, path)


def _record(value: dict[str, Any], shape: dict[str, Shape], path: str) -> dict[str, Any]:
    names = {name.lower(): name for name in shape}
    result = {name: zero(member) for name, member in shape.items()}
    for given, item in value.items():
        name = names.get(given.lower())
        if name is None:
            raise RuleError(rules.UNKNOWN_MEMBER, f"the guest has no member {given} in {path or 'this message'}")
        result[name] = convert(item, shape[name], f"{path}.{name}" if path else name)
    return result


def _number(value: Any, shape: tuple[str, int], path: str) -> int:
    kind, bits = shape
    low, high = (0, (1 << bits) - 1) if kind == "uint" else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise MismatchError(f"json: cannot unmarshal {_kind(value)} into {path} of type {kind}{bits}")
    return value


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | float):
        return f"number {value}"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"

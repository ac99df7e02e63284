"""Registry changes that every Windows container starts with, and those that annotations ask for."""

from __future__ import annotations

from shim.oci import annotations as names
from shim.oci.errors import InvalidSpec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from shim.oci.spec import Spec

    Document = dict[str, Any]

_HIVES = ("System", "Software", "Security", "Sam")
_TYPES = ("None", "String", "ExpandedString", "MultiString", "Binary", "DWord", "QWord", "CustomType")
_VALUES = ("StringValue", "DWordValue", "QWordValue", "BinaryValue", "CustomType")
# What annotations may write to: these keys of System, and all of Software.
_SYSTEM_KEYS = ("currentcontrolset\\services", "currentcontrolset\\policies", "software")
_DUMPS = "Microsoft\\Windows\\Windows Error Reporting\\LocalDumps"


def changes(spec: Spec, id: str, warn: Callable[[str], object], dump_location: str = "") -> Document:
    """`dump_location` is the pod's, for a container that names none."""
    # Server Core would kill services after 5 s of shutting down; how long they get is for the caller to say.
    values = [_value("System", "ControlSet001\\Control", "WaitToKillServiceTimeout", "String", "2147483647")]
    values += _dumps(spec, id, dump_location)
    values += given(spec, names.EXTRA_REGISTRY, warn)
    return {"AddValues": values}


def _value(hive: str, key: str, name: str, type: str, value: str | int) -> Document:
    member = "StringValue" if isinstance(value, str) else "DWordValue"
    return {"Key": {"Hive": hive, "Name": key}, "Name": name, "Type": type, member: value}


def _dumps(spec: Spec, id: str, dump_location: str) -> list[Document]:
    """Where Windows Error Reporting puts dumps of processes that crash."""
    location = spec.annotations.text(names.DUMP_LOCATION) or dump_location
    if not location:
        return []
    for placeholder in ("{container_id}", "{CONTAINER_ID}"):
        if location.endswith(placeholder):
            location = location[: -len(placeholder)] + id
    kind = spec.annotations.text(names.DUMP_TYPE, "full")
    if kind not in ("mini", "full"):
        raise InvalidSpec(
            f'unknown dump type specified, valid values are "mini" or "full": annotation {names.DUMP_TYPE} is {kind!r}'
        )
    count = spec.annotations.number(names.DUMP_COUNT)
    if names.DUMP_COUNT in spec.annotations and not count:
        given = spec.annotations.text(names.DUMP_COUNT)
        raise InvalidSpec(f"invalid dump count specified: {given}: give a whole number above zero ({names.DUMP_COUNT})")
    return [
        _value("Software", _DUMPS, "DumpFolder", "String", location),
        _value("Software", _DUMPS, "DumpType", "DWord", 1 if kind == "mini" else 2),
        _value("Software", _DUMPS, "DumpCount", "DWord", count or 10),
    ]


def given(spec: Spec, annotation: str, warn: Callable[[str], object]) -> list[Document]:
    """The registry values that an annotation asks for, as far as they are allowed."""
    values = spec.annotations.json(annotation)
    if values is None:
        return []
    allowed = [value for value in values if is_allowed(value)] if isinstance(values, list) else []
    if not isinstance(values, list) or len(allowed) < len(values):
        warn(f"annotation {annotation} has registry values that are malformed or not allowed: they are left out")
    return allowed


def is_allowed(value: Any) -> bool:
    """A well-formed RegistryValue for a key that annotations may write to."""
    key = value.get("Key") if isinstance(value, dict) else None
    if not isinstance(key, dict) or key.get("Hive") not in _HIVES or value.get("Type") not in _TYPES:
        return False
    name = key.get("Name")
    if not isinstance(name, str) or not name or not value.get("Name"):
        return False
    if sum(member in value for member in _VALUES) > 1:
        return False
    return key["Hive"] == "Software" or (key["Hive"] == "System" and name.lower().startswith(_SYSTEM_KEYS))

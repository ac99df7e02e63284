"""Registry changes that every Windows container starts with, and those that annotations request."""

from __future__ import annotations

from shim.oci.annotations import container as names
from shim.oci.errors import InvalidSpec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from shim.oci.spec import Spec

    Document = dict[str, Any]

_HIVES = ("System", "Software", "Security", "Sam")
_TYPES = ("None", "String", "ExpandedString", "MultiString", "Binary", "DWord", "QWord", "CustomType")
_ONE_OF = ("StringValue", "BinaryValue", "DWordValue", "QWordValue")
_KEY = {"Hive": str, "Name": str, "Volatile": bool}
_VALUE: dict[str, type] = {"Key": dict, "Name": str, "Type": str}
_VALUE |= {"StringValue": str, "BinaryValue": str, "DWordValue": int, "QWordValue": int, "CustomType": int}
# What annotations may write to: these keys of System, and all of Software.
_SYSTEM_KEYS = ("currentcontrolset\\services", "currentcontrolset\\policies", "software")
_DUMPS = "Microsoft\\Windows\\Windows Error Reporting\\LocalDumps"


def changes(spec: Spec, id: str, warn: Callable[[str], object], dump_location: str = "") -> Document:
    """`dump_location` is the pod's, for a container that names none."""
    # Server Core would kill services after 5 s of a shutdown; the caller decides how long they get.
    values = [_value("System", "ControlSet001\\Control", "WaitToKillServiceTimeout", "String", "2147483647")]
    values += _dumps(spec, id, dump_location)
    values += from_annotation(spec, names.EXTRA_REGISTRY, warn)
    return {"AddValues": values}


def _value(hive: str, key: str, name: str, type: str, value: str | int) -> Document:
    member = "StringValue" if isinstance(value, str) else "DWordValue"
    return {"Key": {"Hive": hive, "Name": key}, "Name": name, "Type": type, member: value}


def _dumps(spec: Spec, id: str, dump_location: str) -> list[Document]:
    """Where Windows Error Reporting writes dumps of processes that crash."""
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


def from_annotation(spec: Spec, annotation: str, warn: Callable[[str], object]) -> list[Document]:
    """The registry values that an annotation requests, as far as they are allowed."""
    values = spec.annotations.json(annotation)
    if values is None:
        return []
    found = [allowed(value) for value in values] if isinstance(values, list) else [None]
    if None in found:
        warn(f"annotation {annotation} has registry values that are malformed or not allowed: they are left out")
    return [value for value in found if value is not None]


def allowed(given: object) -> Document | None:
    """A well-formed RegistryValue for a key that annotations may write to, with the members that HCS knows."""
    value = _members(given, _VALUE)
    key = _members(value.get("Key"), _KEY) if value is not None else None
    if value is None or key is None or key.get("Hive") not in _HIVES or value.get("Type") not in _TYPES:
        return None
    if "Name" not in key or "Name" not in value or sum(name in value for name in _ONE_OF) > 1:
        return None
    if key["Hive"] != "Software" and not (key["Hive"] == "System" and key["Name"].lower().startswith(_SYSTEM_KEYS)):
        return None
    return {**value, "Key": key}


def _members(value: object, kinds: dict[str, type]) -> Document | None:
    """None if one is of the wrong type."""
    if not isinstance(value, dict):
        return None
    known = {name: value[name] for name in kinds if value.get(name)}
    return known if all(type(member) is kinds[name] for name, member in known.items()) else None

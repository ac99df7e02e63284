"""HCS calls and GCS messages, of a recording and of the emulator's journal, in one format.

A call has a name, an object (a compute system, a process, a path), and a document or arguments. `normalize` makes
recorded and replayed calls comparable: generated ids, pids and volumes become placeholders, and paths become those of
the recording.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

GUID = re.compile(r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}")
# Well-known GUIDs; all others are generated.
KNOWN = re.compile(
    r"(0{8}|894cc2d6|df6d0690|0110f83b|b5d2d8d4|305891a9|172dad59|dcc079ae|acef5661)-.*|.*-facb-11e6-bd58-64006a7986d3"
)
MAC = re.compile(r"\b[0-9A-F]{2}(-[0-9A-F]{2}){5}\b")
# The volume of drive C: in the recordings; any other volume is a mounted layer.
DRIVE_VOLUME = "\\\\?\\Volume{00000000-0000-0000-0000-000000000043}\\"
VOLUME = re.compile(r"\\\\\?\\Volume\{[^}]*\}\\?")
# Boot files of Linux VMs, whose directory depends on the machine.
BOOT_FILES = ("vmlinux", "kernel", "initrd.img", "rootfs.vhd")
BOOT_DIRECTORY = "VmbFsRootPath"
BOOT_FILES_ANNOTATION = "io.microsoft.virtualmachine.bootfilesrootpath"
OLD_BOOT_FILES = "io.microsoft.virtualmachine.lcow.bootfilesrootpath"
# A layer in a memory device that has several: its offset and size depend on the sizes of the layers' files.
LAYER_PATH = re.compile(r"(?<=/run/layers/p)(\d+)-\d+-\d+")
MAPPING = re.compile(r"(?<=/Mappings/)\d+")
PLACEHOLDERS = {"DeviceOffsetInBytes": "<offset>", "DeviceSizeInBytes": "<size>"}
# Calls without effect, whose number does not matter, and closes of HCN handles, which were not recorded.
IGNORED = frozenset(
    ("NameToGuid", "RtlGetVersion", "hvsock", "HcnCloseNamespace", "HcnCloseEndpoint", "HcnCloseNetwork")
)
# Members whose values come from the service, the clock or the network. The shim only passes them on.
GENERATED = frozenset(("ContainerCredentialGuard", "TimeZoneInformation", "ServiceConfig", "NamespaceId"))


@dataclass(frozen=True)
class Call:
    name: str
    about: str
    document: Any

    @property
    def key(self) -> str:
        """Calls with the same key are the same step; only their documents may differ."""
        what = ""
        if isinstance(self.document, dict):
            request = self.document.get("Request") or self.document
            what = " ".join(str(request.get(name, "")) for name in ("RequestType", "ResourcePath", "ResourceType"))
            if self.name.endswith("Properties"):
                what = ",".join(self.document.get("PropertyTypes") or [])
        return f"{self.name} {self.about} {GUID.sub('<guid>', what)}".strip()


# A recording.


def capabilities(calls: Iterable[dict[str, Any]]) -> frozenset[str]:
    """The capabilities that the guest of a recording reported."""
    for entry in calls:
        offered = (entry.get("doc") or {}).get("Capabilities") if "guest" in entry else None
        if offered:
            return frozenset(offered.get("GuestDefinedCapabilities") or {})
    return frozenset()


def recorded(calls: Iterable[dict[str, Any]]) -> tuple[list[Call], list[Call]]:
    """The calls to HCS and those to the guest."""
    hcs, guest = [], []
    for entry in calls:
        if "guest" in entry:
            kind, _, name = entry["guest"].partition(" ")
            if kind == "request":
                guest.append(_guest(name, entry["doc"]))
        elif (call := _recorded_call(entry)) is not None:
            hcs.append(call)
    return hcs, guest


def _recorded_call(entry: dict[str, Any]) -> Call | None:
    name, args = entry["call"], entry.get("args") or ""
    if name in IGNORED:
        return None
    if name == "->":
        document = entry["doc"]
        return Call("event", _target(entry.get("id", "")), "ProcessExited" if "ProcessId" in document else "Exited")
    if name.startswith("Hcs") and "doc" not in entry and "result" in entry and "id" not in entry:
        return None  # the result of an operation that was submitted before
    if name == "HcsCreateProcess" and "doc" not in entry:
        return None  # the same
    about = _target(entry.get("id", ""))
    if name == "HcsOpenProcess":
        return Call(name, about, None)
    if "doc" in entry:
        return Call(name, about, normalize(entry["doc"]))
    if name.startswith("Hcs"):
        return Call(name, about, None)
    return Call(name, "", normalize(args))


# The emulator's journal.


def replayed(journal: Iterable[dict[str, Any]], translate: Callable[[Any], Any]) -> tuple[list[Call], list[Call]]:
    hcs: list[Call] = []
    guest: list[Call] = []
    for entry in sorted(journal, key=lambda entry: int(entry["seq"])):  # in order of arrival, not of completion
        if "event" in entry:
            if entry["event"] in ("SystemExited", "ProcessExited") and entry.get("client_pid"):
                kind = "ProcessExited" if entry["event"] == "ProcessExited" else "Exited"
                hcs.append(Call("event", _target(str(entry["target"]).partition("/")[0]), kind))
            continue
        name, arguments = entry["call"], translate(entry["arguments"])
        if name in IGNORED:
            continue
        if name.startswith("guest:"):
            guest.append(_guest(name.removeprefix("guest:"), arguments))
        else:
            call = _replayed_call(name, arguments)
            if not (name == "GetLayerMountPath" and call in hcs[-1:]):  # called twice, for the length and for the path
                hcs.append(call)
    return hcs, guest


def _replayed_call(name: str, arguments: dict[str, Any]) -> Call:
    system = arguments.get("computeSystem") or arguments.get("id") or ""
    if name in ("HcsCreateComputeSystem", "HcsModifyComputeSystem"):
        return Call(name, system, normalize(arguments["configuration"]))
    if name == "HcsGetComputeSystemProperties":
        return Call(name, system, arguments["propertyQuery"] or {})
    if name == "HcsCreateProcess":
        return Call(name, system, normalize(arguments["processParameters"]))
    if name in ("HcsModifyProcess", "HcsSignalProcess"):
        return Call(name, "<pid>", arguments.get("settings") or arguments.get("options"))
    if "process" in arguments:
        return Call(name, "<pid>", None)
    if name in ("HcsGetServiceProperties", "HcsModifyServiceSettings"):
        return Call(name, "", normalize(arguments.get("propertyQuery") or arguments.get("settings")))
    if name.startswith("Hcs"):
        return Call(name, system, None)
    if name.startswith("Hcn"):
        document = arguments.get("query") or arguments.get("settings")
        if document is not None:
            return Call(name, "", normalize(document))
        return Call(name, "", normalize(str(arguments.get("id", ""))))
    return Call(name, "", normalize(_layer_arguments(name, arguments)))


def _layer_arguments(name: str, arguments: dict[str, Any]) -> str:
    """The arguments in the format of the recordings."""
    if name == "GrantVmAccess":
        return f"vm={arguments['vmId']} {arguments['filePath']}"
    text = str(arguments.get("id", ""))
    layers = arguments.get("layers") or []
    for layer, path in zip(layers[::2], layers[1::2], strict=True):
        text += f" [{layer} {path}]"
    return text


# Both.


def _guest(name: str, document: dict[str, Any]) -> Call:
    members = {
        key: value for key, value in document.items() if key not in ("ActivityId", "otsc", "ocsc", "ContainerId")
    }
    return Call(f"guest:{name}", str(document.get("ContainerId", "")), normalize(_unfold(members)))


def _unfold(value: Any) -> Any:
    """JSON in a string, in either notation, as its value."""
    if isinstance(value, dict):
        if set(value) == {"(json in string)"}:
            return _unfold(value["(json in string)"])
        return {key: _unfold(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_unfold(item) for item in value]
    if isinstance(value, str) and value[:1] == "{":
        try:
            return _unfold(json.loads(value))
        except ValueError:
            return value
    return value


def normalize(value: Any, member: str = "") -> Any:
    if member in GENERATED:
        return f"<{member}>"
    if isinstance(value, dict):
        return {_member(normalize(key)): normalize(item, key) for key, item in value.items()}
    if isinstance(value, list):
        return [normalize(item, member) for item in value]
    if member == "ProcessId":
        return "<pid>"
    if member in PLACEHOLDERS:
        return PLACEHOLDERS[member]
    if not isinstance(value, str):
        return value
    if member == "Path" and value.endswith("\\") and len(value) > len("C:\\"):
        value = value[:-1]  # Microsoft's shim keeps it; the emulator under Wine does not
    name = re.split(r"[\\/]", value)[-1]
    if member == BOOT_DIRECTORY or (name in BOOT_FILES and name != value):
        return f"<boot files>{'' if member == BOOT_DIRECTORY else '/' + name}"
    value = MAPPING.sub("<offset>", LAYER_PATH.sub(r"\1-<offset>-<size>", value))
    text = value.replace(DRIVE_VOLUME, "C:\\")
    text = VOLUME.sub("<volume>", text)
    return GUID.sub(lambda match: match[0] if KNOWN.fullmatch(match[0].lower()) else "<guid>", MAC.sub("<mac>", text))


def _member(name: str) -> str:
    """HCN spells this member in both ways, and the shim passes it on unchanged. An annotation has two names, too."""
    return {"Id": "ID", OLD_BOOT_FILES: BOOT_FILES_ANNOTATION}.get(name, name)


def _target(id: str) -> str:
    return "<pid>" if id.isdigit() else id

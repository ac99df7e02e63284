"""Typed readers for what a guest sends. The guest is not trusted: a member of another type violates the protocol.

An absent member and `null` read as the zero value, as in Go. `check_response` and `check_notification` check a whole
message before anything uses it, so that callers may rely on the types of the members that are listed here.
"""

from __future__ import annotations

from shim.uvm.gcs import protocol
from shim.uvm.gcs.protocol import ProtocolError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Document = dict[str, Any]
    Reader = Callable[[Document, str], object]

# HRESULTs and exit codes are signed or unsigned, depending on the guest.
_LOWEST = -(1 << 31)
_HIGHEST = (1 << 32) - 1
# What fits into a response even if it counts in units of 100 ns.
_LARGEST = ((1 << 64) - 1) // 100


_HEXADECIMAL = frozenset("0123456789abcdef")
# Addresses of Hyper-V sockets with a meaning of their own: any, all, the host, its children, itself, and a silo's host
# (https://learn.microsoft.com/en-us/virtualization/hyper-v-on-windows/user-guide/make-integration-service).
_ADDRESSES = frozenset(
    (
        "00000000-0000-0000-0000-000000000000",
        "ffffffff-ffff-ffff-ffff-ffffffffffff",
        "a42e7cda-d03f-480c-9cc2-a4de20abb878",
        "90db8b89-0d35-4f79-8ce9-49ea0ac8b7cd",
        "e0e16197-dd56-4a10-9195-5ee7a155a838",
        "36bd0c5c-7276-4223-88ba-7d03b654c568",
    )
)


def number(body: Document, name: str) -> int:
    """A 32-bit number. `true`, `1.0` and `1e300` are none."""
    value = body.get(name)
    if value is None:
        return 0
    if type(value) is not int or not _LOWEST <= value <= _HIGHEST:
        raise ProtocolError(f"{name} is not a 32-bit number")
    return value


def text(body: Document, name: str) -> str:
    value = body.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ProtocolError(f"{name} is not a string")
    return value


def guid(body: Document, name: str) -> str:
    """A GUID in lower case without braces, "" if there is none. It becomes part of a path of the host."""
    value = text(body, name).lower()
    if value and not _is_guid(value):
        raise ProtocolError(f"{name} is not a GUID of a container")
    return value


def _is_guid(value: str) -> bool:
    parts = value.split("-")
    digits = all(_HEXADECIMAL.issuperset(part) for part in parts)
    return digits and [len(part) for part in parts] == [8, 4, 4, 4, 12] and value not in _ADDRESSES


def section(body: Document, name: str) -> Document:
    value = body.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ProtocolError(f"{name} is not an object")
    return value


def sections(body: Document, name: str) -> list[Document]:
    value = body.get(name)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
        raise ProtocolError(f"{name} is not a list of objects")
    return value


# What responses have besides `Result`, `ErrorMessage` and `ErrorRecords`.
_RESPONSES: dict[int, tuple[tuple[str, Reader], ...]] = {
    protocol.NEGOTIATE_PROTOCOL: (("Version", number), ("Capabilities", section)),
    protocol.EXECUTE_PROCESS: (("ProcessId", number),),
    protocol.WAIT_FOR_PROCESS: (("ExitCode", number),),
    protocol.GET_PROPERTIES: (("Properties", text),),
    protocol.DUMP_STACKS: (("GuestStacks", text),),
}


def check_response(procedure: int, body: Document) -> None:
    """`procedure` is that of the request. Raises ProtocolError."""
    number(body, "Result")
    text(body, "ErrorMessage")
    for record in sections(body, "ErrorRecords"):
        text(record, "Message")
    for name, read in _RESPONSES.get(procedure, ()):
        read(body, name)
    if procedure == protocol.NEGOTIATE_PROTOCOL:
        capabilities = section(body, "Capabilities")
        text(capabilities, "RuntimeOsType")
        section(capabilities, "GuestDefinedCapabilities")


def check_properties(found: Document) -> None:
    """The properties of a container, as far as they have the form of HCS: what `shim.task.stats` reads of them. Members
    that are `null` are removed. Raises ProtocolError."""
    guid(found, "SystemGUID")
    statistics = section(found, "Statistics")
    for name in ("Timestamp", "ContainerStartTime"):
        text(statistics, name)
    _counters({name: value for name, value in statistics.items() if name == "Uptime100ns"})
    for part in ("Processor", "Memory", "Storage"):
        _counters(section(statistics, part))
    for process in sections(found, "ProcessList"):
        number(process, "ProcessId")
        for name in ("ImageName", "CreateTimestamp"):
            text(process, name)
        _counters(process, but=("ImageName", "CreateTimestamp"))
    for document in (statistics, *sections(found, "ProcessList")):
        _remove_null(document)


def _counters(part: Document, but: tuple[str, ...] = ()) -> None:
    for name, value in part.items():
        if value is not None and name not in but and (type(value) is not int or not 0 <= value <= _LARGEST):
            raise ProtocolError(f"{name} is not a 64-bit number")
    _remove_null(part)


def _remove_null(part: Document) -> None:
    for name in [name for name, value in part.items() if value is None]:
        del part[name]


def check_notification(body: Document) -> None:
    text(body, "ContainerId")

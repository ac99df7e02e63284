"""TraceLogging events of ETW, as bytes: self-describing metadata and data.

An event needs no manifest on the machine that reads it: its name and the names and types of its fields travel with it.

    metadata   u16 size | tags (one byte, 0: none) | name\\0 | field*        field: name\\0 | in type [| out type]
    data       the values of the fields, one after the other, in the same order

The field types are those that go-winio's `etw` package chooses for the same Go values
(https://github.com/microsoft/go-winio/blob/main/pkg/etw/fieldopt.go), so that tools which collect the events of
Microsoft's shim decode ours without a change. The type numbers are TraceLoggingProvider.h's of the Windows SDK.

Pure: no I/O, nothing of Windows. `shim.platform.windows.etw` writes the events.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    Field = tuple[str, bytes, bytes]

ANSI_STRING, UINT8, INT64, UINT64, DOUBLE, FILE_TIME = 2, 4, 9, 10, 12, 17
ARRAY = 64
BOOLEAN, UTF8, DATE_TIME_UTC = 3, 35, 38
# Set in the in type when an out type follows.
HAS_OUT_TYPE = 128

# An event has at most 64 KiB with its headers; a longer one is refused by ETW and lost.
MAX_TEXT = 24 * 1024
MAX_DATA = 48 * 1024

# 1601 to 1970, in units of 100 ns.
_FILE_TIME_EPOCH = 116_444_736_000_000_000


def text(name: str, value: str) -> Field:
    return name, bytes((ANSI_STRING | HAS_OUT_TYPE, UTF8)), _text(value)


def texts(name: str, values: Sequence[str]) -> Field:
    kind = bytes((ANSI_STRING | ARRAY | HAS_OUT_TYPE, UTF8))
    return name, kind, len(values).to_bytes(2, "little") + b"".join(map(_text, values))


def boolean(name: str, value: bool) -> Field:
    return name, bytes((UINT8 | HAS_OUT_TYPE, BOOLEAN)), bytes((value,))


def integer(name: str, value: int) -> Field:
    """As Go's int, or as its uint64 if it needs one more bit. What fits neither becomes text."""
    if -(1 << 63) <= value < 1 << 63:
        return name, bytes((INT64,)), value.to_bytes(8, "little", signed=True)
    if 0 <= value < 1 << 64:
        return name, bytes((UINT64,)), value.to_bytes(8, "little")
    return text(name, str(value))


def double(name: str, value: float) -> Field:
    from _struct import pack

    return name, bytes((DOUBLE,)), pack("<d", value)


def file_time(name: str, nanoseconds: int) -> Field:
    """A time, in nanoseconds since 1970."""
    ticks = nanoseconds // 100 + _FILE_TIME_EPOCH
    return name, bytes((FILE_TIME | HAS_OUT_TYPE, DATE_TIME_UTC)), ticks.to_bytes(8, "little")


def value(name: str, value: object) -> Field:
    """A field of a log entry, by the type of its value; what has no type of its own is text."""
    if isinstance(value, bool):
        return boolean(name, value)
    if isinstance(value, int):
        return integer(name, value)
    if isinstance(value, float):
        return double(name, value)
    if isinstance(value, (list, tuple)) and value and all(isinstance(item, str) for item in value):
        return texts(name, value)
    return text(name, value if isinstance(value, str) else str(value))


def event(name: str, fields: Sequence[Field]) -> tuple[bytes, bytes]:
    """(metadata, data) of an event. Fields that do not fit any more are left out."""
    metadata, data = [b"\0" + _name(name)], []
    size = 0
    for field, kind, content in fields:
        if size + len(content) > MAX_DATA:
            continue
        size += len(content)
        metadata.append(_name(field) + kind)
        data.append(content)
    described = b"".join(metadata)
    return (len(described) + 2).to_bytes(2, "little") + described, b"".join(data)


def provider_metadata(name: str) -> bytes:
    """The traits of a provider: its name."""
    named = _name(name)
    return (len(named) + 2).to_bytes(2, "little") + named


def _name(name: str) -> bytes:
    return name.replace("\0", "").encode("utf-8", "replace") + b"\0"


def _text(value: str) -> bytes:
    encoded = value.replace("\0", "").encode("utf-8", "replace")
    if len(encoded) > MAX_TEXT:
        encoded = encoded[:MAX_TEXT].decode("utf-8", "ignore").encode() + b"... (cut)"
    return encoded + b"\0"

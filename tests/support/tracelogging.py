"""Decodes TraceLogging events, after TraceLoggingProvider.h of the Windows SDK. Shares no code with the shim."""

from __future__ import annotations

import struct
from datetime import UTC, datetime, timedelta
from typing import Any

_UTF8, _BOOLEAN, _DATE_TIME_UTC = 35, 3, 38


def _cut(data: bytes) -> tuple[str, bytes]:
    text, zero, rest = data.partition(b"\0")
    assert zero, "a name or text without a terminating zero"
    return text.decode(), rest


def _value(kind: int, out: int, data: bytes) -> tuple[Any, bytes]:
    if kind == 2:
        assert out == _UTF8
        return _cut(data)
    if kind == 4:
        return (bool(data[0]) if out == _BOOLEAN else data[0]), data[1:]
    if kind in (9, 10, 12):
        return struct.unpack_from({9: "<q", 10: "<Q", 12: "<d"}[kind], data)[0], data[8:]
    if kind == 17:
        assert out == _DATE_TIME_UTC
        (ticks,) = struct.unpack_from("<Q", data)
        return datetime(1601, 1, 1, tzinfo=UTC) + timedelta(microseconds=ticks // 10), data[8:]
    raise AssertionError(f"in type {kind} is not decoded here")


def decode(metadata: bytes, data: bytes) -> tuple[str, list[tuple[str, Any]]]:
    """The event's name and its fields, in order. Every byte must be accounted for."""
    (size,) = struct.unpack_from("<H", metadata)
    assert size == len(metadata)
    tags, rest = metadata[2], metadata[3:]
    assert tags == 0
    event, rest = _cut(rest)
    fields = []
    while rest:
        name, rest = _cut(rest)
        kind, out, rest = rest[0], 0, rest[1:]
        if kind & 128:
            out, rest = rest[0], rest[1:]
        assert not out & 128, "tags of a field"
        kind &= 127
        if kind & 64:
            (count,) = struct.unpack_from("<H", data)
            data = data[2:]
            value: Any = []
            for _ in range(count):
                item, data = _value(kind & 63, out, data)
                value.append(item)
        else:
            value, data = _value(kind, out, data)
        fields.append((name, value))
    assert data == b""
    return event, fields

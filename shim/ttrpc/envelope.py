"""Request and Response, the two messages in which ttrpc wraps a payload.

The generated codec of `shim.api.ttrpc` decodes any form of them. Go and this shim always write the canonical form,
fields in order with short lengths, and that is decoded here without an object per field; everything else, and
everything malformed, is left to the generated codec, which is imported on demand.

The first two fields, service and method, are not decoded at all: their bytes are the *route*, by which a server looks
up the handler.
"""

from __future__ import annotations

from shim.api.wire import (
    DecodeError,
    put_bytes,
    put_string,
    read_length,
    read_string_entry,
    read_varint,
    signed64,
    varint,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import TypeAlias

    Metadata: TypeAlias = list[tuple[str, str]]
    Request: TypeAlias = tuple[bytes, bytes, int, Metadata]  # route, payload, timeout_nano, metadata

__all__ = ["DecodeError", "decode_request", "decode_response", "encode_error", "encode_request", "encode_response",
           "encode_route", "route_names"]  # fmt: skip

# A client sends the same few metadata entries (its namespace) with every call. Bounded: trace ids differ in each call.
_MAX_ENTRIES = 64
_entries: dict[bytes, tuple[str, str]] = {}


def encode_route(service: str, method: str) -> bytes:
    return (put_string(b"\n", service) if service else b"") + (put_string(b"\x12", method) if method else b"")


def route_names(route: bytes) -> tuple[str, str]:
    """Service and method of a route. Raises DecodeError if they are not text."""
    from shim.api.ttrpc import Request

    request = Request.decode(route)
    return request.service, request.method


def decode_request(data: bytes) -> Request:
    """Raises DecodeError, and nothing else. The names in the route are checked only by `route_names`."""
    end = len(data)
    try:
        position = 2 + data[1]
        if data[0] != 10 or data[1] > 127 or data[position] != 18 or data[position + 1] > 127:
            return _decode_any_request(data)
        position += 2 + data[position + 1]
        if position >= end:
            return (data, b"", 0, []) if position == end else _decode_any_request(data)
        route = data[:position]
        payload = b""
        if data[position] == 26:
            position, stop = read_length(data, position + 1, end)
            payload = data[position:stop]
            position = stop
        timeout = 0
        metadata: Metadata = []
        while position < end:
            tag = data[position]
            if tag == 42:
                position, stop = read_length(data, position + 1, end)
                raw = data[position:stop]
                entry = _entries.get(raw)
                if entry is None:
                    entry = read_string_entry(data, position, stop)
                    if len(_entries) < _MAX_ENTRIES and len(raw) < 256:
                        _entries[raw] = entry
                metadata.append(entry)
                position = stop
            elif tag == 32:
                timeout, position = read_varint(data, position + 1, end)
                timeout = signed64(timeout)
            else:
                return _decode_any_request(data)
    except (IndexError, DecodeError):
        return _decode_any_request(data)
    return route, payload, timeout, metadata


def _decode_any_request(data: bytes) -> Request:
    from shim.api.ttrpc import Request

    request = Request.decode(data)
    metadata = [(entry.key, entry.value) for entry in request.metadata]
    return encode_route(request.service, request.method), request.payload, request.timeout_nano, metadata


def encode_request(
    route: bytes, payload: bytes = b"", timeout_nano: int = 0, metadata: Iterable[tuple[str, str]] = ()
) -> bytes:
    out = [route]
    if payload:
        out.append(put_bytes(b"\x1a", payload))
    if timeout_nano:
        out.append(b" " + varint(timeout_nano))
    for key, value in metadata:
        entry = (put_string(b"\n", key) if key else b"") + (put_string(b"\x12", value) if value else b"")
        out.append(put_bytes(b"*", entry))
    return b"".join(out)


def encode_response(payload: bytes) -> bytes:
    if not payload:
        return b""
    return b"\x12" + varint(len(payload)) + payload


def encode_error(code: int, message: str) -> bytes:
    status = b"\x08" + varint(code) + (put_bytes(b"\x12", message.encode("utf-8", "replace")) if message else b"")
    return put_bytes(b"\n", status)


def decode_response(data: bytes) -> tuple[int, str, bytes]:
    """Code, message and payload. Raises DecodeError."""
    if not data:
        return 0, "", b""
    if data[0] == 18:
        position, stop = read_length(data, 1, len(data))
        if stop == len(data):
            return 0, "", data[position:]
    from shim.api.ttrpc import Response

    response = Response.decode(data)
    if response.status is None:
        return 0, "", response.payload
    return response.status.code, response.status.message, response.payload

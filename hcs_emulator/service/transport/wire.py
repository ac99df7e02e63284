"""Frames between the native library and the service (native/library/WIRE.md): encoding and decoding, no I/O."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from pathlib import Path

import attrs

REQUEST, RESPONSE, EVENT = 1, 2, 3
MAX_FRAME = 64 << 20
NULL_STRING = 0xFFFFFFFF

_FRAME = struct.Struct("<IB3xQ")
_REQUEST = struct.Struct("<HxxQQI")
_RESPONSE = struct.Struct("<iQII")
_U32 = struct.Struct("<I")
_AFTER_SIZE = _FRAME.size - 4

_DEFINITION = re.compile(r'^CALL\((\d+), (\w+), "(\w*)", "(\w*)", "([\w* ]*)"\)$', re.MULTILINE)


class WireError(ValueError):
    """The peer sent an invalid frame; the rest of the stream cannot be interpreted."""


@attrs.frozen
class CallDefinition:
    """One line of calls.def: the name of a call and the names of its arguments."""

    number: int
    name: str
    handle: str
    number_argument: str
    strings: tuple[str, ...]


def _read_definitions() -> dict[int, CallDefinition]:
    text = (Path(__file__).parents[2] / "native" / "library" / "calls.def").read_text()
    found = (
        CallDefinition(int(number), name, handle, argument, tuple(strings.split()))
        for number, name, handle, argument, strings in _DEFINITION.findall(text)
    )
    return {definition.number: definition for definition in found}


CALLS = _read_definitions()
CALLS_BY_NAME = {definition.name: definition for definition in CALLS.values()}


@attrs.define
class Request:
    """One call of a client."""

    call: str
    handle: int = 0
    number: int = 0
    strings: list[str | None] = attrs.Factory(list)


@attrs.define
class Reply:
    """The response to a call. The transport owns the descriptors in streams and closes them after sending."""

    hresult: int = 0
    handle: int = 0
    pid: int = 0
    streams: tuple[int | None, int | None, int | None] = (None, None, None)
    document: str | None = None


def _string(value: str | None) -> bytes:
    if value is None:
        return _U32.pack(NULL_STRING)
    data = value.encode("utf-16-le", "replace")
    return _U32.pack(len(data)) + data


def encode_reply(request_id: int, reply: Reply) -> bytes:
    streams = sum(1 << bit for bit, descriptor in enumerate(reply.streams) if descriptor is not None)
    hresult = (reply.hresult & 0xFFFFFFFF ^ 0x80000000) - 0x80000000
    body = _RESPONSE.pack(hresult, reply.handle, reply.pid & 0xFFFFFFFF, streams) + _string(reply.document)
    return _FRAME.pack(_AFTER_SIZE + len(body), RESPONSE, request_id) + body


def encode_event(handle: int, event_type: int, document: str | None) -> bytes:
    body = _U32.pack(event_type & 0xFFFFFFFF) + _string(document)
    return _FRAME.pack(_AFTER_SIZE + len(body), EVENT, handle) + body


def encode_request(request_id: int, request: Request) -> bytes:
    number = CALLS_BY_NAME[request.call].number
    body = _REQUEST.pack(number, request.handle, request.number, len(request.strings))
    body += b"".join(_string(value) for value in request.strings)
    return _FRAME.pack(_AFTER_SIZE + len(body), REQUEST, request_id) + body


class RequestReader:
    """Collects bytes of one client and yields (id, request) for every complete frame."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes | memoryview) -> Iterator[tuple[int, Request]]:
        """Raises WireError at the first invalid frame."""
        buffer = self._buffer
        buffer += data
        while len(buffer) >= _FRAME.size:
            size, kind, request_id = _FRAME.unpack_from(buffer)
            if kind != REQUEST or not _AFTER_SIZE + _REQUEST.size <= size <= MAX_FRAME:
                raise WireError(f"not a request frame: kind {kind}, size {size}")
            end = 4 + size
            if len(buffer) < end:
                return
            body = bytes(buffer[_FRAME.size : end])
            del buffer[:end]
            yield request_id, _decode_request(body)


def _decode_request(body: bytes) -> Request:
    number, handle, argument, count = _REQUEST.unpack_from(body)
    definition = CALLS.get(number)
    if definition is None:
        raise WireError(f"no call has the number {number}")
    offset, strings = _REQUEST.size, list[str | None]()
    for _ in range(count):
        if offset + 4 > len(body):
            raise WireError("a string is missing")
        (length,) = _U32.unpack_from(body, offset)
        offset += 4
        if length == NULL_STRING:
            strings.append(None)
            continue
        if length > len(body) - offset:
            raise WireError("a string is longer than its frame")
        strings.append(body[offset : offset + length].decode("utf-16-le", "replace"))
        offset += length
    if offset != len(body):
        raise WireError("bytes are left over after the last string")
    return Request(definition.name, handle, argument, strings)

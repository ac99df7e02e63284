"""Frames of the GCS bridge: encoding and decoding, no I/O.

A frame is a header (u32 type, u32 size with the header, u64 id, little-endian) and a JSON object. The type is a kind
and a procedure.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from typing import Any

REQUEST, RESPONSE, NOTIFICATION = 0x10000000, 0x20000000, 0x30000000
KIND, PROCEDURE = 0xF0000000, 0x0FFFFFFF

CREATE, START = 0x00100101, 0x00100201
SHUTDOWN_GRACEFUL, SHUTDOWN_FORCED = 0x00100301, 0x00100401
EXECUTE_PROCESS, WAIT_FOR_PROCESS = 0x00100501, 0x00100601
SIGNAL_PROCESS, RESIZE_CONSOLE = 0x00100701, 0x00100801
GET_PROPERTIES, MODIFY_SETTINGS = 0x00100901, 0x00100A01
NEGOTIATE, DUMP_STACKS = 0x00100B01, 0x00100C01
DELETE_CONTAINER_STATE, UPDATE_CONTAINER, LIFECYCLE = 0x00100D01, 0x00100E01, 0x00100F01
MODIFY_SERVICE_SETTINGS = 0x00200101

# The host accepts no larger frames from a guest.
LARGEST_OUT = 0x10000
LARGEST_IN = 64 << 20
_HEADER = struct.Struct("<IIQ")


class FrameError(ValueError):
    """The host sent an invalid frame."""


class TooLargeError(ValueError):
    """A message does not fit into a frame that the host accepts."""


def encode(frame_type: int, number: int, message: dict[str, Any]) -> bytes:
    body = json.dumps(message, separators=(",", ":")).encode() + b"\n"
    if _HEADER.size + len(body) > LARGEST_OUT:
        raise TooLargeError(f"a message of {len(body)} bytes")
    return _HEADER.pack(frame_type, _HEADER.size + len(body), number) + body


class Reader:
    """Collects bytes; yields (type, id, body) for every complete frame."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[int, int, bytes]]:
        self._buffer += data
        while len(self._buffer) >= _HEADER.size:
            frame_type, size, number = _HEADER.unpack_from(self._buffer)
            if not _HEADER.size <= size <= LARGEST_IN:
                raise FrameError(f"a frame of {size} bytes")
            if len(self._buffer) < size:
                return
            body = bytes(self._buffer[_HEADER.size : size])
            del self._buffer[:size]
            yield frame_type, number, body

"""Frames: bytes in, frames out, and back. No I/O, no threads, no imports.

A frame is a header of ten bytes (length, stream id, type, flags) and the data. `Decoder.feed` takes the bytes of a
read, however they are split, and returns the complete frames. The data of a frame above the limit is never buffered:
the decoder reports the frame at once (`OVERSIZED`) and skips its data.

A frame is a plain tuple `(stream, type, flags, data)`: every call passes this code twice, and Python creates and
unpacks tuples fastest. For the same reason the header is read and written as one 80-bit number.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeAlias

    Frame: TypeAlias = tuple[int, int, int, bytes]

HEADER = 10
MAX_DATA = 4 << 20

# Types of frames. OVERSIZED is never sent: it stands for a received frame whose data was too long.
REQUEST = 1
RESPONSE = 2
DATA = 3
OVERSIZED = 0x100

# Flags of requests and data frames.
REMOTE_CLOSED = 1
REMOTE_OPEN = 2
NO_DATA = 4

_STREAM_MASK = 0xFFFFFFFF
_RESPONSE_BITS = RESPONSE << 8


class Decoder:
    """Splits a byte stream into frames. Buffers at most one frame."""

    __slots__ = ("_buffer", "_limit", "_skip")

    def __init__(self, limit: int = MAX_DATA) -> None:
        self._limit = limit
        self._buffer = bytearray()  # the beginning of an incomplete frame
        self._skip = 0  # bytes of an oversized frame's data that are still to come

    def feed(self, data: bytes) -> list[Frame]:
        if self._skip:
            if len(data) <= self._skip:
                self._skip -= len(data)
                return []
            data = data[self._skip :]
            self._skip = 0
        if self._buffer:
            buffer = self._buffer
            buffer += data
            if len(buffer) < HEADER:
                return []
            length = int.from_bytes(buffer[:4], "big")
            if length <= self._limit and len(buffer) < HEADER + length:
                return []
            data = bytes(buffer)
            self._buffer = bytearray()
        frames: list[Frame] = []
        position = 0
        end = len(data)
        while end - position >= HEADER:
            header = int.from_bytes(data[position : position + HEADER], "big")
            length = header >> 48
            start = position + HEADER
            if length > self._limit:
                frames.append(((header >> 16) & _STREAM_MASK, OVERSIZED, header & 0xFF, b""))
                position = start + length
                if position >= end:
                    self._skip = position - end
                    return frames
                continue
            if start + length > end:
                break
            position = start + length
            frames.append(((header >> 16) & _STREAM_MASK, (header >> 8) & 0xFF, header & 0xFF, data[start:position]))
        if position < end:
            self._buffer += data[position:] if position else data
        return frames

    @property
    def buffered(self) -> int:
        """The number of buffered bytes, for tests of the bound."""
        return len(self._buffer)


def encode_frame(stream: int, kind: int, flags: int, data: bytes) -> bytes:
    return (len(data) << 48 | stream << 16 | kind << 8 | flags).to_bytes(HEADER, "big") + data


def encode_response_frame(stream: int, data: bytes) -> bytes:
    """`encode_frame` for the most frequent frame."""
    return (len(data) << 48 | stream << 16 | _RESPONSE_BITS).to_bytes(HEADER, "big") + data

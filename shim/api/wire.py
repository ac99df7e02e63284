"""What the generated messages share: the protobuf wire format, read and written by plain functions.

A reader takes the whole buffer, where to begin and where the enclosing message ends, and gives the value and where it
stopped; it raises `DecodeError`, never anything else, whatever the bytes are. A writer gives bytes that already carry
their tag. The generated classes are straight-line code over these.

The start path imports this, so it imports nothing (`_struct` only when a double is met).
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Self

# protobuf's own bound for messages within messages, here only needed for unknown groups: no message we know is recursive.
MAX_DEPTH = 100
MAX_LENGTH = 0x7FFFFFFF

_MASK64 = 0xFFFFFFFFFFFFFFFF
_ZERO_DOUBLE = bytes(8)
_ONE_BYTE = [bytes((value,)) for value in range(128)]


class DecodeError(ValueError):
    """The bytes are not a message of this type."""


class Message:
    """Base of all generated messages: a class with slots, one per field."""

    __slots__: tuple[str, ...] = ()
    FULL_NAME = ""

    def merge(self, data: bytes, pos: int, end: int) -> None:
        """Read the fields in data[pos:end] into this message, as protobuf merges. A message without fields skips all."""
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        return b""

    @classmethod
    def decode(cls, data: bytes | bytearray | memoryview) -> Self:
        if type(data) is not bytes:
            data = bytes(data)
        message = cls()
        message.merge(data, 0, len(data))
        return message

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__ if getattr(self, name))
        return f"{type(self).__name__}({fields})"


# -- reading ----------------------------------------------------------------------------------------------------------


def read_varint(data: bytes, pos: int, end: int) -> tuple[int, int]:
    """An unsigned 64-bit varint: at most ten bytes."""
    if pos >= end:
        raise DecodeError("message is cut off")
    byte = data[pos]
    pos += 1
    if byte < 128:
        return byte, pos
    result = byte & 127
    shift = 7
    while pos < end:
        byte = data[pos]
        pos += 1
        if byte < 128:
            if shift == 63 and byte > 1:
                raise DecodeError("varint does not fit in 64 bits")
            return result | byte << shift, pos
        result |= (byte & 127) << shift
        shift += 7
        if shift > 63:
            raise DecodeError("varint is longer than ten bytes")
    raise DecodeError("message is cut off")


def read_tag(data: bytes, pos: int, end: int) -> tuple[int, int]:
    """The rest of a tag, or of a length, whose first byte, at pos - 1, said that more follow: 32 bits in five bytes."""
    result = data[pos - 1] & 127
    shift = 7
    while pos < end:
        byte = data[pos]
        pos += 1
        result |= (byte & 127) << shift
        if byte < 128:
            if result > 0xFFFFFFFF:
                raise DecodeError("tag or length is too large")
            return result, pos
        shift += 7
        if shift > 28:
            raise DecodeError("tag or length is longer than five bytes")
    raise DecodeError("message is cut off")


def read_length(data: bytes, pos: int, end: int) -> tuple[int, int]:
    """Where a length-delimited value begins and where it ends."""
    if pos >= end:
        raise DecodeError("message is cut off")
    size = data[pos]
    pos += 1
    if size > 127:
        size, pos = read_tag(data, pos, end)
        if size > MAX_LENGTH:
            raise DecodeError("length is negative or too large")
    stop = pos + size
    if stop > end:
        raise DecodeError("value reaches past the end of its message")
    return pos, stop


def read_string(data: bytes, pos: int, end: int) -> tuple[str, int]:
    pos, stop = read_length(data, pos, end)
    try:
        return data[pos:stop].decode(), stop
    except UnicodeDecodeError:
        raise DecodeError("string is not UTF-8") from None


def read_bytes(data: bytes, pos: int, end: int) -> tuple[bytes, int]:
    pos, stop = read_length(data, pos, end)
    return data[pos:stop], stop


def read_double(data: bytes, pos: int, end: int) -> tuple[float, int]:
    if pos + 8 > end:
        raise DecodeError("message is cut off")
    from _struct import unpack_from

    value: float = unpack_from("<d", data, pos)[0]
    return value, pos + 8


def read_string_entry(data: bytes, pos: int, end: int) -> tuple[str, str]:
    """One entry of a map from string to string."""
    key = value = ""
    while pos < end:
        tag = data[pos]
        pos += 1
        if tag > 127:
            tag, pos = read_tag(data, pos, end)
        if tag == 10:
            key, pos = read_string(data, pos, end)
        elif tag == 18:
            value, pos = read_string(data, pos, end)
        else:
            pos = skip(data, pos, end, tag)
    return key, value


def read_message_entry(data: bytes, pos: int, end: int, value: Message) -> str:
    """One entry of a map from string to message: the key; the value is read into the message given."""
    key = ""
    while pos < end:
        tag = data[pos]
        pos += 1
        if tag > 127:
            tag, pos = read_tag(data, pos, end)
        if tag == 10:
            key, pos = read_string(data, pos, end)
        elif tag == 18:
            pos, stop = read_length(data, pos, end)
            value.merge(data, pos, stop)
            pos = stop
        else:
            pos = skip(data, pos, end, tag)
    return key


def signed32(value: int) -> int:
    """The int32 in a varint: its low 32 bits, as two's complement."""
    value &= 0xFFFFFFFF
    return value - 0x100000000 if value & 0x80000000 else value


def signed64(value: int) -> int:
    return value - 0x10000000000000000 if value & 0x8000000000000000 else value


def skip(data: bytes, pos: int, end: int, tag: int) -> int:
    """Past the value of an unknown field, or of a known one with a wire type that is not its own."""
    depth = 0
    open_groups: list[int] = []
    while True:
        if tag < 8:
            raise DecodeError("field number is zero")
        wire_type = tag & 7
        if wire_type == 0:
            _, pos = read_varint(data, pos, end)
        elif wire_type == 2:
            _, pos = read_length(data, pos, end)
        elif wire_type == 1:
            pos += 8
        elif wire_type == 5:
            pos += 4
        elif wire_type == 3:
            depth += 1
            if depth > MAX_DEPTH:
                raise DecodeError("groups are nested too deeply")
            open_groups.append(tag + 1)
        elif wire_type == 4:
            if not open_groups or open_groups.pop() != tag:
                raise DecodeError("group ends that did not begin")
            depth -= 1
        else:
            raise DecodeError("unknown wire type")
        if pos > end:
            raise DecodeError("message is cut off")
        if not depth:
            return pos
        if pos >= end:
            raise DecodeError("message is cut off")
        tag = data[pos]
        pos += 1
        if tag > 127:
            tag, pos = read_tag(data, pos, end)


# -- writing ----------------------------------------------------------------------------------------------------------


def varint(value: int) -> bytes:
    """A varint; a negative number is its 64-bit two's complement, ten bytes long."""
    if 0 <= value < 128:
        return _ONE_BYTE[value]
    value &= _MASK64
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def put_bytes(tag: bytes, data: bytes) -> bytes:
    return tag + varint(len(data)) + data


def put_string(tag: bytes, text: str) -> bytes:
    data = text.encode()
    return tag + varint(len(data)) + data


def put_double(tag: bytes, value: float) -> bytes:
    """Nothing for the default, which is +0.0 only."""
    from _struct import pack

    data: bytes = pack("<d", value)
    return b"" if data == _ZERO_DOUBLE else tag + data

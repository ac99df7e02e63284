# Generated from google/protobuf/any.proto, google/protobuf/duration.proto, google/protobuf/empty.proto, google/protobuf/timestamp.proto by scripts/generate_api.py. Do not edit; `make proto` regenerates it.
from __future__ import annotations

from shim.api.wire import Message, put_bytes, put_string, read_bytes, read_string, read_tag, read_varint, signed32, signed64, skip, varint


class Any(Message):
    __slots__ = ("type_url", "value")
    FULL_NAME = "google.protobuf.Any"

    def __init__(self, *, type_url: str = "", value: bytes = b"") -> None:
        self.type_url = type_url
        self.value = value

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                self.type_url, pos = read_string(data, pos, end)
            elif tag == 18:
                self.value, pos = read_bytes(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.type_url:
            out.append(put_string(b'\n', self.type_url))
        if self.value:
            out.append(put_bytes(b'\x12', self.value))
        return b"".join(out)


class Duration(Message):
    __slots__ = ("seconds", "nanos")
    FULL_NAME = "google.protobuf.Duration"

    def __init__(self, *, seconds: int = 0, nanos: int = 0) -> None:
        self.seconds = seconds
        self.nanos = nanos

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 8:
                value, pos = read_varint(data, pos, end)
                self.seconds = signed64(value)
            elif tag == 16:
                value, pos = read_varint(data, pos, end)
                self.nanos = signed32(value)
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.seconds:
            out.append(b'\x08' + varint(self.seconds))
        if self.nanos:
            out.append(b'\x10' + varint(self.nanos))
        return b"".join(out)


class Empty(Message):
    __slots__ = ()
    FULL_NAME = "google.protobuf.Empty"


class Timestamp(Message):
    __slots__ = ("seconds", "nanos")
    FULL_NAME = "google.protobuf.Timestamp"

    def __init__(self, *, seconds: int = 0, nanos: int = 0) -> None:
        self.seconds = seconds
        self.nanos = nanos

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 8:
                value, pos = read_varint(data, pos, end)
                self.seconds = signed64(value)
            elif tag == 16:
                value, pos = read_varint(data, pos, end)
                self.nanos = signed32(value)
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.seconds:
            out.append(b'\x08' + varint(self.seconds))
        if self.nanos:
            out.append(b'\x10' + varint(self.nanos))
        return b"".join(out)

# Generated from runhcs/record.proto by scripts/generate_api.py. Do not edit; `make proto` regenerates it.
from __future__ import annotations

from shim.api.wire import Message, put_string, read_string, read_tag, read_varint, skip


class HelloRequest(Message):
    __slots__ = ("json",)
    FULL_NAME = "runhcs.record.v1.HelloRequest"

    def __init__(self, *, json: str = "") -> None:
        self.json = json

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                self.json, pos = read_string(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.json:
            out.append(put_string(b'\n', self.json))
        return b"".join(out)


class HelloResponse(Message):
    __slots__ = ("accepted", "command_lines")
    FULL_NAME = "runhcs.record.v1.HelloResponse"

    def __init__(self, *, accepted: bool = False, command_lines: bool = False) -> None:
        self.accepted = accepted
        self.command_lines = command_lines

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 8:
                value, pos = read_varint(data, pos, end)
                self.accepted = value != 0
            elif tag == 16:
                value, pos = read_varint(data, pos, end)
                self.command_lines = value != 0
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.accepted:
            out.append(b'\x08\x01')
        if self.command_lines:
            out.append(b'\x10\x01')
        return b"".join(out)


class AddRequest(Message):
    __slots__ = ("json", "last")
    FULL_NAME = "runhcs.record.v1.AddRequest"

    def __init__(self, *, json: str = "", last: bool = False) -> None:
        self.json = json
        self.last = last

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                self.json, pos = read_string(data, pos, end)
            elif tag == 16:
                value, pos = read_varint(data, pos, end)
                self.last = value != 0
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.json:
            out.append(put_string(b'\n', self.json))
        if self.last:
            out.append(b'\x10\x01')
        return b"".join(out)


class AddResponse(Message):
    __slots__ = ("stop",)
    FULL_NAME = "runhcs.record.v1.AddResponse"

    def __init__(self, *, stop: bool = False) -> None:
        self.stop = stop

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 8:
                value, pos = read_varint(data, pos, end)
                self.stop = value != 0
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.stop:
            out.append(b'\x08\x01')
        return b"".join(out)


SERVICES: dict[str, dict[str, tuple[type[Message], type[Message]]]] = {
    "runhcs.record.v1.Recorder": {
        "Hello": (HelloRequest, HelloResponse),
        "Add": (AddRequest, AddResponse),
    },
}

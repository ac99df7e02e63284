# Generated from runhcs/inspect.proto by scripts/generate_api.py. Do not edit; `make proto` regenerates it.
from __future__ import annotations

from shim.api.wire import Message, put_string, read_string, read_tag, read_varint, skip


class InspectRequest(Message):
    __slots__ = ("properties", "stats")
    FULL_NAME = "runhcs.inspect.v1.InspectRequest"

    def __init__(self, *, properties: bool = False, stats: bool = False) -> None:
        self.properties = properties
        self.stats = stats

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 8:
                value, pos = read_varint(data, pos, end)
                self.properties = value != 0
            elif tag == 16:
                value, pos = read_varint(data, pos, end)
                self.stats = value != 0
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.properties:
            out.append(b'\x08\x01')
        if self.stats:
            out.append(b'\x10\x01')
        return b"".join(out)


class InspectResponse(Message):
    __slots__ = ("json",)
    FULL_NAME = "runhcs.inspect.v1.InspectResponse"

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


class RecordRequest(Message):
    __slots__ = ("address",)
    FULL_NAME = "runhcs.inspect.v1.RecordRequest"

    def __init__(self, *, address: str = "") -> None:
        self.address = address

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                self.address, pos = read_string(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.address:
            out.append(put_string(b'\n', self.address))
        return b"".join(out)


class RecordResponse(Message):
    __slots__ = ()
    FULL_NAME = "runhcs.inspect.v1.RecordResponse"


SERVICES: dict[str, dict[str, tuple[type[Message], type[Message]]]] = {
    "runhcs.inspect.v1.Inspect": {
        "Shim": (InspectRequest, InspectResponse),
        "Record": (RecordRequest, RecordResponse),
    },
}

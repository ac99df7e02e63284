# Generated from runhcs/extendedtask.proto by scripts/generate_api.py. Do not edit; `make proto` regenerates it.
from __future__ import annotations

from shim.api.wire import Message, put_string, read_string, read_tag, read_varint, signed32, skip, varint


class ComputeProcessorInfoRequest(Message):
    __slots__ = ("id",)
    FULL_NAME = "ComputeProcessorInfoRequest"

    def __init__(self, *, id: str = "") -> None:
        self.id = id

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                self.id, pos = read_string(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.id:
            out.append(put_string(b'\n', self.id))
        return b"".join(out)


class ComputeProcessorInfoResponse(Message):
    __slots__ = ("count",)
    FULL_NAME = "ComputeProcessorInfoResponse"

    def __init__(self, *, count: int = 0) -> None:
        self.count = count

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 8:
                value, pos = read_varint(data, pos, end)
                self.count = signed32(value)
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.count:
            out.append(b'\x08' + varint(self.count))
        return b"".join(out)


SERVICES: dict[str, dict[str, tuple[type[Message], type[Message]]]] = {
    "ExtendedTask": {
        "ComputeProcessorInfo": (ComputeProcessorInfoRequest, ComputeProcessorInfoResponse),
    },
}

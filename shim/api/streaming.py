# Generated from containerd/types/transfer_streaming.proto, containerd/services/streaming.proto by scripts/generate_api.py. Do not edit; `make proto` regenerates it.
from __future__ import annotations

from shim.api.wellknown import Any
from shim.api.wire import Message, put_bytes, put_string, read_bytes, read_string, read_tag, read_varint, signed32, skip, varint


class Data(Message):
    __slots__ = ("data",)
    FULL_NAME = "containerd.types.transfer.Data"

    def __init__(self, *, data: bytes = b"") -> None:
        self.data = data

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                self.data, pos = read_bytes(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.data:
            out.append(put_bytes(b'\n', self.data))
        return b"".join(out)


class WindowUpdate(Message):
    __slots__ = ("update",)
    FULL_NAME = "containerd.types.transfer.WindowUpdate"

    def __init__(self, *, update: int = 0) -> None:
        self.update = update

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 8:
                value, pos = read_varint(data, pos, end)
                self.update = signed32(value)
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.update:
            out.append(b'\x08' + varint(self.update))
        return b"".join(out)


class StreamInit(Message):
    __slots__ = ("id",)
    FULL_NAME = "containerd.services.streaming.v1.StreamInit"

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


SERVICES: dict[str, dict[str, tuple[type[Message], type[Message]]]] = {
    "containerd.services.streaming.v1.Streaming": {
        "Stream": (Any, Any),
    },
}

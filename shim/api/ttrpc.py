# Generated from google/rpc/status.proto, ttrpc/ttrpc.proto by scripts/generate_api.py. Do not edit; `make proto` regenerates it.
from __future__ import annotations

from shim.api.wellknown import Any
from shim.api.wire import Message, put_bytes, put_string, read_bytes, read_length, read_string, read_tag, read_varint, signed32, signed64, skip, varint

_list = list


class Status(Message):
    __slots__ = ("code", "message", "details")
    FULL_NAME = "google.rpc.Status"

    def __init__(self, *, code: int = 0, message: str = "", details: list[Any] | None = None) -> None:
        self.code = code
        self.message = message
        self.details: list[Any] = [] if details is None else details

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 8:
                value, pos = read_varint(data, pos, end)
                self.code = signed32(value)
            elif tag == 18:
                self.message, pos = read_string(data, pos, end)
            elif tag == 26:
                pos, stop = read_length(data, pos, end)
                item_3 = Any()
                item_3.merge(data, pos, stop)
                self.details.append(item_3)
                pos = stop
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.code:
            out.append(b'\x08' + varint(self.code))
        if self.message:
            out.append(put_string(b'\x12', self.message))
        for item_3 in self.details:
            out.append(put_bytes(b'\x1a', item_3.encode()))
        return b"".join(out)


class Request(Message):
    __slots__ = ("service", "method", "payload", "timeout_nano", "metadata")
    FULL_NAME = "ttrpc.Request"

    def __init__(self, *, service: str = "", method: str = "", payload: bytes = b"", timeout_nano: int = 0, metadata: list[KeyValue] | None = None) -> None:
        self.service = service
        self.method = method
        self.payload = payload
        self.timeout_nano = timeout_nano
        self.metadata: list[KeyValue] = [] if metadata is None else metadata

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                self.service, pos = read_string(data, pos, end)
            elif tag == 18:
                self.method, pos = read_string(data, pos, end)
            elif tag == 26:
                self.payload, pos = read_bytes(data, pos, end)
            elif tag == 32:
                value, pos = read_varint(data, pos, end)
                self.timeout_nano = signed64(value)
            elif tag == 42:
                pos, stop = read_length(data, pos, end)
                item_5 = KeyValue()
                item_5.merge(data, pos, stop)
                self.metadata.append(item_5)
                pos = stop
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.service:
            out.append(put_string(b'\n', self.service))
        if self.method:
            out.append(put_string(b'\x12', self.method))
        if self.payload:
            out.append(put_bytes(b'\x1a', self.payload))
        if self.timeout_nano:
            out.append(b' ' + varint(self.timeout_nano))
        for item_5 in self.metadata:
            out.append(put_bytes(b'*', item_5.encode()))
        return b"".join(out)


class Response(Message):
    __slots__ = ("status", "payload")
    FULL_NAME = "ttrpc.Response"

    def __init__(self, *, status: Status | None = None, payload: bytes = b"") -> None:
        self.status = status
        self.payload = payload

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                pos, stop = read_length(data, pos, end)
                if self.status is None:
                    self.status = Status()
                self.status.merge(data, pos, stop)
                pos = stop
            elif tag == 18:
                self.payload, pos = read_bytes(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.status is not None:
            out.append(put_bytes(b'\n', self.status.encode()))
        if self.payload:
            out.append(put_bytes(b'\x12', self.payload))
        return b"".join(out)


class KeyValue(Message):
    __slots__ = ("key", "value")
    FULL_NAME = "ttrpc.KeyValue"

    def __init__(self, *, key: str = "", value: str = "") -> None:
        self.key = key
        self.value = value

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                self.key, pos = read_string(data, pos, end)
            elif tag == 18:
                self.value, pos = read_string(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.key:
            out.append(put_string(b'\n', self.key))
        if self.value:
            out.append(put_string(b'\x12', self.value))
        return b"".join(out)


class StringList(Message):
    __slots__ = ("list",)
    FULL_NAME = "ttrpc.StringList"

    def __init__(self, *, list: _list[str] | None = None) -> None:
        self.list: _list[str] = [] if list is None else list

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                item_1, pos = read_string(data, pos, end)
                self.list.append(item_1)
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        for item_1 in self.list:
            out.append(put_string(b'\n', item_1))
        return b"".join(out)

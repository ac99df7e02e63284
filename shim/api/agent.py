# Generated from runhcs/agent.proto by scripts/generate_api.py. Do not edit; `make proto` regenerates it.
from __future__ import annotations

from shim.api.wire import Message, put_string, read_string, read_tag, read_varint, skip


class ReportRequest(Message):
    __slots__ = ("json",)
    FULL_NAME = "runhcs.agent.v1.ReportRequest"

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


class ReportResponse(Message):
    __slots__ = ()
    FULL_NAME = "runhcs.agent.v1.ReportResponse"


class QueryRequest(Message):
    __slots__ = ("kind", "id")
    FULL_NAME = "runhcs.agent.v1.QueryRequest"

    def __init__(self, *, kind: str = "", id: str = "") -> None:
        self.kind = kind
        self.id = id

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                self.kind, pos = read_string(data, pos, end)
            elif tag == 18:
                self.id, pos = read_string(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.kind:
            out.append(put_string(b'\n', self.kind))
        if self.id:
            out.append(put_string(b'\x12', self.id))
        return b"".join(out)


class QueryResponse(Message):
    __slots__ = ("json",)
    FULL_NAME = "runhcs.agent.v1.QueryResponse"

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


class EventsRequest(Message):
    __slots__ = ("follow",)
    FULL_NAME = "runhcs.agent.v1.EventsRequest"

    def __init__(self, *, follow: bool = False) -> None:
        self.follow = follow

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 8:
                value, pos = read_varint(data, pos, end)
                self.follow = value != 0
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.follow:
            out.append(b'\x08\x01')
        return b"".join(out)


class EventsResponse(Message):
    __slots__ = ("json",)
    FULL_NAME = "runhcs.agent.v1.EventsResponse"

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


SERVICES: dict[str, dict[str, tuple[type[Message], type[Message]]]] = {
    "runhcs.agent.v1.Agent": {
        "Report": (ReportRequest, ReportResponse),
        "Query": (QueryRequest, QueryResponse),
        "Events": (EventsRequest, EventsResponse),
    },
}

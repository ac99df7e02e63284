# Generated from containerd/types/event.proto, containerd/services/events_ttrpc.proto by scripts/generate_api.py. Do not edit; `make proto` regenerates it.
from __future__ import annotations

from shim.api.wellknown import Any, Empty, Timestamp
from shim.api.wire import Message, put_bytes, put_string, read_length, read_string, read_tag, skip


class Envelope(Message):
    __slots__ = ("timestamp", "namespace", "topic", "event")
    FULL_NAME = "containerd.types.Envelope"

    def __init__(self, *, timestamp: Timestamp | None = None, namespace: str = "", topic: str = "", event: Any | None = None) -> None:
        self.timestamp = timestamp
        self.namespace = namespace
        self.topic = topic
        self.event = event

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                pos, stop = read_length(data, pos, end)
                if self.timestamp is None:
                    self.timestamp = Timestamp()
                self.timestamp.merge(data, pos, stop)
                pos = stop
            elif tag == 18:
                self.namespace, pos = read_string(data, pos, end)
            elif tag == 26:
                self.topic, pos = read_string(data, pos, end)
            elif tag == 34:
                pos, stop = read_length(data, pos, end)
                if self.event is None:
                    self.event = Any()
                self.event.merge(data, pos, stop)
                pos = stop
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.timestamp is not None:
            out.append(put_bytes(b'\n', self.timestamp.encode()))
        if self.namespace:
            out.append(put_string(b'\x12', self.namespace))
        if self.topic:
            out.append(put_string(b'\x1a', self.topic))
        if self.event is not None:
            out.append(put_bytes(b'"', self.event.encode()))
        return b"".join(out)


class ForwardRequest(Message):
    __slots__ = ("envelope",)
    FULL_NAME = "containerd.services.events.ttrpc.v1.ForwardRequest"

    def __init__(self, *, envelope: Envelope | None = None) -> None:
        self.envelope = envelope

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                pos, stop = read_length(data, pos, end)
                if self.envelope is None:
                    self.envelope = Envelope()
                self.envelope.merge(data, pos, stop)
                pos = stop
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.envelope is not None:
            out.append(put_bytes(b'\n', self.envelope.encode()))
        return b"".join(out)


SERVICES: dict[str, dict[str, tuple[type[Message], type[Message]]]] = {
    "containerd.services.events.ttrpc.v1.Events": {
        "Forward": (ForwardRequest, Empty),
    },
}

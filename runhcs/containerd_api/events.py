# Generated from containerd/services/events.proto by scripts/generate_api.py. Do not edit; `make proto` regenerates it.
from __future__ import annotations

from shim.api.events_ttrpc import Envelope
from shim.api.wire import Message, put_string, read_string, read_tag, skip


class SubscribeRequest(Message):
    __slots__ = ("filters",)
    FULL_NAME = "containerd.services.events.v1.SubscribeRequest"

    def __init__(self, *, filters: list[str] | None = None) -> None:
        self.filters: list[str] = [] if filters is None else filters

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                item_1, pos = read_string(data, pos, end)
                self.filters.append(item_1)
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        for item_1 in self.filters:
            out.append(put_string(b'\n', item_1))
        return b"".join(out)


SERVICES: dict[str, dict[str, tuple[type[Message], type[Message]]]] = {
    "containerd.services.events.v1.Events": {
        "Subscribe": (SubscribeRequest, Envelope),
    },
}

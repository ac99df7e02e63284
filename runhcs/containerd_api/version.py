# Generated from containerd/services/version.proto by scripts/generate_api.py. Do not edit; `make proto` regenerates it.
from __future__ import annotations

from shim.api.wellknown import Empty
from shim.api.wire import Message, put_string, read_string, read_tag, skip


class VersionResponse(Message):
    __slots__ = ("version", "revision")
    FULL_NAME = "containerd.services.version.v1.VersionResponse"

    def __init__(self, *, version: str = "", revision: str = "") -> None:
        self.version = version
        self.revision = revision

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                self.version, pos = read_string(data, pos, end)
            elif tag == 18:
                self.revision, pos = read_string(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.version:
            out.append(put_string(b'\n', self.version))
        if self.revision:
            out.append(put_string(b'\x12', self.revision))
        return b"".join(out)


SERVICES: dict[str, dict[str, tuple[type[Message], type[Message]]]] = {
    "containerd.services.version.v1.Version": {
        "Version": (Empty, VersionResponse),
    },
}

# Generated from containerd/runtimeoptions/v1/runtimeoptions.proto by scripts/generate_api.py. Do not edit; `make proto` regenerates it.
from __future__ import annotations

from shim.api.wire import Message, put_bytes, put_string, read_bytes, read_string, read_tag, skip


class Options(Message):
    __slots__ = ("type_url", "config_path", "config_body")
    FULL_NAME = "runtimeoptions.v1.Options"

    def __init__(self, *, type_url: str = "", config_path: str = "", config_body: bytes = b"") -> None:
        self.type_url = type_url
        self.config_path = config_path
        self.config_body = config_body

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                self.type_url, pos = read_string(data, pos, end)
            elif tag == 18:
                self.config_path, pos = read_string(data, pos, end)
            elif tag == 26:
                self.config_body, pos = read_bytes(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.type_url:
            out.append(put_string(b'\n', self.type_url))
        if self.config_path:
            out.append(put_string(b'\x12', self.config_path))
        if self.config_body:
            out.append(put_bytes(b'\x1a', self.config_body))
        return b"".join(out)

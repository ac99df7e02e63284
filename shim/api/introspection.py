# Generated from containerd/types/introspection.proto by scripts/generate_api.py. Do not edit; `make proto` regenerates it.
from __future__ import annotations

from shim.api.wellknown import Any
from shim.api.wire import Message, put_bytes, put_string, read_length, read_string, read_string_entry, read_tag, skip


class RuntimeRequest(Message):
    __slots__ = ("runtime_path", "options")
    FULL_NAME = "containerd.types.RuntimeRequest"

    def __init__(self, *, runtime_path: str = "", options: Any | None = None) -> None:
        self.runtime_path = runtime_path
        self.options = options

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                self.runtime_path, pos = read_string(data, pos, end)
            elif tag == 18:
                pos, stop = read_length(data, pos, end)
                if self.options is None:
                    self.options = Any()
                self.options.merge(data, pos, stop)
                pos = stop
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.runtime_path:
            out.append(put_string(b'\n', self.runtime_path))
        if self.options is not None:
            out.append(put_bytes(b'\x12', self.options.encode()))
        return b"".join(out)


class RuntimeVersion(Message):
    __slots__ = ("version", "revision")
    FULL_NAME = "containerd.types.RuntimeVersion"

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


class RuntimeInfo(Message):
    __slots__ = ("name", "version", "options", "features", "annotations")
    FULL_NAME = "containerd.types.RuntimeInfo"

    def __init__(self, *, name: str = "", version: RuntimeVersion | None = None, options: Any | None = None, features: Any | None = None, annotations: dict[str, str] | None = None) -> None:
        self.name = name
        self.version = version
        self.options = options
        self.features = features
        self.annotations: dict[str, str] = {} if annotations is None else annotations

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                self.name, pos = read_string(data, pos, end)
            elif tag == 18:
                pos, stop = read_length(data, pos, end)
                if self.version is None:
                    self.version = RuntimeVersion()
                self.version.merge(data, pos, stop)
                pos = stop
            elif tag == 26:
                pos, stop = read_length(data, pos, end)
                if self.options is None:
                    self.options = Any()
                self.options.merge(data, pos, stop)
                pos = stop
            elif tag == 34:
                pos, stop = read_length(data, pos, end)
                if self.features is None:
                    self.features = Any()
                self.features.merge(data, pos, stop)
                pos = stop
            elif tag == 42:
                pos, stop = read_length(data, pos, end)
                key, text = read_string_entry(data, pos, stop)
                self.annotations[key] = text
                pos = stop
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.name:
            out.append(put_string(b'\n', self.name))
        if self.version is not None:
            out.append(put_bytes(b'\x12', self.version.encode()))
        if self.options is not None:
            out.append(put_bytes(b'\x1a', self.options.encode()))
        if self.features is not None:
            out.append(put_bytes(b'"', self.features.encode()))
        for key in sorted(self.annotations):
            out.append(put_bytes(b'*', put_string(b'\n', key) + put_string(b'\x12', self.annotations[key])))
        return b"".join(out)

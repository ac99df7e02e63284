# Generated from containerd/types/descriptor.proto, containerd/types/sandbox.proto by scripts/generate_api.py. Do not edit; `make proto` regenerates it.
from __future__ import annotations

from shim.api.wellknown import Any, Timestamp
from shim.api.wire import Message, put_bytes, put_string, read_length, read_message_entry, read_string, read_string_entry, read_tag, read_varint, signed64, skip, varint


class Descriptor(Message):
    __slots__ = ("media_type", "digest", "size", "annotations")
    FULL_NAME = "containerd.types.Descriptor"

    def __init__(self, *, media_type: str = "", digest: str = "", size: int = 0, annotations: dict[str, str] | None = None) -> None:
        self.media_type = media_type
        self.digest = digest
        self.size = size
        self.annotations: dict[str, str] = {} if annotations is None else annotations

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                self.media_type, pos = read_string(data, pos, end)
            elif tag == 18:
                self.digest, pos = read_string(data, pos, end)
            elif tag == 24:
                value, pos = read_varint(data, pos, end)
                self.size = signed64(value)
            elif tag == 42:
                pos, stop = read_length(data, pos, end)
                key, text = read_string_entry(data, pos, stop)
                self.annotations[key] = text
                pos = stop
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.media_type:
            out.append(put_string(b'\n', self.media_type))
        if self.digest:
            out.append(put_string(b'\x12', self.digest))
        if self.size:
            out.append(b'\x18' + varint(self.size))
        for key in sorted(self.annotations):
            out.append(put_bytes(b'*', put_string(b'\n', key) + put_string(b'\x12', self.annotations[key])))
        return b"".join(out)


class Sandbox(Message):
    class Runtime(Message):
        __slots__ = ("name", "options")
        FULL_NAME = "containerd.types.Sandbox.Runtime"

        def __init__(self, *, name: str = "", options: Any | None = None) -> None:
            self.name = name
            self.options = options

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
                    if self.options is None:
                        self.options = Any()
                    self.options.merge(data, pos, stop)
                    pos = stop
                else:
                    pos = skip(data, pos, end, tag)

        def encode(self) -> bytes:
            out: list[bytes] = []
            if self.name:
                out.append(put_string(b'\n', self.name))
            if self.options is not None:
                out.append(put_bytes(b'\x12', self.options.encode()))
            return b"".join(out)

    __slots__ = ("sandbox_id", "runtime", "spec", "labels", "created_at", "updated_at", "extensions", "sandboxer")
    FULL_NAME = "containerd.types.Sandbox"

    def __init__(self, *, sandbox_id: str = "", runtime: Sandbox.Runtime | None = None, spec: Any | None = None, labels: dict[str, str] | None = None, created_at: Timestamp | None = None, updated_at: Timestamp | None = None, extensions: dict[str, Any] | None = None, sandboxer: str = "") -> None:
        self.sandbox_id = sandbox_id
        self.runtime = runtime
        self.spec = spec
        self.labels: dict[str, str] = {} if labels is None else labels
        self.created_at = created_at
        self.updated_at = updated_at
        self.extensions: dict[str, Any] = {} if extensions is None else extensions
        self.sandboxer = sandboxer

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                self.sandbox_id, pos = read_string(data, pos, end)
            elif tag == 18:
                pos, stop = read_length(data, pos, end)
                if self.runtime is None:
                    self.runtime = Sandbox.Runtime()
                self.runtime.merge(data, pos, stop)
                pos = stop
            elif tag == 26:
                pos, stop = read_length(data, pos, end)
                if self.spec is None:
                    self.spec = Any()
                self.spec.merge(data, pos, stop)
                pos = stop
            elif tag == 34:
                pos, stop = read_length(data, pos, end)
                key, text = read_string_entry(data, pos, stop)
                self.labels[key] = text
                pos = stop
            elif tag == 42:
                pos, stop = read_length(data, pos, end)
                if self.created_at is None:
                    self.created_at = Timestamp()
                self.created_at.merge(data, pos, stop)
                pos = stop
            elif tag == 50:
                pos, stop = read_length(data, pos, end)
                if self.updated_at is None:
                    self.updated_at = Timestamp()
                self.updated_at.merge(data, pos, stop)
                pos = stop
            elif tag == 58:
                pos, stop = read_length(data, pos, end)
                item_7 = Any()
                key = read_message_entry(data, pos, stop, item_7)
                self.extensions[key] = item_7
                pos = stop
            elif tag == 82:
                self.sandboxer, pos = read_string(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.sandbox_id:
            out.append(put_string(b'\n', self.sandbox_id))
        if self.runtime is not None:
            out.append(put_bytes(b'\x12', self.runtime.encode()))
        if self.spec is not None:
            out.append(put_bytes(b'\x1a', self.spec.encode()))
        for key in sorted(self.labels):
            out.append(put_bytes(b'"', put_string(b'\n', key) + put_string(b'\x12', self.labels[key])))
        if self.created_at is not None:
            out.append(put_bytes(b'*', self.created_at.encode()))
        if self.updated_at is not None:
            out.append(put_bytes(b'2', self.updated_at.encode()))
        for key in sorted(self.extensions):
            out.append(put_bytes(b':', put_string(b'\n', key) + put_bytes(b'\x12', self.extensions[key].encode())))
        if self.sandboxer:
            out.append(put_string(b'R', self.sandboxer))
        return b"".join(out)

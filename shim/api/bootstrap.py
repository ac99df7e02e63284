# Generated from containerd/bootstrap/v1/bootstrap.proto by scripts/generate_api.py. Do not edit; `make proto` regenerates it.
from __future__ import annotations

from shim.api.wellknown import Any
from shim.api.wire import Message, put_bytes, put_string, read_length, read_string, read_string_entry, read_tag, read_varint, signed32, skip, varint


class LogLevel:
    __slots__ = ()
    LOG_LEVEL_INFO = 0
    LOG_LEVEL_TRACE = -8
    LOG_LEVEL_DEBUG = -4
    LOG_LEVEL_WARN = 4
    LOG_LEVEL_ERROR = 8
    LOG_LEVEL_FATAL = 10
    LOG_LEVEL_PANIC = 12


class Capability:
    __slots__ = ()
    CAPABILITY_UNSPECIFIED = 0


class Extension(Message):
    __slots__ = ("value",)
    FULL_NAME = "containerd.runtime.bootstrap.v1.Extension"

    def __init__(self, *, value: Any | None = None) -> None:
        self.value = value

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                pos, stop = read_length(data, pos, end)
                if self.value is None:
                    self.value = Any()
                self.value.merge(data, pos, stop)
                pos = stop
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.value is not None:
            out.append(put_bytes(b'\n', self.value.encode()))
        return b"".join(out)


class BootstrapParams(Message):
    __slots__ = ("instance_id", "namespace", "log_level", "containerd_version", "containerd_ttrpc_address", "containerd_grpc_address", "containerd_binary", "extensions", "socket_dir")
    FULL_NAME = "containerd.runtime.bootstrap.v1.BootstrapParams"

    def __init__(self, *, instance_id: str = "", namespace: str = "", log_level: int = 0, containerd_version: str = "", containerd_ttrpc_address: str = "", containerd_grpc_address: str = "", containerd_binary: str = "", extensions: list[Extension] | None = None, socket_dir: str | None = None) -> None:
        self.instance_id = instance_id
        self.namespace = namespace
        self.log_level = log_level
        self.containerd_version = containerd_version
        self.containerd_ttrpc_address = containerd_ttrpc_address
        self.containerd_grpc_address = containerd_grpc_address
        self.containerd_binary = containerd_binary
        self.extensions: list[Extension] = [] if extensions is None else extensions
        self.socket_dir = socket_dir

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                self.instance_id, pos = read_string(data, pos, end)
            elif tag == 18:
                self.namespace, pos = read_string(data, pos, end)
            elif tag == 24:
                value, pos = read_varint(data, pos, end)
                self.log_level = signed32(value)
            elif tag == 34:
                self.containerd_version, pos = read_string(data, pos, end)
            elif tag == 42:
                self.containerd_ttrpc_address, pos = read_string(data, pos, end)
            elif tag == 50:
                self.containerd_grpc_address, pos = read_string(data, pos, end)
            elif tag == 58:
                self.containerd_binary, pos = read_string(data, pos, end)
            elif tag == 66:
                pos, stop = read_length(data, pos, end)
                item_8 = Extension()
                item_8.merge(data, pos, stop)
                self.extensions.append(item_8)
                pos = stop
            elif tag == 74:
                self.socket_dir, pos = read_string(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.instance_id:
            out.append(put_string(b'\n', self.instance_id))
        if self.namespace:
            out.append(put_string(b'\x12', self.namespace))
        if self.log_level:
            out.append(b'\x18' + varint(self.log_level))
        if self.containerd_version:
            out.append(put_string(b'"', self.containerd_version))
        if self.containerd_ttrpc_address:
            out.append(put_string(b'*', self.containerd_ttrpc_address))
        if self.containerd_grpc_address:
            out.append(put_string(b'2', self.containerd_grpc_address))
        if self.containerd_binary:
            out.append(put_string(b':', self.containerd_binary))
        for item_8 in self.extensions:
            out.append(put_bytes(b'B', item_8.encode()))
        if self.socket_dir is not None:
            out.append(put_string(b'J', self.socket_dir))
        return b"".join(out)


class BootstrapResult(Message):
    __slots__ = ("version", "address", "protocol", "capabilities", "metadata")
    FULL_NAME = "containerd.runtime.bootstrap.v1.BootstrapResult"

    def __init__(self, *, version: int = 0, address: str = "", protocol: str = "", capabilities: list[int] | None = None, metadata: dict[str, str] | None = None) -> None:
        self.version = version
        self.address = address
        self.protocol = protocol
        self.capabilities: list[int] = [] if capabilities is None else capabilities
        self.metadata: dict[str, str] = {} if metadata is None else metadata

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 8:
                value, pos = read_varint(data, pos, end)
                self.version = signed32(value)
            elif tag == 18:
                self.address, pos = read_string(data, pos, end)
            elif tag == 26:
                self.protocol, pos = read_string(data, pos, end)
            elif tag == 32:
                value, pos = read_varint(data, pos, end)
                self.capabilities.append(signed32(value))
            elif tag == 34:
                pos, stop = read_length(data, pos, end)
                while pos < stop:
                    value, pos = read_varint(data, pos, stop)
                    self.capabilities.append(signed32(value))
            elif tag == 42:
                pos, stop = read_length(data, pos, end)
                key, text = read_string_entry(data, pos, stop)
                self.metadata[key] = text
                pos = stop
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.version:
            out.append(b'\x08' + varint(self.version))
        if self.address:
            out.append(put_string(b'\x12', self.address))
        if self.protocol:
            out.append(put_string(b'\x1a', self.protocol))
        if self.capabilities:
            out.append(put_bytes(b'"', b''.join([varint(value) for value in self.capabilities])))
        for key in sorted(self.metadata):
            out.append(put_bytes(b'*', put_string(b'\n', key) + put_string(b'\x12', self.metadata[key])))
        return b"".join(out)

# Generated from containerd/sandbox/v1/sandbox.proto by scripts/generate_api.py. Do not edit; `make proto` regenerates it.
from __future__ import annotations

from shim.api.types import Mount
from shim.api.types_more import Metric, Platform
from shim.api.wellknown import Any, Timestamp
from shim.api.wire import Message, put_bytes, put_string, read_length, read_string, read_string_entry, read_tag, read_varint, skip, varint


class CreateSandboxRequest(Message):
    __slots__ = ("sandbox_id", "bundle_path", "rootfs", "options", "netns_path", "annotations")
    FULL_NAME = "containerd.runtime.sandbox.v1.CreateSandboxRequest"

    def __init__(self, *, sandbox_id: str = "", bundle_path: str = "", rootfs: list[Mount] | None = None, options: Any | None = None, netns_path: str = "", annotations: dict[str, str] | None = None) -> None:
        self.sandbox_id = sandbox_id
        self.bundle_path = bundle_path
        self.rootfs: list[Mount] = [] if rootfs is None else rootfs
        self.options = options
        self.netns_path = netns_path
        self.annotations: dict[str, str] = {} if annotations is None else annotations

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                self.sandbox_id, pos = read_string(data, pos, end)
            elif tag == 18:
                self.bundle_path, pos = read_string(data, pos, end)
            elif tag == 26:
                pos, stop = read_length(data, pos, end)
                item_3 = Mount()
                item_3.merge(data, pos, stop)
                self.rootfs.append(item_3)
                pos = stop
            elif tag == 34:
                pos, stop = read_length(data, pos, end)
                if self.options is None:
                    self.options = Any()
                self.options.merge(data, pos, stop)
                pos = stop
            elif tag == 42:
                self.netns_path, pos = read_string(data, pos, end)
            elif tag == 50:
                pos, stop = read_length(data, pos, end)
                key, text = read_string_entry(data, pos, stop)
                self.annotations[key] = text
                pos = stop
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.sandbox_id:
            out.append(put_string(b'\n', self.sandbox_id))
        if self.bundle_path:
            out.append(put_string(b'\x12', self.bundle_path))
        for item_3 in self.rootfs:
            out.append(put_bytes(b'\x1a', item_3.encode()))
        if self.options is not None:
            out.append(put_bytes(b'"', self.options.encode()))
        if self.netns_path:
            out.append(put_string(b'*', self.netns_path))
        for key in sorted(self.annotations):
            out.append(put_bytes(b'2', put_string(b'\n', key) + put_string(b'\x12', self.annotations[key])))
        return b"".join(out)


class CreateSandboxResponse(Message):
    __slots__ = ()
    FULL_NAME = "containerd.runtime.sandbox.v1.CreateSandboxResponse"


class StartSandboxRequest(Message):
    __slots__ = ("sandbox_id",)
    FULL_NAME = "containerd.runtime.sandbox.v1.StartSandboxRequest"

    def __init__(self, *, sandbox_id: str = "") -> None:
        self.sandbox_id = sandbox_id

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                self.sandbox_id, pos = read_string(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.sandbox_id:
            out.append(put_string(b'\n', self.sandbox_id))
        return b"".join(out)


class StartSandboxResponse(Message):
    __slots__ = ("pid", "created_at", "spec")
    FULL_NAME = "containerd.runtime.sandbox.v1.StartSandboxResponse"

    def __init__(self, *, pid: int = 0, created_at: Timestamp | None = None, spec: Any | None = None) -> None:
        self.pid = pid
        self.created_at = created_at
        self.spec = spec

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 8:
                value, pos = read_varint(data, pos, end)
                self.pid = value & 0xFFFFFFFF
            elif tag == 18:
                pos, stop = read_length(data, pos, end)
                if self.created_at is None:
                    self.created_at = Timestamp()
                self.created_at.merge(data, pos, stop)
                pos = stop
            elif tag == 26:
                pos, stop = read_length(data, pos, end)
                if self.spec is None:
                    self.spec = Any()
                self.spec.merge(data, pos, stop)
                pos = stop
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.pid:
            out.append(b'\x08' + varint(self.pid & 0xFFFFFFFF))
        if self.created_at is not None:
            out.append(put_bytes(b'\x12', self.created_at.encode()))
        if self.spec is not None:
            out.append(put_bytes(b'\x1a', self.spec.encode()))
        return b"".join(out)


class PlatformRequest(Message):
    __slots__ = ("sandbox_id",)
    FULL_NAME = "containerd.runtime.sandbox.v1.PlatformRequest"

    def __init__(self, *, sandbox_id: str = "") -> None:
        self.sandbox_id = sandbox_id

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                self.sandbox_id, pos = read_string(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.sandbox_id:
            out.append(put_string(b'\n', self.sandbox_id))
        return b"".join(out)


class PlatformResponse(Message):
    __slots__ = ("platform",)
    FULL_NAME = "containerd.runtime.sandbox.v1.PlatformResponse"

    def __init__(self, *, platform: Platform | None = None) -> None:
        self.platform = platform

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                pos, stop = read_length(data, pos, end)
                if self.platform is None:
                    self.platform = Platform()
                self.platform.merge(data, pos, stop)
                pos = stop
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.platform is not None:
            out.append(put_bytes(b'\n', self.platform.encode()))
        return b"".join(out)


class StopSandboxRequest(Message):
    __slots__ = ("sandbox_id", "timeout_secs")
    FULL_NAME = "containerd.runtime.sandbox.v1.StopSandboxRequest"

    def __init__(self, *, sandbox_id: str = "", timeout_secs: int = 0) -> None:
        self.sandbox_id = sandbox_id
        self.timeout_secs = timeout_secs

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                self.sandbox_id, pos = read_string(data, pos, end)
            elif tag == 16:
                value, pos = read_varint(data, pos, end)
                self.timeout_secs = value & 0xFFFFFFFF
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.sandbox_id:
            out.append(put_string(b'\n', self.sandbox_id))
        if self.timeout_secs:
            out.append(b'\x10' + varint(self.timeout_secs & 0xFFFFFFFF))
        return b"".join(out)


class StopSandboxResponse(Message):
    __slots__ = ()
    FULL_NAME = "containerd.runtime.sandbox.v1.StopSandboxResponse"


class UpdateSandboxRequest(Message):
    __slots__ = ("sandbox_id", "resources", "annotations")
    FULL_NAME = "containerd.runtime.sandbox.v1.UpdateSandboxRequest"

    def __init__(self, *, sandbox_id: str = "", resources: Any | None = None, annotations: dict[str, str] | None = None) -> None:
        self.sandbox_id = sandbox_id
        self.resources = resources
        self.annotations: dict[str, str] = {} if annotations is None else annotations

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
                if self.resources is None:
                    self.resources = Any()
                self.resources.merge(data, pos, stop)
                pos = stop
            elif tag == 26:
                pos, stop = read_length(data, pos, end)
                key, text = read_string_entry(data, pos, stop)
                self.annotations[key] = text
                pos = stop
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.sandbox_id:
            out.append(put_string(b'\n', self.sandbox_id))
        if self.resources is not None:
            out.append(put_bytes(b'\x12', self.resources.encode()))
        for key in sorted(self.annotations):
            out.append(put_bytes(b'\x1a', put_string(b'\n', key) + put_string(b'\x12', self.annotations[key])))
        return b"".join(out)


class UpdateSandboxResponse(Message):
    __slots__ = ()
    FULL_NAME = "containerd.runtime.sandbox.v1.UpdateSandboxResponse"


class WaitSandboxRequest(Message):
    __slots__ = ("sandbox_id",)
    FULL_NAME = "containerd.runtime.sandbox.v1.WaitSandboxRequest"

    def __init__(self, *, sandbox_id: str = "") -> None:
        self.sandbox_id = sandbox_id

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                self.sandbox_id, pos = read_string(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.sandbox_id:
            out.append(put_string(b'\n', self.sandbox_id))
        return b"".join(out)


class WaitSandboxResponse(Message):
    __slots__ = ("exit_status", "exited_at")
    FULL_NAME = "containerd.runtime.sandbox.v1.WaitSandboxResponse"

    def __init__(self, *, exit_status: int = 0, exited_at: Timestamp | None = None) -> None:
        self.exit_status = exit_status
        self.exited_at = exited_at

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 8:
                value, pos = read_varint(data, pos, end)
                self.exit_status = value & 0xFFFFFFFF
            elif tag == 18:
                pos, stop = read_length(data, pos, end)
                if self.exited_at is None:
                    self.exited_at = Timestamp()
                self.exited_at.merge(data, pos, stop)
                pos = stop
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.exit_status:
            out.append(b'\x08' + varint(self.exit_status & 0xFFFFFFFF))
        if self.exited_at is not None:
            out.append(put_bytes(b'\x12', self.exited_at.encode()))
        return b"".join(out)


class SandboxStatusRequest(Message):
    __slots__ = ("sandbox_id", "verbose")
    FULL_NAME = "containerd.runtime.sandbox.v1.SandboxStatusRequest"

    def __init__(self, *, sandbox_id: str = "", verbose: bool = False) -> None:
        self.sandbox_id = sandbox_id
        self.verbose = verbose

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                self.sandbox_id, pos = read_string(data, pos, end)
            elif tag == 16:
                value, pos = read_varint(data, pos, end)
                self.verbose = value != 0
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.sandbox_id:
            out.append(put_string(b'\n', self.sandbox_id))
        if self.verbose:
            out.append(b'\x10\x01')
        return b"".join(out)


class SandboxStatusResponse(Message):
    __slots__ = ("sandbox_id", "pid", "state", "info", "created_at", "exited_at", "extra")
    FULL_NAME = "containerd.runtime.sandbox.v1.SandboxStatusResponse"

    def __init__(self, *, sandbox_id: str = "", pid: int = 0, state: str = "", info: dict[str, str] | None = None, created_at: Timestamp | None = None, exited_at: Timestamp | None = None, extra: Any | None = None) -> None:
        self.sandbox_id = sandbox_id
        self.pid = pid
        self.state = state
        self.info: dict[str, str] = {} if info is None else info
        self.created_at = created_at
        self.exited_at = exited_at
        self.extra = extra

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                self.sandbox_id, pos = read_string(data, pos, end)
            elif tag == 16:
                value, pos = read_varint(data, pos, end)
                self.pid = value & 0xFFFFFFFF
            elif tag == 26:
                self.state, pos = read_string(data, pos, end)
            elif tag == 34:
                pos, stop = read_length(data, pos, end)
                key, text = read_string_entry(data, pos, stop)
                self.info[key] = text
                pos = stop
            elif tag == 42:
                pos, stop = read_length(data, pos, end)
                if self.created_at is None:
                    self.created_at = Timestamp()
                self.created_at.merge(data, pos, stop)
                pos = stop
            elif tag == 50:
                pos, stop = read_length(data, pos, end)
                if self.exited_at is None:
                    self.exited_at = Timestamp()
                self.exited_at.merge(data, pos, stop)
                pos = stop
            elif tag == 58:
                pos, stop = read_length(data, pos, end)
                if self.extra is None:
                    self.extra = Any()
                self.extra.merge(data, pos, stop)
                pos = stop
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.sandbox_id:
            out.append(put_string(b'\n', self.sandbox_id))
        if self.pid:
            out.append(b'\x10' + varint(self.pid & 0xFFFFFFFF))
        if self.state:
            out.append(put_string(b'\x1a', self.state))
        for key in sorted(self.info):
            out.append(put_bytes(b'"', put_string(b'\n', key) + put_string(b'\x12', self.info[key])))
        if self.created_at is not None:
            out.append(put_bytes(b'*', self.created_at.encode()))
        if self.exited_at is not None:
            out.append(put_bytes(b'2', self.exited_at.encode()))
        if self.extra is not None:
            out.append(put_bytes(b':', self.extra.encode()))
        return b"".join(out)


class PingRequest(Message):
    __slots__ = ("sandbox_id",)
    FULL_NAME = "containerd.runtime.sandbox.v1.PingRequest"

    def __init__(self, *, sandbox_id: str = "") -> None:
        self.sandbox_id = sandbox_id

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                self.sandbox_id, pos = read_string(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.sandbox_id:
            out.append(put_string(b'\n', self.sandbox_id))
        return b"".join(out)


class PingResponse(Message):
    __slots__ = ()
    FULL_NAME = "containerd.runtime.sandbox.v1.PingResponse"


class ShutdownSandboxRequest(Message):
    __slots__ = ("sandbox_id",)
    FULL_NAME = "containerd.runtime.sandbox.v1.ShutdownSandboxRequest"

    def __init__(self, *, sandbox_id: str = "") -> None:
        self.sandbox_id = sandbox_id

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                self.sandbox_id, pos = read_string(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.sandbox_id:
            out.append(put_string(b'\n', self.sandbox_id))
        return b"".join(out)


class ShutdownSandboxResponse(Message):
    __slots__ = ()
    FULL_NAME = "containerd.runtime.sandbox.v1.ShutdownSandboxResponse"


class SandboxMetricsRequest(Message):
    __slots__ = ("sandbox_id",)
    FULL_NAME = "containerd.runtime.sandbox.v1.SandboxMetricsRequest"

    def __init__(self, *, sandbox_id: str = "") -> None:
        self.sandbox_id = sandbox_id

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                self.sandbox_id, pos = read_string(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.sandbox_id:
            out.append(put_string(b'\n', self.sandbox_id))
        return b"".join(out)


class SandboxMetricsResponse(Message):
    __slots__ = ("metrics",)
    FULL_NAME = "containerd.runtime.sandbox.v1.SandboxMetricsResponse"

    def __init__(self, *, metrics: Metric | None = None) -> None:
        self.metrics = metrics

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                pos, stop = read_length(data, pos, end)
                if self.metrics is None:
                    self.metrics = Metric()
                self.metrics.merge(data, pos, stop)
                pos = stop
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.metrics is not None:
            out.append(put_bytes(b'\n', self.metrics.encode()))
        return b"".join(out)


SERVICES: dict[str, dict[str, tuple[type[Message], type[Message]]]] = {
    "containerd.runtime.sandbox.v1.Sandbox": {
        "CreateSandbox": (CreateSandboxRequest, CreateSandboxResponse),
        "StartSandbox": (StartSandboxRequest, StartSandboxResponse),
        "Platform": (PlatformRequest, PlatformResponse),
        "StopSandbox": (StopSandboxRequest, StopSandboxResponse),
        "WaitSandbox": (WaitSandboxRequest, WaitSandboxResponse),
        "SandboxStatus": (SandboxStatusRequest, SandboxStatusResponse),
        "PingSandbox": (PingRequest, PingResponse),
        "ShutdownSandbox": (ShutdownSandboxRequest, ShutdownSandboxResponse),
        "SandboxMetrics": (SandboxMetricsRequest, SandboxMetricsResponse),
    },
}

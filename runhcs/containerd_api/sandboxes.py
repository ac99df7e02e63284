# Generated from containerd/services/sandboxes.proto by scripts/generate_api.py. Do not edit; `make proto` regenerates it.
from __future__ import annotations

from shim.api.sandbox_store import Sandbox
from shim.api.types import Mount
from shim.api.types_more import Metric
from shim.api.wellknown import Any, Timestamp
from shim.api.wire import Message, put_bytes, put_string, read_length, read_string, read_string_entry, read_tag, read_varint, skip, varint

_list = list


class StoreCreateRequest(Message):
    __slots__ = ("sandbox",)
    FULL_NAME = "containerd.services.sandbox.v1.StoreCreateRequest"

    def __init__(self, *, sandbox: Sandbox | None = None) -> None:
        self.sandbox = sandbox

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                pos, stop = read_length(data, pos, end)
                if self.sandbox is None:
                    self.sandbox = Sandbox()
                self.sandbox.merge(data, pos, stop)
                pos = stop
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.sandbox is not None:
            out.append(put_bytes(b'\n', self.sandbox.encode()))
        return b"".join(out)


class StoreCreateResponse(Message):
    __slots__ = ("sandbox",)
    FULL_NAME = "containerd.services.sandbox.v1.StoreCreateResponse"

    def __init__(self, *, sandbox: Sandbox | None = None) -> None:
        self.sandbox = sandbox

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                pos, stop = read_length(data, pos, end)
                if self.sandbox is None:
                    self.sandbox = Sandbox()
                self.sandbox.merge(data, pos, stop)
                pos = stop
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.sandbox is not None:
            out.append(put_bytes(b'\n', self.sandbox.encode()))
        return b"".join(out)


class StoreDeleteRequest(Message):
    __slots__ = ("sandbox_id",)
    FULL_NAME = "containerd.services.sandbox.v1.StoreDeleteRequest"

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


class StoreDeleteResponse(Message):
    __slots__ = ()
    FULL_NAME = "containerd.services.sandbox.v1.StoreDeleteResponse"


class StoreListRequest(Message):
    __slots__ = ("filters",)
    FULL_NAME = "containerd.services.sandbox.v1.StoreListRequest"

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


class StoreListResponse(Message):
    __slots__ = ("list",)
    FULL_NAME = "containerd.services.sandbox.v1.StoreListResponse"

    def __init__(self, *, list: _list[Sandbox] | None = None) -> None:
        self.list: _list[Sandbox] = [] if list is None else list

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                pos, stop = read_length(data, pos, end)
                item_1 = Sandbox()
                item_1.merge(data, pos, stop)
                self.list.append(item_1)
                pos = stop
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        for item_1 in self.list:
            out.append(put_bytes(b'\n', item_1.encode()))
        return b"".join(out)


class StoreGetRequest(Message):
    __slots__ = ("sandbox_id",)
    FULL_NAME = "containerd.services.sandbox.v1.StoreGetRequest"

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


class StoreGetResponse(Message):
    __slots__ = ("sandbox",)
    FULL_NAME = "containerd.services.sandbox.v1.StoreGetResponse"

    def __init__(self, *, sandbox: Sandbox | None = None) -> None:
        self.sandbox = sandbox

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                pos, stop = read_length(data, pos, end)
                if self.sandbox is None:
                    self.sandbox = Sandbox()
                self.sandbox.merge(data, pos, stop)
                pos = stop
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.sandbox is not None:
            out.append(put_bytes(b'\n', self.sandbox.encode()))
        return b"".join(out)


class ControllerCreateRequest(Message):
    __slots__ = ("sandbox_id", "rootfs", "options", "netns_path", "annotations", "sandbox", "sandboxer")
    FULL_NAME = "containerd.services.sandbox.v1.ControllerCreateRequest"

    def __init__(self, *, sandbox_id: str = "", rootfs: list[Mount] | None = None, options: Any | None = None, netns_path: str = "", annotations: dict[str, str] | None = None, sandbox: Sandbox | None = None, sandboxer: str = "") -> None:
        self.sandbox_id = sandbox_id
        self.rootfs: list[Mount] = [] if rootfs is None else rootfs
        self.options = options
        self.netns_path = netns_path
        self.annotations: dict[str, str] = {} if annotations is None else annotations
        self.sandbox = sandbox
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
                item_2 = Mount()
                item_2.merge(data, pos, stop)
                self.rootfs.append(item_2)
                pos = stop
            elif tag == 26:
                pos, stop = read_length(data, pos, end)
                if self.options is None:
                    self.options = Any()
                self.options.merge(data, pos, stop)
                pos = stop
            elif tag == 34:
                self.netns_path, pos = read_string(data, pos, end)
            elif tag == 42:
                pos, stop = read_length(data, pos, end)
                key, text = read_string_entry(data, pos, stop)
                self.annotations[key] = text
                pos = stop
            elif tag == 50:
                pos, stop = read_length(data, pos, end)
                if self.sandbox is None:
                    self.sandbox = Sandbox()
                self.sandbox.merge(data, pos, stop)
                pos = stop
            elif tag == 82:
                self.sandboxer, pos = read_string(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.sandbox_id:
            out.append(put_string(b'\n', self.sandbox_id))
        for item_2 in self.rootfs:
            out.append(put_bytes(b'\x12', item_2.encode()))
        if self.options is not None:
            out.append(put_bytes(b'\x1a', self.options.encode()))
        if self.netns_path:
            out.append(put_string(b'"', self.netns_path))
        for key in sorted(self.annotations):
            out.append(put_bytes(b'*', put_string(b'\n', key) + put_string(b'\x12', self.annotations[key])))
        if self.sandbox is not None:
            out.append(put_bytes(b'2', self.sandbox.encode()))
        if self.sandboxer:
            out.append(put_string(b'R', self.sandboxer))
        return b"".join(out)


class ControllerCreateResponse(Message):
    __slots__ = ("sandbox_id",)
    FULL_NAME = "containerd.services.sandbox.v1.ControllerCreateResponse"

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


class ControllerStartRequest(Message):
    __slots__ = ("sandbox_id", "sandboxer")
    FULL_NAME = "containerd.services.sandbox.v1.ControllerStartRequest"

    def __init__(self, *, sandbox_id: str = "", sandboxer: str = "") -> None:
        self.sandbox_id = sandbox_id
        self.sandboxer = sandboxer

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                self.sandbox_id, pos = read_string(data, pos, end)
            elif tag == 82:
                self.sandboxer, pos = read_string(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.sandbox_id:
            out.append(put_string(b'\n', self.sandbox_id))
        if self.sandboxer:
            out.append(put_string(b'R', self.sandboxer))
        return b"".join(out)


class ControllerStartResponse(Message):
    __slots__ = ("sandbox_id", "pid", "created_at", "labels", "address", "version", "spec")
    FULL_NAME = "containerd.services.sandbox.v1.ControllerStartResponse"

    def __init__(self, *, sandbox_id: str = "", pid: int = 0, created_at: Timestamp | None = None, labels: dict[str, str] | None = None, address: str = "", version: int = 0, spec: Any | None = None) -> None:
        self.sandbox_id = sandbox_id
        self.pid = pid
        self.created_at = created_at
        self.labels: dict[str, str] = {} if labels is None else labels
        self.address = address
        self.version = version
        self.spec = spec

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
                pos, stop = read_length(data, pos, end)
                if self.created_at is None:
                    self.created_at = Timestamp()
                self.created_at.merge(data, pos, stop)
                pos = stop
            elif tag == 34:
                pos, stop = read_length(data, pos, end)
                key, text = read_string_entry(data, pos, stop)
                self.labels[key] = text
                pos = stop
            elif tag == 42:
                self.address, pos = read_string(data, pos, end)
            elif tag == 48:
                value, pos = read_varint(data, pos, end)
                self.version = value & 0xFFFFFFFF
            elif tag == 58:
                pos, stop = read_length(data, pos, end)
                if self.spec is None:
                    self.spec = Any()
                self.spec.merge(data, pos, stop)
                pos = stop
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.sandbox_id:
            out.append(put_string(b'\n', self.sandbox_id))
        if self.pid:
            out.append(b'\x10' + varint(self.pid & 0xFFFFFFFF))
        if self.created_at is not None:
            out.append(put_bytes(b'\x1a', self.created_at.encode()))
        for key in sorted(self.labels):
            out.append(put_bytes(b'"', put_string(b'\n', key) + put_string(b'\x12', self.labels[key])))
        if self.address:
            out.append(put_string(b'*', self.address))
        if self.version:
            out.append(b'0' + varint(self.version & 0xFFFFFFFF))
        if self.spec is not None:
            out.append(put_bytes(b':', self.spec.encode()))
        return b"".join(out)


class ControllerStopRequest(Message):
    __slots__ = ("sandbox_id", "timeout_secs", "sandboxer")
    FULL_NAME = "containerd.services.sandbox.v1.ControllerStopRequest"

    def __init__(self, *, sandbox_id: str = "", timeout_secs: int = 0, sandboxer: str = "") -> None:
        self.sandbox_id = sandbox_id
        self.timeout_secs = timeout_secs
        self.sandboxer = sandboxer

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
            elif tag == 82:
                self.sandboxer, pos = read_string(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.sandbox_id:
            out.append(put_string(b'\n', self.sandbox_id))
        if self.timeout_secs:
            out.append(b'\x10' + varint(self.timeout_secs & 0xFFFFFFFF))
        if self.sandboxer:
            out.append(put_string(b'R', self.sandboxer))
        return b"".join(out)


class ControllerStopResponse(Message):
    __slots__ = ()
    FULL_NAME = "containerd.services.sandbox.v1.ControllerStopResponse"


class ControllerWaitRequest(Message):
    __slots__ = ("sandbox_id", "sandboxer")
    FULL_NAME = "containerd.services.sandbox.v1.ControllerWaitRequest"

    def __init__(self, *, sandbox_id: str = "", sandboxer: str = "") -> None:
        self.sandbox_id = sandbox_id
        self.sandboxer = sandboxer

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                self.sandbox_id, pos = read_string(data, pos, end)
            elif tag == 82:
                self.sandboxer, pos = read_string(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.sandbox_id:
            out.append(put_string(b'\n', self.sandbox_id))
        if self.sandboxer:
            out.append(put_string(b'R', self.sandboxer))
        return b"".join(out)


class ControllerWaitResponse(Message):
    __slots__ = ("exit_status", "exited_at")
    FULL_NAME = "containerd.services.sandbox.v1.ControllerWaitResponse"

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


class ControllerStatusRequest(Message):
    __slots__ = ("sandbox_id", "verbose", "sandboxer")
    FULL_NAME = "containerd.services.sandbox.v1.ControllerStatusRequest"

    def __init__(self, *, sandbox_id: str = "", verbose: bool = False, sandboxer: str = "") -> None:
        self.sandbox_id = sandbox_id
        self.verbose = verbose
        self.sandboxer = sandboxer

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
            elif tag == 82:
                self.sandboxer, pos = read_string(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.sandbox_id:
            out.append(put_string(b'\n', self.sandbox_id))
        if self.verbose:
            out.append(b'\x10\x01')
        if self.sandboxer:
            out.append(put_string(b'R', self.sandboxer))
        return b"".join(out)


class ControllerStatusResponse(Message):
    __slots__ = ("sandbox_id", "pid", "state", "info", "created_at", "exited_at", "extra", "address", "version")
    FULL_NAME = "containerd.services.sandbox.v1.ControllerStatusResponse"

    def __init__(self, *, sandbox_id: str = "", pid: int = 0, state: str = "", info: dict[str, str] | None = None, created_at: Timestamp | None = None, exited_at: Timestamp | None = None, extra: Any | None = None, address: str = "", version: int = 0) -> None:
        self.sandbox_id = sandbox_id
        self.pid = pid
        self.state = state
        self.info: dict[str, str] = {} if info is None else info
        self.created_at = created_at
        self.exited_at = exited_at
        self.extra = extra
        self.address = address
        self.version = version

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
            elif tag == 66:
                self.address, pos = read_string(data, pos, end)
            elif tag == 72:
                value, pos = read_varint(data, pos, end)
                self.version = value & 0xFFFFFFFF
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
        if self.address:
            out.append(put_string(b'B', self.address))
        if self.version:
            out.append(b'H' + varint(self.version & 0xFFFFFFFF))
        return b"".join(out)


class ControllerShutdownRequest(Message):
    __slots__ = ("sandbox_id", "sandboxer")
    FULL_NAME = "containerd.services.sandbox.v1.ControllerShutdownRequest"

    def __init__(self, *, sandbox_id: str = "", sandboxer: str = "") -> None:
        self.sandbox_id = sandbox_id
        self.sandboxer = sandboxer

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                self.sandbox_id, pos = read_string(data, pos, end)
            elif tag == 82:
                self.sandboxer, pos = read_string(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.sandbox_id:
            out.append(put_string(b'\n', self.sandbox_id))
        if self.sandboxer:
            out.append(put_string(b'R', self.sandboxer))
        return b"".join(out)


class ControllerShutdownResponse(Message):
    __slots__ = ()
    FULL_NAME = "containerd.services.sandbox.v1.ControllerShutdownResponse"


class ControllerMetricsRequest(Message):
    __slots__ = ("sandbox_id", "sandboxer")
    FULL_NAME = "containerd.services.sandbox.v1.ControllerMetricsRequest"

    def __init__(self, *, sandbox_id: str = "", sandboxer: str = "") -> None:
        self.sandbox_id = sandbox_id
        self.sandboxer = sandboxer

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                self.sandbox_id, pos = read_string(data, pos, end)
            elif tag == 82:
                self.sandboxer, pos = read_string(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.sandbox_id:
            out.append(put_string(b'\n', self.sandbox_id))
        if self.sandboxer:
            out.append(put_string(b'R', self.sandboxer))
        return b"".join(out)


class ControllerMetricsResponse(Message):
    __slots__ = ("metrics",)
    FULL_NAME = "containerd.services.sandbox.v1.ControllerMetricsResponse"

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
    "containerd.services.sandbox.v1.Store": {
        "Create": (StoreCreateRequest, StoreCreateResponse),
        "Delete": (StoreDeleteRequest, StoreDeleteResponse),
        "List": (StoreListRequest, StoreListResponse),
        "Get": (StoreGetRequest, StoreGetResponse),
    },
    "containerd.services.sandbox.v1.Controller": {
        "Create": (ControllerCreateRequest, ControllerCreateResponse),
        "Start": (ControllerStartRequest, ControllerStartResponse),
        "Stop": (ControllerStopRequest, ControllerStopResponse),
        "Wait": (ControllerWaitRequest, ControllerWaitResponse),
        "Status": (ControllerStatusRequest, ControllerStatusResponse),
        "Shutdown": (ControllerShutdownRequest, ControllerShutdownResponse),
        "Metrics": (ControllerMetricsRequest, ControllerMetricsResponse),
    },
}

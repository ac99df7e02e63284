# Generated from containerd/services/containers.proto by scripts/generate_api.py. Do not edit; `make proto` regenerates it.
from __future__ import annotations

from shim.api.wellknown import Any, Empty, Timestamp
from shim.api.wire import Message, put_bytes, put_string, read_length, read_message_entry, read_string, read_string_entry, read_tag, skip


class Container(Message):
    class Runtime(Message):
        __slots__ = ("name", "options")
        FULL_NAME = "containerd.services.containers.v1.Container.Runtime"

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

    __slots__ = ("id", "labels", "image", "runtime", "spec", "snapshotter", "snapshot_key", "created_at", "updated_at", "extensions", "sandbox")
    FULL_NAME = "containerd.services.containers.v1.Container"

    def __init__(self, *, id: str = "", labels: dict[str, str] | None = None, image: str = "", runtime: Container.Runtime | None = None, spec: Any | None = None, snapshotter: str = "", snapshot_key: str = "", created_at: Timestamp | None = None, updated_at: Timestamp | None = None, extensions: dict[str, Any] | None = None, sandbox: str = "") -> None:
        self.id = id
        self.labels: dict[str, str] = {} if labels is None else labels
        self.image = image
        self.runtime = runtime
        self.spec = spec
        self.snapshotter = snapshotter
        self.snapshot_key = snapshot_key
        self.created_at = created_at
        self.updated_at = updated_at
        self.extensions: dict[str, Any] = {} if extensions is None else extensions
        self.sandbox = sandbox

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                self.id, pos = read_string(data, pos, end)
            elif tag == 18:
                pos, stop = read_length(data, pos, end)
                key, text = read_string_entry(data, pos, stop)
                self.labels[key] = text
                pos = stop
            elif tag == 26:
                self.image, pos = read_string(data, pos, end)
            elif tag == 34:
                pos, stop = read_length(data, pos, end)
                if self.runtime is None:
                    self.runtime = Container.Runtime()
                self.runtime.merge(data, pos, stop)
                pos = stop
            elif tag == 42:
                pos, stop = read_length(data, pos, end)
                if self.spec is None:
                    self.spec = Any()
                self.spec.merge(data, pos, stop)
                pos = stop
            elif tag == 50:
                self.snapshotter, pos = read_string(data, pos, end)
            elif tag == 58:
                self.snapshot_key, pos = read_string(data, pos, end)
            elif tag == 66:
                pos, stop = read_length(data, pos, end)
                if self.created_at is None:
                    self.created_at = Timestamp()
                self.created_at.merge(data, pos, stop)
                pos = stop
            elif tag == 74:
                pos, stop = read_length(data, pos, end)
                if self.updated_at is None:
                    self.updated_at = Timestamp()
                self.updated_at.merge(data, pos, stop)
                pos = stop
            elif tag == 82:
                pos, stop = read_length(data, pos, end)
                item_10 = Any()
                key = read_message_entry(data, pos, stop, item_10)
                self.extensions[key] = item_10
                pos = stop
            elif tag == 90:
                self.sandbox, pos = read_string(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.id:
            out.append(put_string(b'\n', self.id))
        for key in sorted(self.labels):
            out.append(put_bytes(b'\x12', put_string(b'\n', key) + put_string(b'\x12', self.labels[key])))
        if self.image:
            out.append(put_string(b'\x1a', self.image))
        if self.runtime is not None:
            out.append(put_bytes(b'"', self.runtime.encode()))
        if self.spec is not None:
            out.append(put_bytes(b'*', self.spec.encode()))
        if self.snapshotter:
            out.append(put_string(b'2', self.snapshotter))
        if self.snapshot_key:
            out.append(put_string(b':', self.snapshot_key))
        if self.created_at is not None:
            out.append(put_bytes(b'B', self.created_at.encode()))
        if self.updated_at is not None:
            out.append(put_bytes(b'J', self.updated_at.encode()))
        for key in sorted(self.extensions):
            out.append(put_bytes(b'R', put_string(b'\n', key) + put_bytes(b'\x12', self.extensions[key].encode())))
        if self.sandbox:
            out.append(put_string(b'Z', self.sandbox))
        return b"".join(out)


class GetContainerRequest(Message):
    __slots__ = ("id",)
    FULL_NAME = "containerd.services.containers.v1.GetContainerRequest"

    def __init__(self, *, id: str = "") -> None:
        self.id = id

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                self.id, pos = read_string(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.id:
            out.append(put_string(b'\n', self.id))
        return b"".join(out)


class GetContainerResponse(Message):
    __slots__ = ("container",)
    FULL_NAME = "containerd.services.containers.v1.GetContainerResponse"

    def __init__(self, *, container: Container | None = None) -> None:
        self.container = container

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                pos, stop = read_length(data, pos, end)
                if self.container is None:
                    self.container = Container()
                self.container.merge(data, pos, stop)
                pos = stop
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.container is not None:
            out.append(put_bytes(b'\n', self.container.encode()))
        return b"".join(out)


class ListContainersRequest(Message):
    __slots__ = ("filters",)
    FULL_NAME = "containerd.services.containers.v1.ListContainersRequest"

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


class ListContainersResponse(Message):
    __slots__ = ("containers",)
    FULL_NAME = "containerd.services.containers.v1.ListContainersResponse"

    def __init__(self, *, containers: list[Container] | None = None) -> None:
        self.containers: list[Container] = [] if containers is None else containers

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                pos, stop = read_length(data, pos, end)
                item_1 = Container()
                item_1.merge(data, pos, stop)
                self.containers.append(item_1)
                pos = stop
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        for item_1 in self.containers:
            out.append(put_bytes(b'\n', item_1.encode()))
        return b"".join(out)


class CreateContainerRequest(Message):
    __slots__ = ("container",)
    FULL_NAME = "containerd.services.containers.v1.CreateContainerRequest"

    def __init__(self, *, container: Container | None = None) -> None:
        self.container = container

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                pos, stop = read_length(data, pos, end)
                if self.container is None:
                    self.container = Container()
                self.container.merge(data, pos, stop)
                pos = stop
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.container is not None:
            out.append(put_bytes(b'\n', self.container.encode()))
        return b"".join(out)


class CreateContainerResponse(Message):
    __slots__ = ("container",)
    FULL_NAME = "containerd.services.containers.v1.CreateContainerResponse"

    def __init__(self, *, container: Container | None = None) -> None:
        self.container = container

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                pos, stop = read_length(data, pos, end)
                if self.container is None:
                    self.container = Container()
                self.container.merge(data, pos, stop)
                pos = stop
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.container is not None:
            out.append(put_bytes(b'\n', self.container.encode()))
        return b"".join(out)


class DeleteContainerRequest(Message):
    __slots__ = ("id",)
    FULL_NAME = "containerd.services.containers.v1.DeleteContainerRequest"

    def __init__(self, *, id: str = "") -> None:
        self.id = id

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                self.id, pos = read_string(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.id:
            out.append(put_string(b'\n', self.id))
        return b"".join(out)


SERVICES: dict[str, dict[str, tuple[type[Message], type[Message]]]] = {
    "containerd.services.containers.v1.Containers": {
        "Get": (GetContainerRequest, GetContainerResponse),
        "List": (ListContainersRequest, ListContainersResponse),
        "Create": (CreateContainerRequest, CreateContainerResponse),
        "Delete": (DeleteContainerRequest, Empty),
    },
}

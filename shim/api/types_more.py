# Generated from containerd/types/mount.proto, containerd/types/task.proto, containerd/types/metrics.proto, containerd/types/platform.proto by scripts/generate_api.py. Do not edit; `make proto` regenerates it.
from __future__ import annotations

from shim.api.types import Mount
from shim.api.wellknown import Any, Timestamp
from shim.api.wire import Message, put_bytes, put_string, read_length, read_string, read_string_entry, read_tag, read_varint, signed32, skip, varint


class ActiveMount(Message):
    __slots__ = ("mount", "mounted_at", "mount_point", "data")
    FULL_NAME = "containerd.types.ActiveMount"

    def __init__(self, *, mount: Mount | None = None, mounted_at: Timestamp | None = None, mount_point: str = "", data: dict[str, str] | None = None) -> None:
        self.mount = mount
        self.mounted_at = mounted_at
        self.mount_point = mount_point
        self.data: dict[str, str] = {} if data is None else data

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                pos, stop = read_length(data, pos, end)
                if self.mount is None:
                    self.mount = Mount()
                self.mount.merge(data, pos, stop)
                pos = stop
            elif tag == 18:
                pos, stop = read_length(data, pos, end)
                if self.mounted_at is None:
                    self.mounted_at = Timestamp()
                self.mounted_at.merge(data, pos, stop)
                pos = stop
            elif tag == 26:
                self.mount_point, pos = read_string(data, pos, end)
            elif tag == 34:
                pos, stop = read_length(data, pos, end)
                key, text = read_string_entry(data, pos, stop)
                self.data[key] = text
                pos = stop
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.mount is not None:
            out.append(put_bytes(b'\n', self.mount.encode()))
        if self.mounted_at is not None:
            out.append(put_bytes(b'\x12', self.mounted_at.encode()))
        if self.mount_point:
            out.append(put_string(b'\x1a', self.mount_point))
        for key in sorted(self.data):
            out.append(put_bytes(b'"', put_string(b'\n', key) + put_string(b'\x12', self.data[key])))
        return b"".join(out)


class ActivationInfo(Message):
    __slots__ = ("name", "active", "system", "labels")
    FULL_NAME = "containerd.types.ActivationInfo"

    def __init__(self, *, name: str = "", active: list[ActiveMount] | None = None, system: list[Mount] | None = None, labels: dict[str, str] | None = None) -> None:
        self.name = name
        self.active: list[ActiveMount] = [] if active is None else active
        self.system: list[Mount] = [] if system is None else system
        self.labels: dict[str, str] = {} if labels is None else labels

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
                item_2 = ActiveMount()
                item_2.merge(data, pos, stop)
                self.active.append(item_2)
                pos = stop
            elif tag == 26:
                pos, stop = read_length(data, pos, end)
                item_3 = Mount()
                item_3.merge(data, pos, stop)
                self.system.append(item_3)
                pos = stop
            elif tag == 34:
                pos, stop = read_length(data, pos, end)
                key, text = read_string_entry(data, pos, stop)
                self.labels[key] = text
                pos = stop
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.name:
            out.append(put_string(b'\n', self.name))
        for item_2 in self.active:
            out.append(put_bytes(b'\x12', item_2.encode()))
        for item_3 in self.system:
            out.append(put_bytes(b'\x1a', item_3.encode()))
        for key in sorted(self.labels):
            out.append(put_bytes(b'"', put_string(b'\n', key) + put_string(b'\x12', self.labels[key])))
        return b"".join(out)


class Process(Message):
    __slots__ = ("container_id", "id", "pid", "status", "stdin", "stdout", "stderr", "terminal", "exit_status", "exited_at")
    FULL_NAME = "containerd.v1.types.Process"

    def __init__(self, *, container_id: str = "", id: str = "", pid: int = 0, status: int = 0, stdin: str = "", stdout: str = "", stderr: str = "", terminal: bool = False, exit_status: int = 0, exited_at: Timestamp | None = None) -> None:
        self.container_id = container_id
        self.id = id
        self.pid = pid
        self.status = status
        self.stdin = stdin
        self.stdout = stdout
        self.stderr = stderr
        self.terminal = terminal
        self.exit_status = exit_status
        self.exited_at = exited_at

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                self.container_id, pos = read_string(data, pos, end)
            elif tag == 18:
                self.id, pos = read_string(data, pos, end)
            elif tag == 24:
                value, pos = read_varint(data, pos, end)
                self.pid = value & 0xFFFFFFFF
            elif tag == 32:
                value, pos = read_varint(data, pos, end)
                self.status = signed32(value)
            elif tag == 42:
                self.stdin, pos = read_string(data, pos, end)
            elif tag == 50:
                self.stdout, pos = read_string(data, pos, end)
            elif tag == 58:
                self.stderr, pos = read_string(data, pos, end)
            elif tag == 64:
                value, pos = read_varint(data, pos, end)
                self.terminal = value != 0
            elif tag == 72:
                value, pos = read_varint(data, pos, end)
                self.exit_status = value & 0xFFFFFFFF
            elif tag == 82:
                pos, stop = read_length(data, pos, end)
                if self.exited_at is None:
                    self.exited_at = Timestamp()
                self.exited_at.merge(data, pos, stop)
                pos = stop
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.container_id:
            out.append(put_string(b'\n', self.container_id))
        if self.id:
            out.append(put_string(b'\x12', self.id))
        if self.pid:
            out.append(b'\x18' + varint(self.pid & 0xFFFFFFFF))
        if self.status:
            out.append(b' ' + varint(self.status))
        if self.stdin:
            out.append(put_string(b'*', self.stdin))
        if self.stdout:
            out.append(put_string(b'2', self.stdout))
        if self.stderr:
            out.append(put_string(b':', self.stderr))
        if self.terminal:
            out.append(b'@\x01')
        if self.exit_status:
            out.append(b'H' + varint(self.exit_status & 0xFFFFFFFF))
        if self.exited_at is not None:
            out.append(put_bytes(b'R', self.exited_at.encode()))
        return b"".join(out)


class ProcessInfo(Message):
    __slots__ = ("pid", "info")
    FULL_NAME = "containerd.v1.types.ProcessInfo"

    def __init__(self, *, pid: int = 0, info: Any | None = None) -> None:
        self.pid = pid
        self.info = info

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
                if self.info is None:
                    self.info = Any()
                self.info.merge(data, pos, stop)
                pos = stop
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.pid:
            out.append(b'\x08' + varint(self.pid & 0xFFFFFFFF))
        if self.info is not None:
            out.append(put_bytes(b'\x12', self.info.encode()))
        return b"".join(out)


class Metric(Message):
    __slots__ = ("timestamp", "id", "data")
    FULL_NAME = "containerd.types.Metric"

    def __init__(self, *, timestamp: Timestamp | None = None, id: str = "", data: Any | None = None) -> None:
        self.timestamp = timestamp
        self.id = id
        self.data = data

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
                self.id, pos = read_string(data, pos, end)
            elif tag == 26:
                pos, stop = read_length(data, pos, end)
                if self.data is None:
                    self.data = Any()
                self.data.merge(data, pos, stop)
                pos = stop
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.timestamp is not None:
            out.append(put_bytes(b'\n', self.timestamp.encode()))
        if self.id:
            out.append(put_string(b'\x12', self.id))
        if self.data is not None:
            out.append(put_bytes(b'\x1a', self.data.encode()))
        return b"".join(out)


class Platform(Message):
    __slots__ = ("os", "architecture", "variant", "os_version", "os_features")
    FULL_NAME = "containerd.types.Platform"

    def __init__(self, *, os: str = "", architecture: str = "", variant: str = "", os_version: str = "", os_features: list[str] | None = None) -> None:
        self.os = os
        self.architecture = architecture
        self.variant = variant
        self.os_version = os_version
        self.os_features: list[str] = [] if os_features is None else os_features

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                self.os, pos = read_string(data, pos, end)
            elif tag == 18:
                self.architecture, pos = read_string(data, pos, end)
            elif tag == 26:
                self.variant, pos = read_string(data, pos, end)
            elif tag == 34:
                self.os_version, pos = read_string(data, pos, end)
            elif tag == 42:
                item_5, pos = read_string(data, pos, end)
                self.os_features.append(item_5)
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.os:
            out.append(put_string(b'\n', self.os))
        if self.architecture:
            out.append(put_string(b'\x12', self.architecture))
        if self.variant:
            out.append(put_string(b'\x1a', self.variant))
        if self.os_version:
            out.append(put_string(b'"', self.os_version))
        for item_5 in self.os_features:
            out.append(put_string(b'*', item_5))
        return b"".join(out)

# Generated from containerd/events/task.proto, containerd/events/sandbox.proto by scripts/generate_api.py. Do not edit; `make proto` regenerates it.
from __future__ import annotations

from shim.api.wellknown import Timestamp
from shim.api.wire import Message, put_bytes, put_string, read_length, read_string, read_tag, read_varint, skip, varint


class TaskOOM(Message):
    __slots__ = ("container_id",)
    FULL_NAME = "containerd.events.TaskOOM"

    def __init__(self, *, container_id: str = "") -> None:
        self.container_id = container_id

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                self.container_id, pos = read_string(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.container_id:
            out.append(put_string(b'\n', self.container_id))
        return b"".join(out)


class TaskExecAdded(Message):
    __slots__ = ("container_id", "exec_id")
    FULL_NAME = "containerd.events.TaskExecAdded"

    def __init__(self, *, container_id: str = "", exec_id: str = "") -> None:
        self.container_id = container_id
        self.exec_id = exec_id

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                self.container_id, pos = read_string(data, pos, end)
            elif tag == 18:
                self.exec_id, pos = read_string(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.container_id:
            out.append(put_string(b'\n', self.container_id))
        if self.exec_id:
            out.append(put_string(b'\x12', self.exec_id))
        return b"".join(out)


class TaskExecStarted(Message):
    __slots__ = ("container_id", "exec_id", "pid")
    FULL_NAME = "containerd.events.TaskExecStarted"

    def __init__(self, *, container_id: str = "", exec_id: str = "", pid: int = 0) -> None:
        self.container_id = container_id
        self.exec_id = exec_id
        self.pid = pid

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                self.container_id, pos = read_string(data, pos, end)
            elif tag == 18:
                self.exec_id, pos = read_string(data, pos, end)
            elif tag == 24:
                value, pos = read_varint(data, pos, end)
                self.pid = value & 0xFFFFFFFF
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.container_id:
            out.append(put_string(b'\n', self.container_id))
        if self.exec_id:
            out.append(put_string(b'\x12', self.exec_id))
        if self.pid:
            out.append(b'\x18' + varint(self.pid & 0xFFFFFFFF))
        return b"".join(out)


class TaskPaused(Message):
    __slots__ = ("container_id",)
    FULL_NAME = "containerd.events.TaskPaused"

    def __init__(self, *, container_id: str = "") -> None:
        self.container_id = container_id

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                self.container_id, pos = read_string(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.container_id:
            out.append(put_string(b'\n', self.container_id))
        return b"".join(out)


class TaskResumed(Message):
    __slots__ = ("container_id",)
    FULL_NAME = "containerd.events.TaskResumed"

    def __init__(self, *, container_id: str = "") -> None:
        self.container_id = container_id

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                self.container_id, pos = read_string(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.container_id:
            out.append(put_string(b'\n', self.container_id))
        return b"".join(out)


class TaskCheckpointed(Message):
    __slots__ = ("container_id", "checkpoint")
    FULL_NAME = "containerd.events.TaskCheckpointed"

    def __init__(self, *, container_id: str = "", checkpoint: str = "") -> None:
        self.container_id = container_id
        self.checkpoint = checkpoint

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                self.container_id, pos = read_string(data, pos, end)
            elif tag == 18:
                self.checkpoint, pos = read_string(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.container_id:
            out.append(put_string(b'\n', self.container_id))
        if self.checkpoint:
            out.append(put_string(b'\x12', self.checkpoint))
        return b"".join(out)


class SandboxCreate(Message):
    __slots__ = ("sandbox_id",)
    FULL_NAME = "containerd.events.SandboxCreate"

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


class SandboxStart(Message):
    __slots__ = ("sandbox_id",)
    FULL_NAME = "containerd.events.SandboxStart"

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


class SandboxExit(Message):
    __slots__ = ("sandbox_id", "exit_status", "exited_at")
    FULL_NAME = "containerd.events.SandboxExit"

    def __init__(self, *, sandbox_id: str = "", exit_status: int = 0, exited_at: Timestamp | None = None) -> None:
        self.sandbox_id = sandbox_id
        self.exit_status = exit_status
        self.exited_at = exited_at

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
                self.exit_status = value & 0xFFFFFFFF
            elif tag == 26:
                pos, stop = read_length(data, pos, end)
                if self.exited_at is None:
                    self.exited_at = Timestamp()
                self.exited_at.merge(data, pos, stop)
                pos = stop
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.sandbox_id:
            out.append(put_string(b'\n', self.sandbox_id))
        if self.exit_status:
            out.append(b'\x10' + varint(self.exit_status & 0xFFFFFFFF))
        if self.exited_at is not None:
            out.append(put_bytes(b'\x1a', self.exited_at.encode()))
        return b"".join(out)

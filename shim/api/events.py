# Generated from containerd/events/task.proto, containerd/events/sandbox.proto by scripts/generate_api.py. Do not edit; `make proto` regenerates it.
from __future__ import annotations

from shim.api.types import Mount
from shim.api.wellknown import Timestamp
from shim.api.wire import Message, put_bytes, put_string, read_length, read_string, read_tag, read_varint, skip, varint


class TaskIO(Message):
    __slots__ = ("stdin", "stdout", "stderr", "terminal")
    FULL_NAME = "containerd.events.TaskIO"

    def __init__(self, *, stdin: str = "", stdout: str = "", stderr: str = "", terminal: bool = False) -> None:
        self.stdin = stdin
        self.stdout = stdout
        self.stderr = stderr
        self.terminal = terminal

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                self.stdin, pos = read_string(data, pos, end)
            elif tag == 18:
                self.stdout, pos = read_string(data, pos, end)
            elif tag == 26:
                self.stderr, pos = read_string(data, pos, end)
            elif tag == 32:
                value, pos = read_varint(data, pos, end)
                self.terminal = value != 0
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.stdin:
            out.append(put_string(b'\n', self.stdin))
        if self.stdout:
            out.append(put_string(b'\x12', self.stdout))
        if self.stderr:
            out.append(put_string(b'\x1a', self.stderr))
        if self.terminal:
            out.append(b' \x01')
        return b"".join(out)


class TaskCreate(Message):
    __slots__ = ("container_id", "bundle", "rootfs", "io", "checkpoint", "pid")
    FULL_NAME = "containerd.events.TaskCreate"

    def __init__(self, *, container_id: str = "", bundle: str = "", rootfs: list[Mount] | None = None, io: TaskIO | None = None, checkpoint: str = "", pid: int = 0) -> None:
        self.container_id = container_id
        self.bundle = bundle
        self.rootfs: list[Mount] = [] if rootfs is None else rootfs
        self.io = io
        self.checkpoint = checkpoint
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
                self.bundle, pos = read_string(data, pos, end)
            elif tag == 26:
                pos, stop = read_length(data, pos, end)
                item_3 = Mount()
                item_3.merge(data, pos, stop)
                self.rootfs.append(item_3)
                pos = stop
            elif tag == 34:
                pos, stop = read_length(data, pos, end)
                if self.io is None:
                    self.io = TaskIO()
                self.io.merge(data, pos, stop)
                pos = stop
            elif tag == 42:
                self.checkpoint, pos = read_string(data, pos, end)
            elif tag == 48:
                value, pos = read_varint(data, pos, end)
                self.pid = value & 0xFFFFFFFF
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.container_id:
            out.append(put_string(b'\n', self.container_id))
        if self.bundle:
            out.append(put_string(b'\x12', self.bundle))
        for item_3 in self.rootfs:
            out.append(put_bytes(b'\x1a', item_3.encode()))
        if self.io is not None:
            out.append(put_bytes(b'"', self.io.encode()))
        if self.checkpoint:
            out.append(put_string(b'*', self.checkpoint))
        if self.pid:
            out.append(b'0' + varint(self.pid & 0xFFFFFFFF))
        return b"".join(out)


class TaskStart(Message):
    __slots__ = ("container_id", "pid")
    FULL_NAME = "containerd.events.TaskStart"

    def __init__(self, *, container_id: str = "", pid: int = 0) -> None:
        self.container_id = container_id
        self.pid = pid

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                self.container_id, pos = read_string(data, pos, end)
            elif tag == 16:
                value, pos = read_varint(data, pos, end)
                self.pid = value & 0xFFFFFFFF
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.container_id:
            out.append(put_string(b'\n', self.container_id))
        if self.pid:
            out.append(b'\x10' + varint(self.pid & 0xFFFFFFFF))
        return b"".join(out)


class TaskDelete(Message):
    __slots__ = ("container_id", "pid", "exit_status", "exited_at", "id")
    FULL_NAME = "containerd.events.TaskDelete"

    def __init__(self, *, container_id: str = "", pid: int = 0, exit_status: int = 0, exited_at: Timestamp | None = None, id: str = "") -> None:
        self.container_id = container_id
        self.pid = pid
        self.exit_status = exit_status
        self.exited_at = exited_at
        self.id = id

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                self.container_id, pos = read_string(data, pos, end)
            elif tag == 16:
                value, pos = read_varint(data, pos, end)
                self.pid = value & 0xFFFFFFFF
            elif tag == 24:
                value, pos = read_varint(data, pos, end)
                self.exit_status = value & 0xFFFFFFFF
            elif tag == 34:
                pos, stop = read_length(data, pos, end)
                if self.exited_at is None:
                    self.exited_at = Timestamp()
                self.exited_at.merge(data, pos, stop)
                pos = stop
            elif tag == 42:
                self.id, pos = read_string(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.container_id:
            out.append(put_string(b'\n', self.container_id))
        if self.pid:
            out.append(b'\x10' + varint(self.pid & 0xFFFFFFFF))
        if self.exit_status:
            out.append(b'\x18' + varint(self.exit_status & 0xFFFFFFFF))
        if self.exited_at is not None:
            out.append(put_bytes(b'"', self.exited_at.encode()))
        if self.id:
            out.append(put_string(b'*', self.id))
        return b"".join(out)


class TaskExit(Message):
    __slots__ = ("container_id", "id", "pid", "exit_status", "exited_at")
    FULL_NAME = "containerd.events.TaskExit"

    def __init__(self, *, container_id: str = "", id: str = "", pid: int = 0, exit_status: int = 0, exited_at: Timestamp | None = None) -> None:
        self.container_id = container_id
        self.id = id
        self.pid = pid
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
                self.exit_status = value & 0xFFFFFFFF
            elif tag == 42:
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
        if self.exit_status:
            out.append(b' ' + varint(self.exit_status & 0xFFFFFFFF))
        if self.exited_at is not None:
            out.append(put_bytes(b'*', self.exited_at.encode()))
        return b"".join(out)


TYPE_CHECKING = False
if TYPE_CHECKING:
    from shim.api.events_more import TaskOOM as TaskOOM
    from shim.api.events_more import TaskExecAdded as TaskExecAdded
    from shim.api.events_more import TaskExecStarted as TaskExecStarted
    from shim.api.events_more import TaskPaused as TaskPaused
    from shim.api.events_more import TaskResumed as TaskResumed
    from shim.api.events_more import TaskCheckpointed as TaskCheckpointed
    from shim.api.events_more import SandboxCreate as SandboxCreate
    from shim.api.events_more import SandboxStart as SandboxStart
    from shim.api.events_more import SandboxExit as SandboxExit
else:

    def __getattr__(name):
        if name.startswith("__"):  # the import system looks up __path__
            raise AttributeError(name)
        import shim.api.events_more as more

        return getattr(more, name)

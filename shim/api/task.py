# Generated from containerd/task/v2/task.proto by scripts/generate_api.py. Do not edit; `make proto` regenerates it.
from __future__ import annotations

from shim.api.types import Mount
from shim.api.wellknown import Any, Timestamp
from shim.api.wire import Message, put_bytes, put_string, read_length, read_string, read_tag, read_varint, signed32, skip, varint


class StateRequest(Message):
    __slots__ = ("id", "exec_id")
    FULL_NAME = "containerd.task.v2.StateRequest"

    def __init__(self, *, id: str = "", exec_id: str = "") -> None:
        self.id = id
        self.exec_id = exec_id

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                self.id, pos = read_string(data, pos, end)
            elif tag == 18:
                self.exec_id, pos = read_string(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.id:
            out.append(put_string(b'\n', self.id))
        if self.exec_id:
            out.append(put_string(b'\x12', self.exec_id))
        return b"".join(out)


class StateResponse(Message):
    __slots__ = ("id", "bundle", "pid", "status", "stdin", "stdout", "stderr", "terminal", "exit_status", "exited_at", "exec_id")
    FULL_NAME = "containerd.task.v2.StateResponse"

    def __init__(self, *, id: str = "", bundle: str = "", pid: int = 0, status: int = 0, stdin: str = "", stdout: str = "", stderr: str = "", terminal: bool = False, exit_status: int = 0, exited_at: Timestamp | None = None, exec_id: str = "") -> None:
        self.id = id
        self.bundle = bundle
        self.pid = pid
        self.status = status
        self.stdin = stdin
        self.stdout = stdout
        self.stderr = stderr
        self.terminal = terminal
        self.exit_status = exit_status
        self.exited_at = exited_at
        self.exec_id = exec_id

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                self.id, pos = read_string(data, pos, end)
            elif tag == 18:
                self.bundle, pos = read_string(data, pos, end)
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
            elif tag == 90:
                self.exec_id, pos = read_string(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.id:
            out.append(put_string(b'\n', self.id))
        if self.bundle:
            out.append(put_string(b'\x12', self.bundle))
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
        if self.exec_id:
            out.append(put_string(b'Z', self.exec_id))
        return b"".join(out)


class CreateTaskRequest(Message):
    __slots__ = ("id", "bundle", "rootfs", "terminal", "stdin", "stdout", "stderr", "checkpoint", "parent_checkpoint", "options")
    FULL_NAME = "containerd.task.v2.CreateTaskRequest"

    def __init__(self, *, id: str = "", bundle: str = "", rootfs: list[Mount] | None = None, terminal: bool = False, stdin: str = "", stdout: str = "", stderr: str = "", checkpoint: str = "", parent_checkpoint: str = "", options: Any | None = None) -> None:
        self.id = id
        self.bundle = bundle
        self.rootfs: list[Mount] = [] if rootfs is None else rootfs
        self.terminal = terminal
        self.stdin = stdin
        self.stdout = stdout
        self.stderr = stderr
        self.checkpoint = checkpoint
        self.parent_checkpoint = parent_checkpoint
        self.options = options

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                self.id, pos = read_string(data, pos, end)
            elif tag == 18:
                self.bundle, pos = read_string(data, pos, end)
            elif tag == 26:
                pos, stop = read_length(data, pos, end)
                item_3 = Mount()
                item_3.merge(data, pos, stop)
                self.rootfs.append(item_3)
                pos = stop
            elif tag == 32:
                value, pos = read_varint(data, pos, end)
                self.terminal = value != 0
            elif tag == 42:
                self.stdin, pos = read_string(data, pos, end)
            elif tag == 50:
                self.stdout, pos = read_string(data, pos, end)
            elif tag == 58:
                self.stderr, pos = read_string(data, pos, end)
            elif tag == 66:
                self.checkpoint, pos = read_string(data, pos, end)
            elif tag == 74:
                self.parent_checkpoint, pos = read_string(data, pos, end)
            elif tag == 82:
                pos, stop = read_length(data, pos, end)
                if self.options is None:
                    self.options = Any()
                self.options.merge(data, pos, stop)
                pos = stop
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.id:
            out.append(put_string(b'\n', self.id))
        if self.bundle:
            out.append(put_string(b'\x12', self.bundle))
        for item_3 in self.rootfs:
            out.append(put_bytes(b'\x1a', item_3.encode()))
        if self.terminal:
            out.append(b' \x01')
        if self.stdin:
            out.append(put_string(b'*', self.stdin))
        if self.stdout:
            out.append(put_string(b'2', self.stdout))
        if self.stderr:
            out.append(put_string(b':', self.stderr))
        if self.checkpoint:
            out.append(put_string(b'B', self.checkpoint))
        if self.parent_checkpoint:
            out.append(put_string(b'J', self.parent_checkpoint))
        if self.options is not None:
            out.append(put_bytes(b'R', self.options.encode()))
        return b"".join(out)


class CreateTaskResponse(Message):
    __slots__ = ("pid",)
    FULL_NAME = "containerd.task.v2.CreateTaskResponse"

    def __init__(self, *, pid: int = 0) -> None:
        self.pid = pid

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 8:
                value, pos = read_varint(data, pos, end)
                self.pid = value & 0xFFFFFFFF
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.pid:
            out.append(b'\x08' + varint(self.pid & 0xFFFFFFFF))
        return b"".join(out)


class StartRequest(Message):
    __slots__ = ("id", "exec_id")
    FULL_NAME = "containerd.task.v2.StartRequest"

    def __init__(self, *, id: str = "", exec_id: str = "") -> None:
        self.id = id
        self.exec_id = exec_id

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                self.id, pos = read_string(data, pos, end)
            elif tag == 18:
                self.exec_id, pos = read_string(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.id:
            out.append(put_string(b'\n', self.id))
        if self.exec_id:
            out.append(put_string(b'\x12', self.exec_id))
        return b"".join(out)


class StartResponse(Message):
    __slots__ = ("pid",)
    FULL_NAME = "containerd.task.v2.StartResponse"

    def __init__(self, *, pid: int = 0) -> None:
        self.pid = pid

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 8:
                value, pos = read_varint(data, pos, end)
                self.pid = value & 0xFFFFFFFF
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.pid:
            out.append(b'\x08' + varint(self.pid & 0xFFFFFFFF))
        return b"".join(out)


class DeleteRequest(Message):
    __slots__ = ("id", "exec_id")
    FULL_NAME = "containerd.task.v2.DeleteRequest"

    def __init__(self, *, id: str = "", exec_id: str = "") -> None:
        self.id = id
        self.exec_id = exec_id

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                self.id, pos = read_string(data, pos, end)
            elif tag == 18:
                self.exec_id, pos = read_string(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.id:
            out.append(put_string(b'\n', self.id))
        if self.exec_id:
            out.append(put_string(b'\x12', self.exec_id))
        return b"".join(out)


class DeleteResponse(Message):
    __slots__ = ("pid", "exit_status", "exited_at")
    FULL_NAME = "containerd.task.v2.DeleteResponse"

    def __init__(self, *, pid: int = 0, exit_status: int = 0, exited_at: Timestamp | None = None) -> None:
        self.pid = pid
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
                self.pid = value & 0xFFFFFFFF
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
        if self.pid:
            out.append(b'\x08' + varint(self.pid & 0xFFFFFFFF))
        if self.exit_status:
            out.append(b'\x10' + varint(self.exit_status & 0xFFFFFFFF))
        if self.exited_at is not None:
            out.append(put_bytes(b'\x1a', self.exited_at.encode()))
        return b"".join(out)


class KillRequest(Message):
    __slots__ = ("id", "exec_id", "signal", "all")
    FULL_NAME = "containerd.task.v2.KillRequest"

    def __init__(self, *, id: str = "", exec_id: str = "", signal: int = 0, all: bool = False) -> None:
        self.id = id
        self.exec_id = exec_id
        self.signal = signal
        self.all = all

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                self.id, pos = read_string(data, pos, end)
            elif tag == 18:
                self.exec_id, pos = read_string(data, pos, end)
            elif tag == 24:
                value, pos = read_varint(data, pos, end)
                self.signal = value & 0xFFFFFFFF
            elif tag == 32:
                value, pos = read_varint(data, pos, end)
                self.all = value != 0
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.id:
            out.append(put_string(b'\n', self.id))
        if self.exec_id:
            out.append(put_string(b'\x12', self.exec_id))
        if self.signal:
            out.append(b'\x18' + varint(self.signal & 0xFFFFFFFF))
        if self.all:
            out.append(b' \x01')
        return b"".join(out)


class WaitRequest(Message):
    __slots__ = ("id", "exec_id")
    FULL_NAME = "containerd.task.v2.WaitRequest"

    def __init__(self, *, id: str = "", exec_id: str = "") -> None:
        self.id = id
        self.exec_id = exec_id

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                self.id, pos = read_string(data, pos, end)
            elif tag == 18:
                self.exec_id, pos = read_string(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.id:
            out.append(put_string(b'\n', self.id))
        if self.exec_id:
            out.append(put_string(b'\x12', self.exec_id))
        return b"".join(out)


class WaitResponse(Message):
    __slots__ = ("exit_status", "exited_at")
    FULL_NAME = "containerd.task.v2.WaitResponse"

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


class ShutdownRequest(Message):
    __slots__ = ("id", "now")
    FULL_NAME = "containerd.task.v2.ShutdownRequest"

    def __init__(self, *, id: str = "", now: bool = False) -> None:
        self.id = id
        self.now = now

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                self.id, pos = read_string(data, pos, end)
            elif tag == 16:
                value, pos = read_varint(data, pos, end)
                self.now = value != 0
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.id:
            out.append(put_string(b'\n', self.id))
        if self.now:
            out.append(b'\x10\x01')
        return b"".join(out)


TYPE_CHECKING = False
if TYPE_CHECKING:
    from shim.api.task_more import PidsRequest as PidsRequest
    from shim.api.task_more import PidsResponse as PidsResponse
    from shim.api.task_more import PauseRequest as PauseRequest
    from shim.api.task_more import ResumeRequest as ResumeRequest
    from shim.api.task_more import CheckpointTaskRequest as CheckpointTaskRequest
    from shim.api.task_more import ExecProcessRequest as ExecProcessRequest
    from shim.api.task_more import ExecProcessResponse as ExecProcessResponse
    from shim.api.task_more import ResizePtyRequest as ResizePtyRequest
    from shim.api.task_more import CloseIORequest as CloseIORequest
    from shim.api.task_more import UpdateTaskRequest as UpdateTaskRequest
    from shim.api.task_more import StatsRequest as StatsRequest
    from shim.api.task_more import StatsResponse as StatsResponse
    from shim.api.task_more import ConnectRequest as ConnectRequest
    from shim.api.task_more import ConnectResponse as ConnectResponse
    from shim.api.task_more import SERVICES as SERVICES
else:

    def __getattr__(name):
        if name.startswith("__"):  # the import system looks up __path__
            raise AttributeError(name)
        import shim.api.task_more as more

        return getattr(more, name)

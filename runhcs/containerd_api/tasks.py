# Generated from containerd/services/tasks.proto by scripts/generate_api.py. Do not edit; `make proto` regenerates it.
from __future__ import annotations

from shim.api.types import Mount
from shim.api.types_more import Metric, Process, ProcessInfo
from shim.api.wellknown import Any, Empty, Timestamp
from shim.api.wire import Message, put_bytes, put_string, read_length, read_string, read_string_entry, read_tag, read_varint, skip, varint


class CreateTaskRequest(Message):
    __slots__ = ("container_id", "rootfs", "stdin", "stdout", "stderr", "terminal", "options", "runtime_path", "task_api_address", "task_api_version")
    FULL_NAME = "containerd.services.tasks.v1.CreateTaskRequest"

    def __init__(self, *, container_id: str = "", rootfs: list[Mount] | None = None, stdin: str = "", stdout: str = "", stderr: str = "", terminal: bool = False, options: Any | None = None, runtime_path: str = "", task_api_address: str = "", task_api_version: int = 0) -> None:
        self.container_id = container_id
        self.rootfs: list[Mount] = [] if rootfs is None else rootfs
        self.stdin = stdin
        self.stdout = stdout
        self.stderr = stderr
        self.terminal = terminal
        self.options = options
        self.runtime_path = runtime_path
        self.task_api_address = task_api_address
        self.task_api_version = task_api_version

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                self.container_id, pos = read_string(data, pos, end)
            elif tag == 26:
                pos, stop = read_length(data, pos, end)
                item_3 = Mount()
                item_3.merge(data, pos, stop)
                self.rootfs.append(item_3)
                pos = stop
            elif tag == 34:
                self.stdin, pos = read_string(data, pos, end)
            elif tag == 42:
                self.stdout, pos = read_string(data, pos, end)
            elif tag == 50:
                self.stderr, pos = read_string(data, pos, end)
            elif tag == 56:
                value, pos = read_varint(data, pos, end)
                self.terminal = value != 0
            elif tag == 74:
                pos, stop = read_length(data, pos, end)
                if self.options is None:
                    self.options = Any()
                self.options.merge(data, pos, stop)
                pos = stop
            elif tag == 82:
                self.runtime_path, pos = read_string(data, pos, end)
            elif tag == 90:
                self.task_api_address, pos = read_string(data, pos, end)
            elif tag == 96:
                value, pos = read_varint(data, pos, end)
                self.task_api_version = value & 0xFFFFFFFF
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.container_id:
            out.append(put_string(b'\n', self.container_id))
        for item_3 in self.rootfs:
            out.append(put_bytes(b'\x1a', item_3.encode()))
        if self.stdin:
            out.append(put_string(b'"', self.stdin))
        if self.stdout:
            out.append(put_string(b'*', self.stdout))
        if self.stderr:
            out.append(put_string(b'2', self.stderr))
        if self.terminal:
            out.append(b'8\x01')
        if self.options is not None:
            out.append(put_bytes(b'J', self.options.encode()))
        if self.runtime_path:
            out.append(put_string(b'R', self.runtime_path))
        if self.task_api_address:
            out.append(put_string(b'Z', self.task_api_address))
        if self.task_api_version:
            out.append(b'`' + varint(self.task_api_version & 0xFFFFFFFF))
        return b"".join(out)


class CreateTaskResponse(Message):
    __slots__ = ("container_id", "pid")
    FULL_NAME = "containerd.services.tasks.v1.CreateTaskResponse"

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


class StartRequest(Message):
    __slots__ = ("container_id", "exec_id")
    FULL_NAME = "containerd.services.tasks.v1.StartRequest"

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


class StartResponse(Message):
    __slots__ = ("pid",)
    FULL_NAME = "containerd.services.tasks.v1.StartResponse"

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


class DeleteTaskRequest(Message):
    __slots__ = ("container_id",)
    FULL_NAME = "containerd.services.tasks.v1.DeleteTaskRequest"

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


class DeleteResponse(Message):
    __slots__ = ("id", "pid", "exit_status", "exited_at")
    FULL_NAME = "containerd.services.tasks.v1.DeleteResponse"

    def __init__(self, *, id: str = "", pid: int = 0, exit_status: int = 0, exited_at: Timestamp | None = None) -> None:
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
                self.id, pos = read_string(data, pos, end)
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
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.id:
            out.append(put_string(b'\n', self.id))
        if self.pid:
            out.append(b'\x10' + varint(self.pid & 0xFFFFFFFF))
        if self.exit_status:
            out.append(b'\x18' + varint(self.exit_status & 0xFFFFFFFF))
        if self.exited_at is not None:
            out.append(put_bytes(b'"', self.exited_at.encode()))
        return b"".join(out)


class DeleteProcessRequest(Message):
    __slots__ = ("container_id", "exec_id")
    FULL_NAME = "containerd.services.tasks.v1.DeleteProcessRequest"

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


class GetRequest(Message):
    __slots__ = ("container_id", "exec_id")
    FULL_NAME = "containerd.services.tasks.v1.GetRequest"

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


class GetResponse(Message):
    __slots__ = ("process",)
    FULL_NAME = "containerd.services.tasks.v1.GetResponse"

    def __init__(self, *, process: Process | None = None) -> None:
        self.process = process

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                pos, stop = read_length(data, pos, end)
                if self.process is None:
                    self.process = Process()
                self.process.merge(data, pos, stop)
                pos = stop
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.process is not None:
            out.append(put_bytes(b'\n', self.process.encode()))
        return b"".join(out)


class ListTasksRequest(Message):
    __slots__ = ("filter",)
    FULL_NAME = "containerd.services.tasks.v1.ListTasksRequest"

    def __init__(self, *, filter: str = "") -> None:
        self.filter = filter

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                self.filter, pos = read_string(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.filter:
            out.append(put_string(b'\n', self.filter))
        return b"".join(out)


class ListTasksResponse(Message):
    __slots__ = ("tasks",)
    FULL_NAME = "containerd.services.tasks.v1.ListTasksResponse"

    def __init__(self, *, tasks: list[Process] | None = None) -> None:
        self.tasks: list[Process] = [] if tasks is None else tasks

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                pos, stop = read_length(data, pos, end)
                item_1 = Process()
                item_1.merge(data, pos, stop)
                self.tasks.append(item_1)
                pos = stop
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        for item_1 in self.tasks:
            out.append(put_bytes(b'\n', item_1.encode()))
        return b"".join(out)


class KillRequest(Message):
    __slots__ = ("container_id", "exec_id", "signal", "all")
    FULL_NAME = "containerd.services.tasks.v1.KillRequest"

    def __init__(self, *, container_id: str = "", exec_id: str = "", signal: int = 0, all: bool = False) -> None:
        self.container_id = container_id
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
                self.container_id, pos = read_string(data, pos, end)
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
        if self.container_id:
            out.append(put_string(b'\n', self.container_id))
        if self.exec_id:
            out.append(put_string(b'\x12', self.exec_id))
        if self.signal:
            out.append(b'\x18' + varint(self.signal & 0xFFFFFFFF))
        if self.all:
            out.append(b' \x01')
        return b"".join(out)


class ExecProcessRequest(Message):
    __slots__ = ("container_id", "stdin", "stdout", "stderr", "terminal", "spec", "exec_id")
    FULL_NAME = "containerd.services.tasks.v1.ExecProcessRequest"

    def __init__(self, *, container_id: str = "", stdin: str = "", stdout: str = "", stderr: str = "", terminal: bool = False, spec: Any | None = None, exec_id: str = "") -> None:
        self.container_id = container_id
        self.stdin = stdin
        self.stdout = stdout
        self.stderr = stderr
        self.terminal = terminal
        self.spec = spec
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
                self.stdin, pos = read_string(data, pos, end)
            elif tag == 26:
                self.stdout, pos = read_string(data, pos, end)
            elif tag == 34:
                self.stderr, pos = read_string(data, pos, end)
            elif tag == 40:
                value, pos = read_varint(data, pos, end)
                self.terminal = value != 0
            elif tag == 50:
                pos, stop = read_length(data, pos, end)
                if self.spec is None:
                    self.spec = Any()
                self.spec.merge(data, pos, stop)
                pos = stop
            elif tag == 58:
                self.exec_id, pos = read_string(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.container_id:
            out.append(put_string(b'\n', self.container_id))
        if self.stdin:
            out.append(put_string(b'\x12', self.stdin))
        if self.stdout:
            out.append(put_string(b'\x1a', self.stdout))
        if self.stderr:
            out.append(put_string(b'"', self.stderr))
        if self.terminal:
            out.append(b'(\x01')
        if self.spec is not None:
            out.append(put_bytes(b'2', self.spec.encode()))
        if self.exec_id:
            out.append(put_string(b':', self.exec_id))
        return b"".join(out)


class ResizePtyRequest(Message):
    __slots__ = ("container_id", "exec_id", "width", "height")
    FULL_NAME = "containerd.services.tasks.v1.ResizePtyRequest"

    def __init__(self, *, container_id: str = "", exec_id: str = "", width: int = 0, height: int = 0) -> None:
        self.container_id = container_id
        self.exec_id = exec_id
        self.width = width
        self.height = height

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
                self.width = value & 0xFFFFFFFF
            elif tag == 32:
                value, pos = read_varint(data, pos, end)
                self.height = value & 0xFFFFFFFF
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.container_id:
            out.append(put_string(b'\n', self.container_id))
        if self.exec_id:
            out.append(put_string(b'\x12', self.exec_id))
        if self.width:
            out.append(b'\x18' + varint(self.width & 0xFFFFFFFF))
        if self.height:
            out.append(b' ' + varint(self.height & 0xFFFFFFFF))
        return b"".join(out)


class CloseIORequest(Message):
    __slots__ = ("container_id", "exec_id", "stdin")
    FULL_NAME = "containerd.services.tasks.v1.CloseIORequest"

    def __init__(self, *, container_id: str = "", exec_id: str = "", stdin: bool = False) -> None:
        self.container_id = container_id
        self.exec_id = exec_id
        self.stdin = stdin

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
                self.stdin = value != 0
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.container_id:
            out.append(put_string(b'\n', self.container_id))
        if self.exec_id:
            out.append(put_string(b'\x12', self.exec_id))
        if self.stdin:
            out.append(b'\x18\x01')
        return b"".join(out)


class PauseTaskRequest(Message):
    __slots__ = ("container_id",)
    FULL_NAME = "containerd.services.tasks.v1.PauseTaskRequest"

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


class ResumeTaskRequest(Message):
    __slots__ = ("container_id",)
    FULL_NAME = "containerd.services.tasks.v1.ResumeTaskRequest"

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


class ListPidsRequest(Message):
    __slots__ = ("container_id",)
    FULL_NAME = "containerd.services.tasks.v1.ListPidsRequest"

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


class ListPidsResponse(Message):
    __slots__ = ("processes",)
    FULL_NAME = "containerd.services.tasks.v1.ListPidsResponse"

    def __init__(self, *, processes: list[ProcessInfo] | None = None) -> None:
        self.processes: list[ProcessInfo] = [] if processes is None else processes

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                pos, stop = read_length(data, pos, end)
                item_1 = ProcessInfo()
                item_1.merge(data, pos, stop)
                self.processes.append(item_1)
                pos = stop
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        for item_1 in self.processes:
            out.append(put_bytes(b'\n', item_1.encode()))
        return b"".join(out)


class UpdateTaskRequest(Message):
    __slots__ = ("container_id", "resources", "annotations")
    FULL_NAME = "containerd.services.tasks.v1.UpdateTaskRequest"

    def __init__(self, *, container_id: str = "", resources: Any | None = None, annotations: dict[str, str] | None = None) -> None:
        self.container_id = container_id
        self.resources = resources
        self.annotations: dict[str, str] = {} if annotations is None else annotations

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                self.container_id, pos = read_string(data, pos, end)
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
        if self.container_id:
            out.append(put_string(b'\n', self.container_id))
        if self.resources is not None:
            out.append(put_bytes(b'\x12', self.resources.encode()))
        for key in sorted(self.annotations):
            out.append(put_bytes(b'\x1a', put_string(b'\n', key) + put_string(b'\x12', self.annotations[key])))
        return b"".join(out)


class MetricsRequest(Message):
    __slots__ = ("filters",)
    FULL_NAME = "containerd.services.tasks.v1.MetricsRequest"

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


class MetricsResponse(Message):
    __slots__ = ("metrics",)
    FULL_NAME = "containerd.services.tasks.v1.MetricsResponse"

    def __init__(self, *, metrics: list[Metric] | None = None) -> None:
        self.metrics: list[Metric] = [] if metrics is None else metrics

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                pos, stop = read_length(data, pos, end)
                item_1 = Metric()
                item_1.merge(data, pos, stop)
                self.metrics.append(item_1)
                pos = stop
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        for item_1 in self.metrics:
            out.append(put_bytes(b'\n', item_1.encode()))
        return b"".join(out)


class WaitRequest(Message):
    __slots__ = ("container_id", "exec_id")
    FULL_NAME = "containerd.services.tasks.v1.WaitRequest"

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


class WaitResponse(Message):
    __slots__ = ("exit_status", "exited_at")
    FULL_NAME = "containerd.services.tasks.v1.WaitResponse"

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


SERVICES: dict[str, dict[str, tuple[type[Message], type[Message]]]] = {
    "containerd.services.tasks.v1.Tasks": {
        "Create": (CreateTaskRequest, CreateTaskResponse),
        "Start": (StartRequest, StartResponse),
        "Delete": (DeleteTaskRequest, DeleteResponse),
        "DeleteProcess": (DeleteProcessRequest, DeleteResponse),
        "Get": (GetRequest, GetResponse),
        "List": (ListTasksRequest, ListTasksResponse),
        "Kill": (KillRequest, Empty),
        "Exec": (ExecProcessRequest, Empty),
        "ResizePty": (ResizePtyRequest, Empty),
        "CloseIO": (CloseIORequest, Empty),
        "Pause": (PauseTaskRequest, Empty),
        "Resume": (ResumeTaskRequest, Empty),
        "ListPids": (ListPidsRequest, ListPidsResponse),
        "Update": (UpdateTaskRequest, Empty),
        "Metrics": (MetricsRequest, MetricsResponse),
        "Wait": (WaitRequest, WaitResponse),
    },
}

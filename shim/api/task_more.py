# Generated from containerd/task/v2/task.proto by scripts/generate_api.py. Do not edit; `make proto` regenerates it.
from __future__ import annotations

from shim.api.task import CreateTaskRequest, CreateTaskResponse, DeleteRequest, DeleteResponse, KillRequest, ShutdownRequest, StartRequest, StartResponse, StateRequest, StateResponse, WaitRequest, WaitResponse
from shim.api.types_more import ProcessInfo
from shim.api.wellknown import Any, Empty
from shim.api.wire import Message, put_bytes, put_string, read_length, read_string, read_string_entry, read_tag, read_varint, skip, varint


class PidsRequest(Message):
    __slots__ = ("id",)
    FULL_NAME = "containerd.task.v2.PidsRequest"

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


class PidsResponse(Message):
    __slots__ = ("processes",)
    FULL_NAME = "containerd.task.v2.PidsResponse"

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


class PauseRequest(Message):
    __slots__ = ("id",)
    FULL_NAME = "containerd.task.v2.PauseRequest"

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


class ResumeRequest(Message):
    __slots__ = ("id",)
    FULL_NAME = "containerd.task.v2.ResumeRequest"

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


class CheckpointTaskRequest(Message):
    __slots__ = ("id", "path", "options")
    FULL_NAME = "containerd.task.v2.CheckpointTaskRequest"

    def __init__(self, *, id: str = "", path: str = "", options: Any | None = None) -> None:
        self.id = id
        self.path = path
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
                self.path, pos = read_string(data, pos, end)
            elif tag == 26:
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
        if self.path:
            out.append(put_string(b'\x12', self.path))
        if self.options is not None:
            out.append(put_bytes(b'\x1a', self.options.encode()))
        return b"".join(out)


class ExecProcessRequest(Message):
    __slots__ = ("id", "exec_id", "terminal", "stdin", "stdout", "stderr", "spec")
    FULL_NAME = "containerd.task.v2.ExecProcessRequest"

    def __init__(self, *, id: str = "", exec_id: str = "", terminal: bool = False, stdin: str = "", stdout: str = "", stderr: str = "", spec: Any | None = None) -> None:
        self.id = id
        self.exec_id = exec_id
        self.terminal = terminal
        self.stdin = stdin
        self.stdout = stdout
        self.stderr = stderr
        self.spec = spec

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
                self.terminal = value != 0
            elif tag == 34:
                self.stdin, pos = read_string(data, pos, end)
            elif tag == 42:
                self.stdout, pos = read_string(data, pos, end)
            elif tag == 50:
                self.stderr, pos = read_string(data, pos, end)
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
        if self.id:
            out.append(put_string(b'\n', self.id))
        if self.exec_id:
            out.append(put_string(b'\x12', self.exec_id))
        if self.terminal:
            out.append(b'\x18\x01')
        if self.stdin:
            out.append(put_string(b'"', self.stdin))
        if self.stdout:
            out.append(put_string(b'*', self.stdout))
        if self.stderr:
            out.append(put_string(b'2', self.stderr))
        if self.spec is not None:
            out.append(put_bytes(b':', self.spec.encode()))
        return b"".join(out)


class ExecProcessResponse(Message):
    __slots__ = ()
    FULL_NAME = "containerd.task.v2.ExecProcessResponse"


class ResizePtyRequest(Message):
    __slots__ = ("id", "exec_id", "width", "height")
    FULL_NAME = "containerd.task.v2.ResizePtyRequest"

    def __init__(self, *, id: str = "", exec_id: str = "", width: int = 0, height: int = 0) -> None:
        self.id = id
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
                self.id, pos = read_string(data, pos, end)
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
        if self.id:
            out.append(put_string(b'\n', self.id))
        if self.exec_id:
            out.append(put_string(b'\x12', self.exec_id))
        if self.width:
            out.append(b'\x18' + varint(self.width & 0xFFFFFFFF))
        if self.height:
            out.append(b' ' + varint(self.height & 0xFFFFFFFF))
        return b"".join(out)


class CloseIORequest(Message):
    __slots__ = ("id", "exec_id", "stdin")
    FULL_NAME = "containerd.task.v2.CloseIORequest"

    def __init__(self, *, id: str = "", exec_id: str = "", stdin: bool = False) -> None:
        self.id = id
        self.exec_id = exec_id
        self.stdin = stdin

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
                self.stdin = value != 0
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.id:
            out.append(put_string(b'\n', self.id))
        if self.exec_id:
            out.append(put_string(b'\x12', self.exec_id))
        if self.stdin:
            out.append(b'\x18\x01')
        return b"".join(out)


class UpdateTaskRequest(Message):
    __slots__ = ("id", "resources", "annotations")
    FULL_NAME = "containerd.task.v2.UpdateTaskRequest"

    def __init__(self, *, id: str = "", resources: Any | None = None, annotations: dict[str, str] | None = None) -> None:
        self.id = id
        self.resources = resources
        self.annotations: dict[str, str] = {} if annotations is None else annotations

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
        if self.id:
            out.append(put_string(b'\n', self.id))
        if self.resources is not None:
            out.append(put_bytes(b'\x12', self.resources.encode()))
        for key in sorted(self.annotations):
            out.append(put_bytes(b'\x1a', put_string(b'\n', key) + put_string(b'\x12', self.annotations[key])))
        return b"".join(out)


class StatsRequest(Message):
    __slots__ = ("id",)
    FULL_NAME = "containerd.task.v2.StatsRequest"

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


class StatsResponse(Message):
    __slots__ = ("stats",)
    FULL_NAME = "containerd.task.v2.StatsResponse"

    def __init__(self, *, stats: Any | None = None) -> None:
        self.stats = stats

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                pos, stop = read_length(data, pos, end)
                if self.stats is None:
                    self.stats = Any()
                self.stats.merge(data, pos, stop)
                pos = stop
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.stats is not None:
            out.append(put_bytes(b'\n', self.stats.encode()))
        return b"".join(out)


class ConnectRequest(Message):
    __slots__ = ("id",)
    FULL_NAME = "containerd.task.v2.ConnectRequest"

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


class ConnectResponse(Message):
    __slots__ = ("shim_pid", "task_pid", "version")
    FULL_NAME = "containerd.task.v2.ConnectResponse"

    def __init__(self, *, shim_pid: int = 0, task_pid: int = 0, version: str = "") -> None:
        self.shim_pid = shim_pid
        self.task_pid = task_pid
        self.version = version

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 8:
                value, pos = read_varint(data, pos, end)
                self.shim_pid = value & 0xFFFFFFFF
            elif tag == 16:
                value, pos = read_varint(data, pos, end)
                self.task_pid = value & 0xFFFFFFFF
            elif tag == 26:
                self.version, pos = read_string(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.shim_pid:
            out.append(b'\x08' + varint(self.shim_pid & 0xFFFFFFFF))
        if self.task_pid:
            out.append(b'\x10' + varint(self.task_pid & 0xFFFFFFFF))
        if self.version:
            out.append(put_string(b'\x1a', self.version))
        return b"".join(out)


SERVICES: dict[str, dict[str, tuple[type[Message], type[Message]]]] = {
    "containerd.task.v2.Task": {
        "State": (StateRequest, StateResponse),
        "Create": (CreateTaskRequest, CreateTaskResponse),
        "Start": (StartRequest, StartResponse),
        "Delete": (DeleteRequest, DeleteResponse),
        "Pids": (PidsRequest, PidsResponse),
        "Pause": (PauseRequest, Empty),
        "Resume": (ResumeRequest, Empty),
        "Checkpoint": (CheckpointTaskRequest, Empty),
        "Kill": (KillRequest, Empty),
        "Exec": (ExecProcessRequest, Empty),
        "ResizePty": (ResizePtyRequest, Empty),
        "CloseIO": (CloseIORequest, Empty),
        "Update": (UpdateTaskRequest, Empty),
        "Wait": (WaitRequest, WaitResponse),
        "Stats": (StatsRequest, StatsResponse),
        "Connect": (ConnectRequest, ConnectResponse),
        "Shutdown": (ShutdownRequest, Empty),
    },
}
SERVICES["containerd.task.v3.Task"] = SERVICES["containerd.task.v2.Task"]

# Generated from runhcs/shimdiag.proto by scripts/generate_api.py. Do not edit; `make proto` regenerates it.
from __future__ import annotations

from shim.api.wire import Message, put_bytes, put_string, read_length, read_string, read_tag, read_varint, signed32, skip, varint


class ExecProcessRequest(Message):
    __slots__ = ("args", "workdir", "terminal", "stdin", "stdout", "stderr")
    FULL_NAME = "containerd.runhcs.v1.diag.ExecProcessRequest"

    def __init__(self, *, args: list[str] | None = None, workdir: str = "", terminal: bool = False, stdin: str = "", stdout: str = "", stderr: str = "") -> None:
        self.args: list[str] = [] if args is None else args
        self.workdir = workdir
        self.terminal = terminal
        self.stdin = stdin
        self.stdout = stdout
        self.stderr = stderr

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                item_1, pos = read_string(data, pos, end)
                self.args.append(item_1)
            elif tag == 18:
                self.workdir, pos = read_string(data, pos, end)
            elif tag == 24:
                value, pos = read_varint(data, pos, end)
                self.terminal = value != 0
            elif tag == 34:
                self.stdin, pos = read_string(data, pos, end)
            elif tag == 42:
                self.stdout, pos = read_string(data, pos, end)
            elif tag == 50:
                self.stderr, pos = read_string(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        for item_1 in self.args:
            out.append(put_string(b'\n', item_1))
        if self.workdir:
            out.append(put_string(b'\x12', self.workdir))
        if self.terminal:
            out.append(b'\x18\x01')
        if self.stdin:
            out.append(put_string(b'"', self.stdin))
        if self.stdout:
            out.append(put_string(b'*', self.stdout))
        if self.stderr:
            out.append(put_string(b'2', self.stderr))
        return b"".join(out)


class ExecProcessResponse(Message):
    __slots__ = ("exit_code",)
    FULL_NAME = "containerd.runhcs.v1.diag.ExecProcessResponse"

    def __init__(self, *, exit_code: int = 0) -> None:
        self.exit_code = exit_code

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 8:
                value, pos = read_varint(data, pos, end)
                self.exit_code = signed32(value)
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.exit_code:
            out.append(b'\x08' + varint(self.exit_code))
        return b"".join(out)


class StacksRequest(Message):
    __slots__ = ()
    FULL_NAME = "containerd.runhcs.v1.diag.StacksRequest"


class StacksResponse(Message):
    __slots__ = ("stacks", "guest_stacks")
    FULL_NAME = "containerd.runhcs.v1.diag.StacksResponse"

    def __init__(self, *, stacks: str = "", guest_stacks: str = "") -> None:
        self.stacks = stacks
        self.guest_stacks = guest_stacks

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                self.stacks, pos = read_string(data, pos, end)
            elif tag == 18:
                self.guest_stacks, pos = read_string(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.stacks:
            out.append(put_string(b'\n', self.stacks))
        if self.guest_stacks:
            out.append(put_string(b'\x12', self.guest_stacks))
        return b"".join(out)


class TasksRequest(Message):
    __slots__ = ("execs",)
    FULL_NAME = "containerd.runhcs.v1.diag.TasksRequest"

    def __init__(self, *, execs: bool = False) -> None:
        self.execs = execs

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 8:
                value, pos = read_varint(data, pos, end)
                self.execs = value != 0
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.execs:
            out.append(b'\x08\x01')
        return b"".join(out)


class TasksResponse(Message):
    __slots__ = ("tasks",)
    FULL_NAME = "containerd.runhcs.v1.diag.TasksResponse"

    def __init__(self, *, tasks: list[Task] | None = None) -> None:
        self.tasks: list[Task] = [] if tasks is None else tasks

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                pos, stop = read_length(data, pos, end)
                item_1 = Task()
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


class Task(Message):
    __slots__ = ("id", "execs")
    FULL_NAME = "containerd.runhcs.v1.diag.Task"

    def __init__(self, *, id: str = "", execs: list[Exec] | None = None) -> None:
        self.id = id
        self.execs: list[Exec] = [] if execs is None else execs

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
                item_2 = Exec()
                item_2.merge(data, pos, stop)
                self.execs.append(item_2)
                pos = stop
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.id:
            out.append(put_string(b'\n', self.id))
        for item_2 in self.execs:
            out.append(put_bytes(b'\x12', item_2.encode()))
        return b"".join(out)


class Exec(Message):
    __slots__ = ("id", "state")
    FULL_NAME = "containerd.runhcs.v1.diag.Exec"

    def __init__(self, *, id: str = "", state: str = "") -> None:
        self.id = id
        self.state = state

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                self.id, pos = read_string(data, pos, end)
            elif tag == 18:
                self.state, pos = read_string(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.id:
            out.append(put_string(b'\n', self.id))
        if self.state:
            out.append(put_string(b'\x12', self.state))
        return b"".join(out)


class ShareRequest(Message):
    __slots__ = ("host_path", "uvm_path", "read_only")
    FULL_NAME = "containerd.runhcs.v1.diag.ShareRequest"

    def __init__(self, *, host_path: str = "", uvm_path: str = "", read_only: bool = False) -> None:
        self.host_path = host_path
        self.uvm_path = uvm_path
        self.read_only = read_only

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                self.host_path, pos = read_string(data, pos, end)
            elif tag == 18:
                self.uvm_path, pos = read_string(data, pos, end)
            elif tag == 24:
                value, pos = read_varint(data, pos, end)
                self.read_only = value != 0
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.host_path:
            out.append(put_string(b'\n', self.host_path))
        if self.uvm_path:
            out.append(put_string(b'\x12', self.uvm_path))
        if self.read_only:
            out.append(b'\x18\x01')
        return b"".join(out)


class ShareResponse(Message):
    __slots__ = ()
    FULL_NAME = "containerd.runhcs.v1.diag.ShareResponse"


class PidRequest(Message):
    __slots__ = ()
    FULL_NAME = "containerd.runhcs.v1.diag.PidRequest"


class PidResponse(Message):
    __slots__ = ("pid",)
    FULL_NAME = "containerd.runhcs.v1.diag.PidResponse"

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
                self.pid = signed32(value)
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.pid:
            out.append(b'\x08' + varint(self.pid))
        return b"".join(out)


SERVICES: dict[str, dict[str, tuple[type[Message], type[Message]]]] = {
    "containerd.runhcs.v1.diag.ShimDiag": {
        "DiagExecInHost": (ExecProcessRequest, ExecProcessResponse),
        "DiagStacks": (StacksRequest, StacksResponse),
        "DiagTasks": (TasksRequest, TasksResponse),
        "DiagShare": (ShareRequest, ShareResponse),
        "DiagPid": (PidRequest, PidResponse),
    },
}

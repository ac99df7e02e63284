# Generated from cri/runtime.proto by scripts/generate_api.py. Do not edit; `make proto` regenerates it.
from __future__ import annotations

from shim.api.cri_pod import PodSandboxConfig
from shim.api.wire import Message, put_bytes, put_string, read_bytes, read_length, read_string, read_string_entry, read_tag, read_varint, signed32, signed64, skip, varint


class PodSandboxState:
    __slots__ = ()
    SANDBOX_READY = 0
    SANDBOX_NOTREADY = 1


class ContainerState:
    __slots__ = ()
    CONTAINER_CREATED = 0
    CONTAINER_RUNNING = 1
    CONTAINER_EXITED = 2
    CONTAINER_UNKNOWN = 3


class RunPodSandboxRequest(Message):
    __slots__ = ("config", "runtime_handler")
    FULL_NAME = "runtime.v1.RunPodSandboxRequest"

    def __init__(self, *, config: PodSandboxConfig | None = None, runtime_handler: str = "") -> None:
        self.config = config
        self.runtime_handler = runtime_handler

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                pos, stop = read_length(data, pos, end)
                if self.config is None:
                    self.config = PodSandboxConfig()
                self.config.merge(data, pos, stop)
                pos = stop
            elif tag == 18:
                self.runtime_handler, pos = read_string(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.config is not None:
            out.append(put_bytes(b'\n', self.config.encode()))
        if self.runtime_handler:
            out.append(put_string(b'\x12', self.runtime_handler))
        return b"".join(out)


class RunPodSandboxResponse(Message):
    __slots__ = ("pod_sandbox_id",)
    FULL_NAME = "runtime.v1.RunPodSandboxResponse"

    def __init__(self, *, pod_sandbox_id: str = "") -> None:
        self.pod_sandbox_id = pod_sandbox_id

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                self.pod_sandbox_id, pos = read_string(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.pod_sandbox_id:
            out.append(put_string(b'\n', self.pod_sandbox_id))
        return b"".join(out)


class StopPodSandboxRequest(Message):
    __slots__ = ("pod_sandbox_id",)
    FULL_NAME = "runtime.v1.StopPodSandboxRequest"

    def __init__(self, *, pod_sandbox_id: str = "") -> None:
        self.pod_sandbox_id = pod_sandbox_id

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                self.pod_sandbox_id, pos = read_string(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.pod_sandbox_id:
            out.append(put_string(b'\n', self.pod_sandbox_id))
        return b"".join(out)


class StopPodSandboxResponse(Message):
    __slots__ = ()
    FULL_NAME = "runtime.v1.StopPodSandboxResponse"


class RemovePodSandboxRequest(Message):
    __slots__ = ("pod_sandbox_id",)
    FULL_NAME = "runtime.v1.RemovePodSandboxRequest"

    def __init__(self, *, pod_sandbox_id: str = "") -> None:
        self.pod_sandbox_id = pod_sandbox_id

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                self.pod_sandbox_id, pos = read_string(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.pod_sandbox_id:
            out.append(put_string(b'\n', self.pod_sandbox_id))
        return b"".join(out)


class RemovePodSandboxResponse(Message):
    __slots__ = ()
    FULL_NAME = "runtime.v1.RemovePodSandboxResponse"


class PodSandboxStatusRequest(Message):
    __slots__ = ("pod_sandbox_id",)
    FULL_NAME = "runtime.v1.PodSandboxStatusRequest"

    def __init__(self, *, pod_sandbox_id: str = "") -> None:
        self.pod_sandbox_id = pod_sandbox_id

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                self.pod_sandbox_id, pos = read_string(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.pod_sandbox_id:
            out.append(put_string(b'\n', self.pod_sandbox_id))
        return b"".join(out)


class PodSandboxStatusResponse(Message):
    __slots__ = ("status",)
    FULL_NAME = "runtime.v1.PodSandboxStatusResponse"

    def __init__(self, *, status: PodSandboxStatus | None = None) -> None:
        self.status = status

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                pos, stop = read_length(data, pos, end)
                if self.status is None:
                    self.status = PodSandboxStatus()
                self.status.merge(data, pos, stop)
                pos = stop
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.status is not None:
            out.append(put_bytes(b'\n', self.status.encode()))
        return b"".join(out)


class PodSandboxStatus(Message):
    __slots__ = ("id", "state")
    FULL_NAME = "runtime.v1.PodSandboxStatus"

    def __init__(self, *, id: str = "", state: int = 0) -> None:
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
            elif tag == 24:
                value, pos = read_varint(data, pos, end)
                self.state = signed32(value)
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.id:
            out.append(put_string(b'\n', self.id))
        if self.state:
            out.append(b'\x18' + varint(self.state))
        return b"".join(out)


class ContainerMetadata(Message):
    __slots__ = ("name", "attempt")
    FULL_NAME = "runtime.v1.ContainerMetadata"

    def __init__(self, *, name: str = "", attempt: int = 0) -> None:
        self.name = name
        self.attempt = attempt

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                self.name, pos = read_string(data, pos, end)
            elif tag == 16:
                value, pos = read_varint(data, pos, end)
                self.attempt = value & 0xFFFFFFFF
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.name:
            out.append(put_string(b'\n', self.name))
        if self.attempt:
            out.append(b'\x10' + varint(self.attempt & 0xFFFFFFFF))
        return b"".join(out)


class ImageSpec(Message):
    __slots__ = ("image",)
    FULL_NAME = "runtime.v1.ImageSpec"

    def __init__(self, *, image: str = "") -> None:
        self.image = image

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                self.image, pos = read_string(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.image:
            out.append(put_string(b'\n', self.image))
        return b"".join(out)


class ContainerConfig(Message):
    __slots__ = ("metadata", "image", "command", "args", "working_dir", "labels", "annotations", "log_path")
    FULL_NAME = "runtime.v1.ContainerConfig"

    def __init__(self, *, metadata: ContainerMetadata | None = None, image: ImageSpec | None = None, command: list[str] | None = None, args: list[str] | None = None, working_dir: str = "", labels: dict[str, str] | None = None, annotations: dict[str, str] | None = None, log_path: str = "") -> None:
        self.metadata = metadata
        self.image = image
        self.command: list[str] = [] if command is None else command
        self.args: list[str] = [] if args is None else args
        self.working_dir = working_dir
        self.labels: dict[str, str] = {} if labels is None else labels
        self.annotations: dict[str, str] = {} if annotations is None else annotations
        self.log_path = log_path

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                pos, stop = read_length(data, pos, end)
                if self.metadata is None:
                    self.metadata = ContainerMetadata()
                self.metadata.merge(data, pos, stop)
                pos = stop
            elif tag == 18:
                pos, stop = read_length(data, pos, end)
                if self.image is None:
                    self.image = ImageSpec()
                self.image.merge(data, pos, stop)
                pos = stop
            elif tag == 26:
                item_3, pos = read_string(data, pos, end)
                self.command.append(item_3)
            elif tag == 34:
                item_4, pos = read_string(data, pos, end)
                self.args.append(item_4)
            elif tag == 42:
                self.working_dir, pos = read_string(data, pos, end)
            elif tag == 74:
                pos, stop = read_length(data, pos, end)
                key, text = read_string_entry(data, pos, stop)
                self.labels[key] = text
                pos = stop
            elif tag == 82:
                pos, stop = read_length(data, pos, end)
                key, text = read_string_entry(data, pos, stop)
                self.annotations[key] = text
                pos = stop
            elif tag == 90:
                self.log_path, pos = read_string(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.metadata is not None:
            out.append(put_bytes(b'\n', self.metadata.encode()))
        if self.image is not None:
            out.append(put_bytes(b'\x12', self.image.encode()))
        for item_3 in self.command:
            out.append(put_string(b'\x1a', item_3))
        for item_4 in self.args:
            out.append(put_string(b'"', item_4))
        if self.working_dir:
            out.append(put_string(b'*', self.working_dir))
        for key in sorted(self.labels):
            out.append(put_bytes(b'J', put_string(b'\n', key) + put_string(b'\x12', self.labels[key])))
        for key in sorted(self.annotations):
            out.append(put_bytes(b'R', put_string(b'\n', key) + put_string(b'\x12', self.annotations[key])))
        if self.log_path:
            out.append(put_string(b'Z', self.log_path))
        return b"".join(out)


class CreateContainerRequest(Message):
    __slots__ = ("pod_sandbox_id", "config", "sandbox_config")
    FULL_NAME = "runtime.v1.CreateContainerRequest"

    def __init__(self, *, pod_sandbox_id: str = "", config: ContainerConfig | None = None, sandbox_config: PodSandboxConfig | None = None) -> None:
        self.pod_sandbox_id = pod_sandbox_id
        self.config = config
        self.sandbox_config = sandbox_config

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                self.pod_sandbox_id, pos = read_string(data, pos, end)
            elif tag == 18:
                pos, stop = read_length(data, pos, end)
                if self.config is None:
                    self.config = ContainerConfig()
                self.config.merge(data, pos, stop)
                pos = stop
            elif tag == 26:
                pos, stop = read_length(data, pos, end)
                if self.sandbox_config is None:
                    self.sandbox_config = PodSandboxConfig()
                self.sandbox_config.merge(data, pos, stop)
                pos = stop
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.pod_sandbox_id:
            out.append(put_string(b'\n', self.pod_sandbox_id))
        if self.config is not None:
            out.append(put_bytes(b'\x12', self.config.encode()))
        if self.sandbox_config is not None:
            out.append(put_bytes(b'\x1a', self.sandbox_config.encode()))
        return b"".join(out)


class CreateContainerResponse(Message):
    __slots__ = ("container_id",)
    FULL_NAME = "runtime.v1.CreateContainerResponse"

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


class StartContainerRequest(Message):
    __slots__ = ("container_id",)
    FULL_NAME = "runtime.v1.StartContainerRequest"

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


class StartContainerResponse(Message):
    __slots__ = ()
    FULL_NAME = "runtime.v1.StartContainerResponse"


class StopContainerRequest(Message):
    __slots__ = ("container_id", "timeout")
    FULL_NAME = "runtime.v1.StopContainerRequest"

    def __init__(self, *, container_id: str = "", timeout: int = 0) -> None:
        self.container_id = container_id
        self.timeout = timeout

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
                self.timeout = signed64(value)
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.container_id:
            out.append(put_string(b'\n', self.container_id))
        if self.timeout:
            out.append(b'\x10' + varint(self.timeout))
        return b"".join(out)


class StopContainerResponse(Message):
    __slots__ = ()
    FULL_NAME = "runtime.v1.StopContainerResponse"


class RemoveContainerRequest(Message):
    __slots__ = ("container_id",)
    FULL_NAME = "runtime.v1.RemoveContainerRequest"

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


class RemoveContainerResponse(Message):
    __slots__ = ()
    FULL_NAME = "runtime.v1.RemoveContainerResponse"


class ContainerStatusRequest(Message):
    __slots__ = ("container_id",)
    FULL_NAME = "runtime.v1.ContainerStatusRequest"

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


class ContainerStatusResponse(Message):
    __slots__ = ("status",)
    FULL_NAME = "runtime.v1.ContainerStatusResponse"

    def __init__(self, *, status: ContainerStatus | None = None) -> None:
        self.status = status

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                pos, stop = read_length(data, pos, end)
                if self.status is None:
                    self.status = ContainerStatus()
                self.status.merge(data, pos, stop)
                pos = stop
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.status is not None:
            out.append(put_bytes(b'\n', self.status.encode()))
        return b"".join(out)


class ContainerStatus(Message):
    __slots__ = ("id", "state", "exit_code", "reason", "message")
    FULL_NAME = "runtime.v1.ContainerStatus"

    def __init__(self, *, id: str = "", state: int = 0, exit_code: int = 0, reason: str = "", message: str = "") -> None:
        self.id = id
        self.state = state
        self.exit_code = exit_code
        self.reason = reason
        self.message = message

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                self.id, pos = read_string(data, pos, end)
            elif tag == 24:
                value, pos = read_varint(data, pos, end)
                self.state = signed32(value)
            elif tag == 56:
                value, pos = read_varint(data, pos, end)
                self.exit_code = signed32(value)
            elif tag == 82:
                self.reason, pos = read_string(data, pos, end)
            elif tag == 90:
                self.message, pos = read_string(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.id:
            out.append(put_string(b'\n', self.id))
        if self.state:
            out.append(b'\x18' + varint(self.state))
        if self.exit_code:
            out.append(b'8' + varint(self.exit_code))
        if self.reason:
            out.append(put_string(b'R', self.reason))
        if self.message:
            out.append(put_string(b'Z', self.message))
        return b"".join(out)


class ExecSyncRequest(Message):
    __slots__ = ("container_id", "cmd", "timeout")
    FULL_NAME = "runtime.v1.ExecSyncRequest"

    def __init__(self, *, container_id: str = "", cmd: list[str] | None = None, timeout: int = 0) -> None:
        self.container_id = container_id
        self.cmd: list[str] = [] if cmd is None else cmd
        self.timeout = timeout

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                self.container_id, pos = read_string(data, pos, end)
            elif tag == 18:
                item_2, pos = read_string(data, pos, end)
                self.cmd.append(item_2)
            elif tag == 24:
                value, pos = read_varint(data, pos, end)
                self.timeout = signed64(value)
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.container_id:
            out.append(put_string(b'\n', self.container_id))
        for item_2 in self.cmd:
            out.append(put_string(b'\x12', item_2))
        if self.timeout:
            out.append(b'\x18' + varint(self.timeout))
        return b"".join(out)


class ExecSyncResponse(Message):
    __slots__ = ("stdout", "stderr", "exit_code")
    FULL_NAME = "runtime.v1.ExecSyncResponse"

    def __init__(self, *, stdout: bytes = b"", stderr: bytes = b"", exit_code: int = 0) -> None:
        self.stdout = stdout
        self.stderr = stderr
        self.exit_code = exit_code

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                self.stdout, pos = read_bytes(data, pos, end)
            elif tag == 18:
                self.stderr, pos = read_bytes(data, pos, end)
            elif tag == 24:
                value, pos = read_varint(data, pos, end)
                self.exit_code = signed32(value)
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.stdout:
            out.append(put_bytes(b'\n', self.stdout))
        if self.stderr:
            out.append(put_bytes(b'\x12', self.stderr))
        if self.exit_code:
            out.append(b'\x18' + varint(self.exit_code))
        return b"".join(out)


class ListContainerStatsRequest(Message):
    __slots__ = ()
    FULL_NAME = "runtime.v1.ListContainerStatsRequest"


class ListContainerStatsResponse(Message):
    __slots__ = ("stats",)
    FULL_NAME = "runtime.v1.ListContainerStatsResponse"

    def __init__(self, *, stats: list[ContainerStats] | None = None) -> None:
        self.stats: list[ContainerStats] = [] if stats is None else stats

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                pos, stop = read_length(data, pos, end)
                item_1 = ContainerStats()
                item_1.merge(data, pos, stop)
                self.stats.append(item_1)
                pos = stop
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        for item_1 in self.stats:
            out.append(put_bytes(b'\n', item_1.encode()))
        return b"".join(out)


class ContainerStats(Message):
    __slots__ = ("attributes", "cpu", "memory")
    FULL_NAME = "runtime.v1.ContainerStats"

    def __init__(self, *, attributes: ContainerAttributes | None = None, cpu: CpuUsage | None = None, memory: MemoryUsage | None = None) -> None:
        self.attributes = attributes
        self.cpu = cpu
        self.memory = memory

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                pos, stop = read_length(data, pos, end)
                if self.attributes is None:
                    self.attributes = ContainerAttributes()
                self.attributes.merge(data, pos, stop)
                pos = stop
            elif tag == 18:
                pos, stop = read_length(data, pos, end)
                if self.cpu is None:
                    self.cpu = CpuUsage()
                self.cpu.merge(data, pos, stop)
                pos = stop
            elif tag == 26:
                pos, stop = read_length(data, pos, end)
                if self.memory is None:
                    self.memory = MemoryUsage()
                self.memory.merge(data, pos, stop)
                pos = stop
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.attributes is not None:
            out.append(put_bytes(b'\n', self.attributes.encode()))
        if self.cpu is not None:
            out.append(put_bytes(b'\x12', self.cpu.encode()))
        if self.memory is not None:
            out.append(put_bytes(b'\x1a', self.memory.encode()))
        return b"".join(out)


class ContainerAttributes(Message):
    __slots__ = ("id",)
    FULL_NAME = "runtime.v1.ContainerAttributes"

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


class UInt64Value(Message):
    __slots__ = ("value",)
    FULL_NAME = "runtime.v1.UInt64Value"

    def __init__(self, *, value: int = 0) -> None:
        self.value = value

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 8:
                value, pos = read_varint(data, pos, end)
                self.value = value
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.value:
            out.append(b'\x08' + varint(self.value))
        return b"".join(out)


class CpuUsage(Message):
    __slots__ = ("timestamp", "usage_core_nano_seconds")
    FULL_NAME = "runtime.v1.CpuUsage"

    def __init__(self, *, timestamp: int = 0, usage_core_nano_seconds: UInt64Value | None = None) -> None:
        self.timestamp = timestamp
        self.usage_core_nano_seconds = usage_core_nano_seconds

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 8:
                value, pos = read_varint(data, pos, end)
                self.timestamp = signed64(value)
            elif tag == 18:
                pos, stop = read_length(data, pos, end)
                if self.usage_core_nano_seconds is None:
                    self.usage_core_nano_seconds = UInt64Value()
                self.usage_core_nano_seconds.merge(data, pos, stop)
                pos = stop
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.timestamp:
            out.append(b'\x08' + varint(self.timestamp))
        if self.usage_core_nano_seconds is not None:
            out.append(put_bytes(b'\x12', self.usage_core_nano_seconds.encode()))
        return b"".join(out)


class MemoryUsage(Message):
    __slots__ = ("timestamp", "working_set_bytes")
    FULL_NAME = "runtime.v1.MemoryUsage"

    def __init__(self, *, timestamp: int = 0, working_set_bytes: UInt64Value | None = None) -> None:
        self.timestamp = timestamp
        self.working_set_bytes = working_set_bytes

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 8:
                value, pos = read_varint(data, pos, end)
                self.timestamp = signed64(value)
            elif tag == 18:
                pos, stop = read_length(data, pos, end)
                if self.working_set_bytes is None:
                    self.working_set_bytes = UInt64Value()
                self.working_set_bytes.merge(data, pos, stop)
                pos = stop
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.timestamp:
            out.append(b'\x08' + varint(self.timestamp))
        if self.working_set_bytes is not None:
            out.append(put_bytes(b'\x12', self.working_set_bytes.encode()))
        return b"".join(out)


SERVICES: dict[str, dict[str, tuple[type[Message], type[Message]]]] = {
    "runtime.v1.RuntimeService": {
        "RunPodSandbox": (RunPodSandboxRequest, RunPodSandboxResponse),
        "StopPodSandbox": (StopPodSandboxRequest, StopPodSandboxResponse),
        "RemovePodSandbox": (RemovePodSandboxRequest, RemovePodSandboxResponse),
        "PodSandboxStatus": (PodSandboxStatusRequest, PodSandboxStatusResponse),
        "CreateContainer": (CreateContainerRequest, CreateContainerResponse),
        "StartContainer": (StartContainerRequest, StartContainerResponse),
        "StopContainer": (StopContainerRequest, StopContainerResponse),
        "RemoveContainer": (RemoveContainerRequest, RemoveContainerResponse),
        "ContainerStatus": (ContainerStatusRequest, ContainerStatusResponse),
        "ExecSync": (ExecSyncRequest, ExecSyncResponse),
        "ListContainerStats": (ListContainerStatsRequest, ListContainerStatsResponse),
    },
}

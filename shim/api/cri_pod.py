# Generated from cri/pod.proto by scripts/generate_api.py. Do not edit; `make proto` regenerates it.
from __future__ import annotations

from shim.api.wire import Message, put_bytes, put_string, read_length, read_string, read_string_entry, read_tag, read_varint, signed32, skip, varint


class NamespaceMode:
    __slots__ = ()
    POD = 0
    CONTAINER = 1
    NODE = 2


class PodSandboxConfig(Message):
    __slots__ = ("metadata", "hostname", "log_directory", "dns_config", "labels", "annotations", "linux")
    FULL_NAME = "runtime.v1.PodSandboxConfig"

    def __init__(self, *, metadata: PodSandboxMetadata | None = None, hostname: str = "", log_directory: str = "", dns_config: DNSConfig | None = None, labels: dict[str, str] | None = None, annotations: dict[str, str] | None = None, linux: LinuxPodSandboxConfig | None = None) -> None:
        self.metadata = metadata
        self.hostname = hostname
        self.log_directory = log_directory
        self.dns_config = dns_config
        self.labels: dict[str, str] = {} if labels is None else labels
        self.annotations: dict[str, str] = {} if annotations is None else annotations
        self.linux = linux

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                pos, stop = read_length(data, pos, end)
                if self.metadata is None:
                    self.metadata = PodSandboxMetadata()
                self.metadata.merge(data, pos, stop)
                pos = stop
            elif tag == 18:
                self.hostname, pos = read_string(data, pos, end)
            elif tag == 26:
                self.log_directory, pos = read_string(data, pos, end)
            elif tag == 34:
                pos, stop = read_length(data, pos, end)
                if self.dns_config is None:
                    self.dns_config = DNSConfig()
                self.dns_config.merge(data, pos, stop)
                pos = stop
            elif tag == 50:
                pos, stop = read_length(data, pos, end)
                key, text = read_string_entry(data, pos, stop)
                self.labels[key] = text
                pos = stop
            elif tag == 58:
                pos, stop = read_length(data, pos, end)
                key, text = read_string_entry(data, pos, stop)
                self.annotations[key] = text
                pos = stop
            elif tag == 66:
                pos, stop = read_length(data, pos, end)
                if self.linux is None:
                    self.linux = LinuxPodSandboxConfig()
                self.linux.merge(data, pos, stop)
                pos = stop
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.metadata is not None:
            out.append(put_bytes(b'\n', self.metadata.encode()))
        if self.hostname:
            out.append(put_string(b'\x12', self.hostname))
        if self.log_directory:
            out.append(put_string(b'\x1a', self.log_directory))
        if self.dns_config is not None:
            out.append(put_bytes(b'"', self.dns_config.encode()))
        for key in sorted(self.labels):
            out.append(put_bytes(b'2', put_string(b'\n', key) + put_string(b'\x12', self.labels[key])))
        for key in sorted(self.annotations):
            out.append(put_bytes(b':', put_string(b'\n', key) + put_string(b'\x12', self.annotations[key])))
        if self.linux is not None:
            out.append(put_bytes(b'B', self.linux.encode()))
        return b"".join(out)


class PodSandboxMetadata(Message):
    __slots__ = ("name", "uid", "namespace", "attempt")
    FULL_NAME = "runtime.v1.PodSandboxMetadata"

    def __init__(self, *, name: str = "", uid: str = "", namespace: str = "", attempt: int = 0) -> None:
        self.name = name
        self.uid = uid
        self.namespace = namespace
        self.attempt = attempt

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                self.name, pos = read_string(data, pos, end)
            elif tag == 18:
                self.uid, pos = read_string(data, pos, end)
            elif tag == 26:
                self.namespace, pos = read_string(data, pos, end)
            elif tag == 32:
                value, pos = read_varint(data, pos, end)
                self.attempt = value & 0xFFFFFFFF
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.name:
            out.append(put_string(b'\n', self.name))
        if self.uid:
            out.append(put_string(b'\x12', self.uid))
        if self.namespace:
            out.append(put_string(b'\x1a', self.namespace))
        if self.attempt:
            out.append(b' ' + varint(self.attempt & 0xFFFFFFFF))
        return b"".join(out)


class DNSConfig(Message):
    __slots__ = ("servers", "searches", "options")
    FULL_NAME = "runtime.v1.DNSConfig"

    def __init__(self, *, servers: list[str] | None = None, searches: list[str] | None = None, options: list[str] | None = None) -> None:
        self.servers: list[str] = [] if servers is None else servers
        self.searches: list[str] = [] if searches is None else searches
        self.options: list[str] = [] if options is None else options

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                item_1, pos = read_string(data, pos, end)
                self.servers.append(item_1)
            elif tag == 18:
                item_2, pos = read_string(data, pos, end)
                self.searches.append(item_2)
            elif tag == 26:
                item_3, pos = read_string(data, pos, end)
                self.options.append(item_3)
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        for item_1 in self.servers:
            out.append(put_string(b'\n', item_1))
        for item_2 in self.searches:
            out.append(put_string(b'\x12', item_2))
        for item_3 in self.options:
            out.append(put_string(b'\x1a', item_3))
        return b"".join(out)


class LinuxPodSandboxConfig(Message):
    __slots__ = ("cgroup_parent", "security_context", "sysctls")
    FULL_NAME = "runtime.v1.LinuxPodSandboxConfig"

    def __init__(self, *, cgroup_parent: str = "", security_context: LinuxSandboxSecurityContext | None = None, sysctls: dict[str, str] | None = None) -> None:
        self.cgroup_parent = cgroup_parent
        self.security_context = security_context
        self.sysctls: dict[str, str] = {} if sysctls is None else sysctls

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                self.cgroup_parent, pos = read_string(data, pos, end)
            elif tag == 18:
                pos, stop = read_length(data, pos, end)
                if self.security_context is None:
                    self.security_context = LinuxSandboxSecurityContext()
                self.security_context.merge(data, pos, stop)
                pos = stop
            elif tag == 26:
                pos, stop = read_length(data, pos, end)
                key, text = read_string_entry(data, pos, stop)
                self.sysctls[key] = text
                pos = stop
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.cgroup_parent:
            out.append(put_string(b'\n', self.cgroup_parent))
        if self.security_context is not None:
            out.append(put_bytes(b'\x12', self.security_context.encode()))
        for key in sorted(self.sysctls):
            out.append(put_bytes(b'\x1a', put_string(b'\n', key) + put_string(b'\x12', self.sysctls[key])))
        return b"".join(out)


class LinuxSandboxSecurityContext(Message):
    __slots__ = ("namespace_options",)
    FULL_NAME = "runtime.v1.LinuxSandboxSecurityContext"

    def __init__(self, *, namespace_options: NamespaceOption | None = None) -> None:
        self.namespace_options = namespace_options

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                pos, stop = read_length(data, pos, end)
                if self.namespace_options is None:
                    self.namespace_options = NamespaceOption()
                self.namespace_options.merge(data, pos, stop)
                pos = stop
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.namespace_options is not None:
            out.append(put_bytes(b'\n', self.namespace_options.encode()))
        return b"".join(out)


class NamespaceOption(Message):
    __slots__ = ("network", "pid", "ipc")
    FULL_NAME = "runtime.v1.NamespaceOption"

    def __init__(self, *, network: int = 0, pid: int = 0, ipc: int = 0) -> None:
        self.network = network
        self.pid = pid
        self.ipc = ipc

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 8:
                value, pos = read_varint(data, pos, end)
                self.network = signed32(value)
            elif tag == 16:
                value, pos = read_varint(data, pos, end)
                self.pid = signed32(value)
            elif tag == 24:
                value, pos = read_varint(data, pos, end)
                self.ipc = signed32(value)
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.network:
            out.append(b'\x08' + varint(self.network))
        if self.pid:
            out.append(b'\x10' + varint(self.pid))
        if self.ipc:
            out.append(b'\x18' + varint(self.ipc))
        return b"".join(out)

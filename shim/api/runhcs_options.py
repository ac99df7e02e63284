# Generated from runhcs/options.proto by scripts/generate_api.py. Do not edit; `make proto` regenerates it.
from __future__ import annotations

from shim.api.wellknown import Timestamp
from shim.api.wire import Message, put_bytes, put_string, read_length, read_string, read_string_entry, read_tag, read_varint, signed32, skip, varint


class Options(Message):
    class DebugType:
        __slots__ = ()
        NPIPE = 0
        FILE = 1
        ETW = 2

    class SandboxIsolation:
        __slots__ = ()
        PROCESS = 0
        HYPERVISOR = 1

    __slots__ = ("debug", "debug_type", "registry_root", "sandbox_image", "sandbox_platform", "sandbox_isolation", "boot_files_root_path", "vm_processor_count", "vm_memory_size_in_mb", "GPUVHDPath", "scale_cpu_limits_to_sandbox", "default_container_scratch_size_in_gb", "default_vm_scratch_size_in_gb", "share_scratch", "NCProxyAddr", "log_level", "io_retry_timeout_in_sec", "default_container_annotations", "no_inherit_host_timezone", "scrub_logs")
    FULL_NAME = "containerd.runhcs.v1.Options"

    def __init__(self, *, debug: bool = False, debug_type: int = 0, registry_root: str = "", sandbox_image: str = "", sandbox_platform: str = "", sandbox_isolation: int = 0, boot_files_root_path: str = "", vm_processor_count: int = 0, vm_memory_size_in_mb: int = 0, GPUVHDPath: str = "", scale_cpu_limits_to_sandbox: bool = False, default_container_scratch_size_in_gb: int = 0, default_vm_scratch_size_in_gb: int = 0, share_scratch: bool = False, NCProxyAddr: str = "", log_level: str = "", io_retry_timeout_in_sec: int = 0, default_container_annotations: dict[str, str] | None = None, no_inherit_host_timezone: bool = False, scrub_logs: bool | None = None) -> None:
        self.debug = debug
        self.debug_type = debug_type
        self.registry_root = registry_root
        self.sandbox_image = sandbox_image
        self.sandbox_platform = sandbox_platform
        self.sandbox_isolation = sandbox_isolation
        self.boot_files_root_path = boot_files_root_path
        self.vm_processor_count = vm_processor_count
        self.vm_memory_size_in_mb = vm_memory_size_in_mb
        self.GPUVHDPath = GPUVHDPath
        self.scale_cpu_limits_to_sandbox = scale_cpu_limits_to_sandbox
        self.default_container_scratch_size_in_gb = default_container_scratch_size_in_gb
        self.default_vm_scratch_size_in_gb = default_vm_scratch_size_in_gb
        self.share_scratch = share_scratch
        self.NCProxyAddr = NCProxyAddr
        self.log_level = log_level
        self.io_retry_timeout_in_sec = io_retry_timeout_in_sec
        self.default_container_annotations: dict[str, str] = {} if default_container_annotations is None else default_container_annotations
        self.no_inherit_host_timezone = no_inherit_host_timezone
        self.scrub_logs = scrub_logs

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 8:
                value, pos = read_varint(data, pos, end)
                self.debug = value != 0
            elif tag == 16:
                value, pos = read_varint(data, pos, end)
                self.debug_type = signed32(value)
            elif tag == 26:
                self.registry_root, pos = read_string(data, pos, end)
            elif tag == 34:
                self.sandbox_image, pos = read_string(data, pos, end)
            elif tag == 42:
                self.sandbox_platform, pos = read_string(data, pos, end)
            elif tag == 48:
                value, pos = read_varint(data, pos, end)
                self.sandbox_isolation = signed32(value)
            elif tag == 58:
                self.boot_files_root_path, pos = read_string(data, pos, end)
            elif tag == 64:
                value, pos = read_varint(data, pos, end)
                self.vm_processor_count = signed32(value)
            elif tag == 72:
                value, pos = read_varint(data, pos, end)
                self.vm_memory_size_in_mb = signed32(value)
            elif tag == 82:
                self.GPUVHDPath, pos = read_string(data, pos, end)
            elif tag == 88:
                value, pos = read_varint(data, pos, end)
                self.scale_cpu_limits_to_sandbox = value != 0
            elif tag == 96:
                value, pos = read_varint(data, pos, end)
                self.default_container_scratch_size_in_gb = signed32(value)
            elif tag == 104:
                value, pos = read_varint(data, pos, end)
                self.default_vm_scratch_size_in_gb = signed32(value)
            elif tag == 112:
                value, pos = read_varint(data, pos, end)
                self.share_scratch = value != 0
            elif tag == 122:
                self.NCProxyAddr, pos = read_string(data, pos, end)
            elif tag == 130:
                self.log_level, pos = read_string(data, pos, end)
            elif tag == 136:
                value, pos = read_varint(data, pos, end)
                self.io_retry_timeout_in_sec = signed32(value)
            elif tag == 146:
                pos, stop = read_length(data, pos, end)
                key, text = read_string_entry(data, pos, stop)
                self.default_container_annotations[key] = text
                pos = stop
            elif tag == 152:
                value, pos = read_varint(data, pos, end)
                self.no_inherit_host_timezone = value != 0
            elif tag == 160:
                value, pos = read_varint(data, pos, end)
                self.scrub_logs = value != 0
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.debug:
            out.append(b'\x08\x01')
        if self.debug_type:
            out.append(b'\x10' + varint(self.debug_type))
        if self.registry_root:
            out.append(put_string(b'\x1a', self.registry_root))
        if self.sandbox_image:
            out.append(put_string(b'"', self.sandbox_image))
        if self.sandbox_platform:
            out.append(put_string(b'*', self.sandbox_platform))
        if self.sandbox_isolation:
            out.append(b'0' + varint(self.sandbox_isolation))
        if self.boot_files_root_path:
            out.append(put_string(b':', self.boot_files_root_path))
        if self.vm_processor_count:
            out.append(b'@' + varint(self.vm_processor_count))
        if self.vm_memory_size_in_mb:
            out.append(b'H' + varint(self.vm_memory_size_in_mb))
        if self.GPUVHDPath:
            out.append(put_string(b'R', self.GPUVHDPath))
        if self.scale_cpu_limits_to_sandbox:
            out.append(b'X\x01')
        if self.default_container_scratch_size_in_gb:
            out.append(b'`' + varint(self.default_container_scratch_size_in_gb))
        if self.default_vm_scratch_size_in_gb:
            out.append(b'h' + varint(self.default_vm_scratch_size_in_gb))
        if self.share_scratch:
            out.append(b'p\x01')
        if self.NCProxyAddr:
            out.append(put_string(b'z', self.NCProxyAddr))
        if self.log_level:
            out.append(put_string(b'\x82\x01', self.log_level))
        if self.io_retry_timeout_in_sec:
            out.append(b'\x88\x01' + varint(self.io_retry_timeout_in_sec))
        for key in sorted(self.default_container_annotations):
            out.append(put_bytes(b'\x92\x01', put_string(b'\n', key) + put_string(b'\x12', self.default_container_annotations[key])))
        if self.no_inherit_host_timezone:
            out.append(b'\x98\x01\x01')
        if self.scrub_logs is not None:
            out.append(b'\xa0\x01' + varint(1 if self.scrub_logs else 0))
        return b"".join(out)


class ProcessDetails(Message):
    __slots__ = ("image_name", "created_at", "kernel_time_100_ns", "memory_commit_bytes", "memory_working_set_private_bytes", "memory_working_set_shared_bytes", "process_id", "user_time_100_ns", "exec_id")
    FULL_NAME = "containerd.runhcs.v1.ProcessDetails"

    def __init__(self, *, image_name: str = "", created_at: Timestamp | None = None, kernel_time_100_ns: int = 0, memory_commit_bytes: int = 0, memory_working_set_private_bytes: int = 0, memory_working_set_shared_bytes: int = 0, process_id: int = 0, user_time_100_ns: int = 0, exec_id: str = "") -> None:
        self.image_name = image_name
        self.created_at = created_at
        self.kernel_time_100_ns = kernel_time_100_ns
        self.memory_commit_bytes = memory_commit_bytes
        self.memory_working_set_private_bytes = memory_working_set_private_bytes
        self.memory_working_set_shared_bytes = memory_working_set_shared_bytes
        self.process_id = process_id
        self.user_time_100_ns = user_time_100_ns
        self.exec_id = exec_id

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                self.image_name, pos = read_string(data, pos, end)
            elif tag == 18:
                pos, stop = read_length(data, pos, end)
                if self.created_at is None:
                    self.created_at = Timestamp()
                self.created_at.merge(data, pos, stop)
                pos = stop
            elif tag == 24:
                value, pos = read_varint(data, pos, end)
                self.kernel_time_100_ns = value
            elif tag == 32:
                value, pos = read_varint(data, pos, end)
                self.memory_commit_bytes = value
            elif tag == 40:
                value, pos = read_varint(data, pos, end)
                self.memory_working_set_private_bytes = value
            elif tag == 48:
                value, pos = read_varint(data, pos, end)
                self.memory_working_set_shared_bytes = value
            elif tag == 56:
                value, pos = read_varint(data, pos, end)
                self.process_id = value & 0xFFFFFFFF
            elif tag == 64:
                value, pos = read_varint(data, pos, end)
                self.user_time_100_ns = value
            elif tag == 74:
                self.exec_id, pos = read_string(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.image_name:
            out.append(put_string(b'\n', self.image_name))
        if self.created_at is not None:
            out.append(put_bytes(b'\x12', self.created_at.encode()))
        if self.kernel_time_100_ns:
            out.append(b'\x18' + varint(self.kernel_time_100_ns))
        if self.memory_commit_bytes:
            out.append(b' ' + varint(self.memory_commit_bytes))
        if self.memory_working_set_private_bytes:
            out.append(b'(' + varint(self.memory_working_set_private_bytes))
        if self.memory_working_set_shared_bytes:
            out.append(b'0' + varint(self.memory_working_set_shared_bytes))
        if self.process_id:
            out.append(b'8' + varint(self.process_id & 0xFFFFFFFF))
        if self.user_time_100_ns:
            out.append(b'@' + varint(self.user_time_100_ns))
        if self.exec_id:
            out.append(put_string(b'J', self.exec_id))
        return b"".join(out)

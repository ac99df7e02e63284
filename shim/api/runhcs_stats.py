# Generated from runhcs/stats.proto by scripts/generate_api.py. Do not edit; `make proto` regenerates it.
from __future__ import annotations

from shim.api.cgroups_v1 import Metrics
from shim.api.wellknown import Timestamp
from shim.api.wire import Message, put_bytes, read_length, read_tag, read_varint, signed32, skip, varint


class Statistics(Message):
    __slots__ = ("windows", "linux", "vm")
    FULL_NAME = "containerd.runhcs.stats.v1.Statistics"

    def __init__(self, *, windows: WindowsContainerStatistics | None = None, linux: Metrics | None = None, vm: VirtualMachineStatistics | None = None) -> None:
        self.windows = windows
        self.linux = linux
        self.vm = vm

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                pos, stop = read_length(data, pos, end)
                if self.windows is None:
                    self.windows = WindowsContainerStatistics()
                self.windows.merge(data, pos, stop)
                pos = stop
                self.linux = None
            elif tag == 18:
                pos, stop = read_length(data, pos, end)
                if self.linux is None:
                    self.linux = Metrics()
                self.linux.merge(data, pos, stop)
                pos = stop
                self.windows = None
            elif tag == 26:
                pos, stop = read_length(data, pos, end)
                if self.vm is None:
                    self.vm = VirtualMachineStatistics()
                self.vm.merge(data, pos, stop)
                pos = stop
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.windows is not None:
            out.append(put_bytes(b'\n', self.windows.encode()))
        if self.linux is not None:
            out.append(put_bytes(b'\x12', self.linux.encode()))
        if self.vm is not None:
            out.append(put_bytes(b'\x1a', self.vm.encode()))
        return b"".join(out)


class WindowsContainerStatistics(Message):
    __slots__ = ("timestamp", "container_start_time", "uptime_ns", "processor", "memory", "storage")
    FULL_NAME = "containerd.runhcs.stats.v1.WindowsContainerStatistics"

    def __init__(self, *, timestamp: Timestamp | None = None, container_start_time: Timestamp | None = None, uptime_ns: int = 0, processor: WindowsContainerProcessorStatistics | None = None, memory: WindowsContainerMemoryStatistics | None = None, storage: WindowsContainerStorageStatistics | None = None) -> None:
        self.timestamp = timestamp
        self.container_start_time = container_start_time
        self.uptime_ns = uptime_ns
        self.processor = processor
        self.memory = memory
        self.storage = storage

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
                pos, stop = read_length(data, pos, end)
                if self.container_start_time is None:
                    self.container_start_time = Timestamp()
                self.container_start_time.merge(data, pos, stop)
                pos = stop
            elif tag == 24:
                value, pos = read_varint(data, pos, end)
                self.uptime_ns = value
            elif tag == 34:
                pos, stop = read_length(data, pos, end)
                if self.processor is None:
                    self.processor = WindowsContainerProcessorStatistics()
                self.processor.merge(data, pos, stop)
                pos = stop
            elif tag == 42:
                pos, stop = read_length(data, pos, end)
                if self.memory is None:
                    self.memory = WindowsContainerMemoryStatistics()
                self.memory.merge(data, pos, stop)
                pos = stop
            elif tag == 50:
                pos, stop = read_length(data, pos, end)
                if self.storage is None:
                    self.storage = WindowsContainerStorageStatistics()
                self.storage.merge(data, pos, stop)
                pos = stop
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.timestamp is not None:
            out.append(put_bytes(b'\n', self.timestamp.encode()))
        if self.container_start_time is not None:
            out.append(put_bytes(b'\x12', self.container_start_time.encode()))
        if self.uptime_ns:
            out.append(b'\x18' + varint(self.uptime_ns))
        if self.processor is not None:
            out.append(put_bytes(b'"', self.processor.encode()))
        if self.memory is not None:
            out.append(put_bytes(b'*', self.memory.encode()))
        if self.storage is not None:
            out.append(put_bytes(b'2', self.storage.encode()))
        return b"".join(out)


class WindowsContainerProcessorStatistics(Message):
    __slots__ = ("total_runtime_ns", "runtime_user_ns", "runtime_kernel_ns")
    FULL_NAME = "containerd.runhcs.stats.v1.WindowsContainerProcessorStatistics"

    def __init__(self, *, total_runtime_ns: int = 0, runtime_user_ns: int = 0, runtime_kernel_ns: int = 0) -> None:
        self.total_runtime_ns = total_runtime_ns
        self.runtime_user_ns = runtime_user_ns
        self.runtime_kernel_ns = runtime_kernel_ns

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 8:
                value, pos = read_varint(data, pos, end)
                self.total_runtime_ns = value
            elif tag == 16:
                value, pos = read_varint(data, pos, end)
                self.runtime_user_ns = value
            elif tag == 24:
                value, pos = read_varint(data, pos, end)
                self.runtime_kernel_ns = value
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.total_runtime_ns:
            out.append(b'\x08' + varint(self.total_runtime_ns))
        if self.runtime_user_ns:
            out.append(b'\x10' + varint(self.runtime_user_ns))
        if self.runtime_kernel_ns:
            out.append(b'\x18' + varint(self.runtime_kernel_ns))
        return b"".join(out)


class WindowsContainerMemoryStatistics(Message):
    __slots__ = ("memory_usage_commit_bytes", "memory_usage_commit_peak_bytes", "memory_usage_private_working_set_bytes")
    FULL_NAME = "containerd.runhcs.stats.v1.WindowsContainerMemoryStatistics"

    def __init__(self, *, memory_usage_commit_bytes: int = 0, memory_usage_commit_peak_bytes: int = 0, memory_usage_private_working_set_bytes: int = 0) -> None:
        self.memory_usage_commit_bytes = memory_usage_commit_bytes
        self.memory_usage_commit_peak_bytes = memory_usage_commit_peak_bytes
        self.memory_usage_private_working_set_bytes = memory_usage_private_working_set_bytes

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 8:
                value, pos = read_varint(data, pos, end)
                self.memory_usage_commit_bytes = value
            elif tag == 16:
                value, pos = read_varint(data, pos, end)
                self.memory_usage_commit_peak_bytes = value
            elif tag == 24:
                value, pos = read_varint(data, pos, end)
                self.memory_usage_private_working_set_bytes = value
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.memory_usage_commit_bytes:
            out.append(b'\x08' + varint(self.memory_usage_commit_bytes))
        if self.memory_usage_commit_peak_bytes:
            out.append(b'\x10' + varint(self.memory_usage_commit_peak_bytes))
        if self.memory_usage_private_working_set_bytes:
            out.append(b'\x18' + varint(self.memory_usage_private_working_set_bytes))
        return b"".join(out)


class WindowsContainerStorageStatistics(Message):
    __slots__ = ("read_count_normalized", "read_size_bytes", "write_count_normalized", "write_size_bytes")
    FULL_NAME = "containerd.runhcs.stats.v1.WindowsContainerStorageStatistics"

    def __init__(self, *, read_count_normalized: int = 0, read_size_bytes: int = 0, write_count_normalized: int = 0, write_size_bytes: int = 0) -> None:
        self.read_count_normalized = read_count_normalized
        self.read_size_bytes = read_size_bytes
        self.write_count_normalized = write_count_normalized
        self.write_size_bytes = write_size_bytes

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 8:
                value, pos = read_varint(data, pos, end)
                self.read_count_normalized = value
            elif tag == 16:
                value, pos = read_varint(data, pos, end)
                self.read_size_bytes = value
            elif tag == 24:
                value, pos = read_varint(data, pos, end)
                self.write_count_normalized = value
            elif tag == 32:
                value, pos = read_varint(data, pos, end)
                self.write_size_bytes = value
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.read_count_normalized:
            out.append(b'\x08' + varint(self.read_count_normalized))
        if self.read_size_bytes:
            out.append(b'\x10' + varint(self.read_size_bytes))
        if self.write_count_normalized:
            out.append(b'\x18' + varint(self.write_count_normalized))
        if self.write_size_bytes:
            out.append(b' ' + varint(self.write_size_bytes))
        return b"".join(out)


class VirtualMachineStatistics(Message):
    __slots__ = ("processor", "memory")
    FULL_NAME = "containerd.runhcs.stats.v1.VirtualMachineStatistics"

    def __init__(self, *, processor: VirtualMachineProcessorStatistics | None = None, memory: VirtualMachineMemoryStatistics | None = None) -> None:
        self.processor = processor
        self.memory = memory

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                pos, stop = read_length(data, pos, end)
                if self.processor is None:
                    self.processor = VirtualMachineProcessorStatistics()
                self.processor.merge(data, pos, stop)
                pos = stop
            elif tag == 18:
                pos, stop = read_length(data, pos, end)
                if self.memory is None:
                    self.memory = VirtualMachineMemoryStatistics()
                self.memory.merge(data, pos, stop)
                pos = stop
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.processor is not None:
            out.append(put_bytes(b'\n', self.processor.encode()))
        if self.memory is not None:
            out.append(put_bytes(b'\x12', self.memory.encode()))
        return b"".join(out)


class VirtualMachineProcessorStatistics(Message):
    __slots__ = ("total_runtime_ns",)
    FULL_NAME = "containerd.runhcs.stats.v1.VirtualMachineProcessorStatistics"

    def __init__(self, *, total_runtime_ns: int = 0) -> None:
        self.total_runtime_ns = total_runtime_ns

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 8:
                value, pos = read_varint(data, pos, end)
                self.total_runtime_ns = value
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.total_runtime_ns:
            out.append(b'\x08' + varint(self.total_runtime_ns))
        return b"".join(out)


class VirtualMachineMemoryStatistics(Message):
    __slots__ = ("working_set_bytes", "virtual_node_count", "vm_memory")
    FULL_NAME = "containerd.runhcs.stats.v1.VirtualMachineMemoryStatistics"

    def __init__(self, *, working_set_bytes: int = 0, virtual_node_count: int = 0, vm_memory: VirtualMachineMemory | None = None) -> None:
        self.working_set_bytes = working_set_bytes
        self.virtual_node_count = virtual_node_count
        self.vm_memory = vm_memory

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 8:
                value, pos = read_varint(data, pos, end)
                self.working_set_bytes = value
            elif tag == 16:
                value, pos = read_varint(data, pos, end)
                self.virtual_node_count = value & 0xFFFFFFFF
            elif tag == 26:
                pos, stop = read_length(data, pos, end)
                if self.vm_memory is None:
                    self.vm_memory = VirtualMachineMemory()
                self.vm_memory.merge(data, pos, stop)
                pos = stop
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.working_set_bytes:
            out.append(b'\x08' + varint(self.working_set_bytes))
        if self.virtual_node_count:
            out.append(b'\x10' + varint(self.virtual_node_count & 0xFFFFFFFF))
        if self.vm_memory is not None:
            out.append(put_bytes(b'\x1a', self.vm_memory.encode()))
        return b"".join(out)


class VirtualMachineMemory(Message):
    __slots__ = ("available_memory", "available_memory_buffer", "reserved_memory", "assigned_memory", "slp_active", "balancing_enabled", "dm_operation_in_progress")
    FULL_NAME = "containerd.runhcs.stats.v1.VirtualMachineMemory"

    def __init__(self, *, available_memory: int = 0, available_memory_buffer: int = 0, reserved_memory: int = 0, assigned_memory: int = 0, slp_active: bool = False, balancing_enabled: bool = False, dm_operation_in_progress: bool = False) -> None:
        self.available_memory = available_memory
        self.available_memory_buffer = available_memory_buffer
        self.reserved_memory = reserved_memory
        self.assigned_memory = assigned_memory
        self.slp_active = slp_active
        self.balancing_enabled = balancing_enabled
        self.dm_operation_in_progress = dm_operation_in_progress

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 8:
                value, pos = read_varint(data, pos, end)
                self.available_memory = signed32(value)
            elif tag == 16:
                value, pos = read_varint(data, pos, end)
                self.available_memory_buffer = signed32(value)
            elif tag == 24:
                value, pos = read_varint(data, pos, end)
                self.reserved_memory = value
            elif tag == 32:
                value, pos = read_varint(data, pos, end)
                self.assigned_memory = value
            elif tag == 40:
                value, pos = read_varint(data, pos, end)
                self.slp_active = value != 0
            elif tag == 48:
                value, pos = read_varint(data, pos, end)
                self.balancing_enabled = value != 0
            elif tag == 56:
                value, pos = read_varint(data, pos, end)
                self.dm_operation_in_progress = value != 0
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.available_memory:
            out.append(b'\x08' + varint(self.available_memory))
        if self.available_memory_buffer:
            out.append(b'\x10' + varint(self.available_memory_buffer))
        if self.reserved_memory:
            out.append(b'\x18' + varint(self.reserved_memory))
        if self.assigned_memory:
            out.append(b' ' + varint(self.assigned_memory))
        if self.slp_active:
            out.append(b'(\x01')
        if self.balancing_enabled:
            out.append(b'0\x01')
        if self.dm_operation_in_progress:
            out.append(b'8\x01')
        return b"".join(out)

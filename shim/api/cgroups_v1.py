# Generated from cgroups/v1/metrics.proto by scripts/generate_api.py. Do not edit; `make proto` regenerates it.
from __future__ import annotations

from shim.api.wire import Message, put_bytes, put_string, read_length, read_string, read_tag, read_varint, skip, varint


class Metrics(Message):
    __slots__ = ("hugetlb", "pids", "cpu", "memory", "blkio", "rdma", "network", "cgroup_stats", "memory_oom_control")
    FULL_NAME = "io.containerd.cgroups.v1.Metrics"

    def __init__(self, *, hugetlb: list[HugetlbStat] | None = None, pids: PidsStat | None = None, cpu: CPUStat | None = None, memory: MemoryStat | None = None, blkio: BlkIOStat | None = None, rdma: RdmaStat | None = None, network: list[NetworkStat] | None = None, cgroup_stats: CgroupStats | None = None, memory_oom_control: MemoryOomControl | None = None) -> None:
        self.hugetlb: list[HugetlbStat] = [] if hugetlb is None else hugetlb
        self.pids = pids
        self.cpu = cpu
        self.memory = memory
        self.blkio = blkio
        self.rdma = rdma
        self.network: list[NetworkStat] = [] if network is None else network
        self.cgroup_stats = cgroup_stats
        self.memory_oom_control = memory_oom_control

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                pos, stop = read_length(data, pos, end)
                item_1 = HugetlbStat()
                item_1.merge(data, pos, stop)
                self.hugetlb.append(item_1)
                pos = stop
            elif tag == 18:
                pos, stop = read_length(data, pos, end)
                if self.pids is None:
                    self.pids = PidsStat()
                self.pids.merge(data, pos, stop)
                pos = stop
            elif tag == 26:
                pos, stop = read_length(data, pos, end)
                if self.cpu is None:
                    self.cpu = CPUStat()
                self.cpu.merge(data, pos, stop)
                pos = stop
            elif tag == 34:
                pos, stop = read_length(data, pos, end)
                if self.memory is None:
                    self.memory = MemoryStat()
                self.memory.merge(data, pos, stop)
                pos = stop
            elif tag == 42:
                pos, stop = read_length(data, pos, end)
                if self.blkio is None:
                    self.blkio = BlkIOStat()
                self.blkio.merge(data, pos, stop)
                pos = stop
            elif tag == 50:
                pos, stop = read_length(data, pos, end)
                if self.rdma is None:
                    self.rdma = RdmaStat()
                self.rdma.merge(data, pos, stop)
                pos = stop
            elif tag == 58:
                pos, stop = read_length(data, pos, end)
                item_7 = NetworkStat()
                item_7.merge(data, pos, stop)
                self.network.append(item_7)
                pos = stop
            elif tag == 66:
                pos, stop = read_length(data, pos, end)
                if self.cgroup_stats is None:
                    self.cgroup_stats = CgroupStats()
                self.cgroup_stats.merge(data, pos, stop)
                pos = stop
            elif tag == 74:
                pos, stop = read_length(data, pos, end)
                if self.memory_oom_control is None:
                    self.memory_oom_control = MemoryOomControl()
                self.memory_oom_control.merge(data, pos, stop)
                pos = stop
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        for item_1 in self.hugetlb:
            out.append(put_bytes(b'\n', item_1.encode()))
        if self.pids is not None:
            out.append(put_bytes(b'\x12', self.pids.encode()))
        if self.cpu is not None:
            out.append(put_bytes(b'\x1a', self.cpu.encode()))
        if self.memory is not None:
            out.append(put_bytes(b'"', self.memory.encode()))
        if self.blkio is not None:
            out.append(put_bytes(b'*', self.blkio.encode()))
        if self.rdma is not None:
            out.append(put_bytes(b'2', self.rdma.encode()))
        for item_7 in self.network:
            out.append(put_bytes(b':', item_7.encode()))
        if self.cgroup_stats is not None:
            out.append(put_bytes(b'B', self.cgroup_stats.encode()))
        if self.memory_oom_control is not None:
            out.append(put_bytes(b'J', self.memory_oom_control.encode()))
        return b"".join(out)


class HugetlbStat(Message):
    __slots__ = ("usage", "max", "failcnt", "pagesize")
    FULL_NAME = "io.containerd.cgroups.v1.HugetlbStat"

    def __init__(self, *, usage: int = 0, max: int = 0, failcnt: int = 0, pagesize: str = "") -> None:
        self.usage = usage
        self.max = max
        self.failcnt = failcnt
        self.pagesize = pagesize

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 8:
                value, pos = read_varint(data, pos, end)
                self.usage = value
            elif tag == 16:
                value, pos = read_varint(data, pos, end)
                self.max = value
            elif tag == 24:
                value, pos = read_varint(data, pos, end)
                self.failcnt = value
            elif tag == 34:
                self.pagesize, pos = read_string(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.usage:
            out.append(b'\x08' + varint(self.usage))
        if self.max:
            out.append(b'\x10' + varint(self.max))
        if self.failcnt:
            out.append(b'\x18' + varint(self.failcnt))
        if self.pagesize:
            out.append(put_string(b'"', self.pagesize))
        return b"".join(out)


class PidsStat(Message):
    __slots__ = ("current", "limit")
    FULL_NAME = "io.containerd.cgroups.v1.PidsStat"

    def __init__(self, *, current: int = 0, limit: int = 0) -> None:
        self.current = current
        self.limit = limit

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 8:
                value, pos = read_varint(data, pos, end)
                self.current = value
            elif tag == 16:
                value, pos = read_varint(data, pos, end)
                self.limit = value
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.current:
            out.append(b'\x08' + varint(self.current))
        if self.limit:
            out.append(b'\x10' + varint(self.limit))
        return b"".join(out)


class CPUStat(Message):
    __slots__ = ("usage", "throttling")
    FULL_NAME = "io.containerd.cgroups.v1.CPUStat"

    def __init__(self, *, usage: CPUUsage | None = None, throttling: Throttle | None = None) -> None:
        self.usage = usage
        self.throttling = throttling

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                pos, stop = read_length(data, pos, end)
                if self.usage is None:
                    self.usage = CPUUsage()
                self.usage.merge(data, pos, stop)
                pos = stop
            elif tag == 18:
                pos, stop = read_length(data, pos, end)
                if self.throttling is None:
                    self.throttling = Throttle()
                self.throttling.merge(data, pos, stop)
                pos = stop
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.usage is not None:
            out.append(put_bytes(b'\n', self.usage.encode()))
        if self.throttling is not None:
            out.append(put_bytes(b'\x12', self.throttling.encode()))
        return b"".join(out)


class CPUUsage(Message):
    __slots__ = ("total", "kernel", "user", "per_cpu")
    FULL_NAME = "io.containerd.cgroups.v1.CPUUsage"

    def __init__(self, *, total: int = 0, kernel: int = 0, user: int = 0, per_cpu: list[int] | None = None) -> None:
        self.total = total
        self.kernel = kernel
        self.user = user
        self.per_cpu: list[int] = [] if per_cpu is None else per_cpu

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 8:
                value, pos = read_varint(data, pos, end)
                self.total = value
            elif tag == 16:
                value, pos = read_varint(data, pos, end)
                self.kernel = value
            elif tag == 24:
                value, pos = read_varint(data, pos, end)
                self.user = value
            elif tag == 32:
                value, pos = read_varint(data, pos, end)
                self.per_cpu.append(value)
            elif tag == 34:
                pos, stop = read_length(data, pos, end)
                while pos < stop:
                    value, pos = read_varint(data, pos, stop)
                    self.per_cpu.append(value)
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.total:
            out.append(b'\x08' + varint(self.total))
        if self.kernel:
            out.append(b'\x10' + varint(self.kernel))
        if self.user:
            out.append(b'\x18' + varint(self.user))
        if self.per_cpu:
            out.append(put_bytes(b'"', b''.join([varint(value) for value in self.per_cpu])))
        return b"".join(out)


class Throttle(Message):
    __slots__ = ("periods", "throttled_periods", "throttled_time")
    FULL_NAME = "io.containerd.cgroups.v1.Throttle"

    def __init__(self, *, periods: int = 0, throttled_periods: int = 0, throttled_time: int = 0) -> None:
        self.periods = periods
        self.throttled_periods = throttled_periods
        self.throttled_time = throttled_time

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 8:
                value, pos = read_varint(data, pos, end)
                self.periods = value
            elif tag == 16:
                value, pos = read_varint(data, pos, end)
                self.throttled_periods = value
            elif tag == 24:
                value, pos = read_varint(data, pos, end)
                self.throttled_time = value
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.periods:
            out.append(b'\x08' + varint(self.periods))
        if self.throttled_periods:
            out.append(b'\x10' + varint(self.throttled_periods))
        if self.throttled_time:
            out.append(b'\x18' + varint(self.throttled_time))
        return b"".join(out)


class MemoryStat(Message):
    __slots__ = ("cache", "rss", "rss_huge", "mapped_file", "dirty", "writeback", "pg_pg_in", "pg_pg_out", "pg_fault", "pg_maj_fault", "inactive_anon", "active_anon", "inactive_file", "active_file", "unevictable", "hierarchical_memory_limit", "hierarchical_swap_limit", "total_cache", "total_rss", "total_rss_huge", "total_mapped_file", "total_dirty", "total_writeback", "total_pg_pg_in", "total_pg_pg_out", "total_pg_fault", "total_pg_maj_fault", "total_inactive_anon", "total_active_anon", "total_inactive_file", "total_active_file", "total_unevictable", "usage", "swap", "kernel", "kernel_tcp")
    FULL_NAME = "io.containerd.cgroups.v1.MemoryStat"

    def __init__(self, *, cache: int = 0, rss: int = 0, rss_huge: int = 0, mapped_file: int = 0, dirty: int = 0, writeback: int = 0, pg_pg_in: int = 0, pg_pg_out: int = 0, pg_fault: int = 0, pg_maj_fault: int = 0, inactive_anon: int = 0, active_anon: int = 0, inactive_file: int = 0, active_file: int = 0, unevictable: int = 0, hierarchical_memory_limit: int = 0, hierarchical_swap_limit: int = 0, total_cache: int = 0, total_rss: int = 0, total_rss_huge: int = 0, total_mapped_file: int = 0, total_dirty: int = 0, total_writeback: int = 0, total_pg_pg_in: int = 0, total_pg_pg_out: int = 0, total_pg_fault: int = 0, total_pg_maj_fault: int = 0, total_inactive_anon: int = 0, total_active_anon: int = 0, total_inactive_file: int = 0, total_active_file: int = 0, total_unevictable: int = 0, usage: MemoryEntry | None = None, swap: MemoryEntry | None = None, kernel: MemoryEntry | None = None, kernel_tcp: MemoryEntry | None = None) -> None:
        self.cache = cache
        self.rss = rss
        self.rss_huge = rss_huge
        self.mapped_file = mapped_file
        self.dirty = dirty
        self.writeback = writeback
        self.pg_pg_in = pg_pg_in
        self.pg_pg_out = pg_pg_out
        self.pg_fault = pg_fault
        self.pg_maj_fault = pg_maj_fault
        self.inactive_anon = inactive_anon
        self.active_anon = active_anon
        self.inactive_file = inactive_file
        self.active_file = active_file
        self.unevictable = unevictable
        self.hierarchical_memory_limit = hierarchical_memory_limit
        self.hierarchical_swap_limit = hierarchical_swap_limit
        self.total_cache = total_cache
        self.total_rss = total_rss
        self.total_rss_huge = total_rss_huge
        self.total_mapped_file = total_mapped_file
        self.total_dirty = total_dirty
        self.total_writeback = total_writeback
        self.total_pg_pg_in = total_pg_pg_in
        self.total_pg_pg_out = total_pg_pg_out
        self.total_pg_fault = total_pg_fault
        self.total_pg_maj_fault = total_pg_maj_fault
        self.total_inactive_anon = total_inactive_anon
        self.total_active_anon = total_active_anon
        self.total_inactive_file = total_inactive_file
        self.total_active_file = total_active_file
        self.total_unevictable = total_unevictable
        self.usage = usage
        self.swap = swap
        self.kernel = kernel
        self.kernel_tcp = kernel_tcp

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 8:
                value, pos = read_varint(data, pos, end)
                self.cache = value
            elif tag == 16:
                value, pos = read_varint(data, pos, end)
                self.rss = value
            elif tag == 24:
                value, pos = read_varint(data, pos, end)
                self.rss_huge = value
            elif tag == 32:
                value, pos = read_varint(data, pos, end)
                self.mapped_file = value
            elif tag == 40:
                value, pos = read_varint(data, pos, end)
                self.dirty = value
            elif tag == 48:
                value, pos = read_varint(data, pos, end)
                self.writeback = value
            elif tag == 56:
                value, pos = read_varint(data, pos, end)
                self.pg_pg_in = value
            elif tag == 64:
                value, pos = read_varint(data, pos, end)
                self.pg_pg_out = value
            elif tag == 72:
                value, pos = read_varint(data, pos, end)
                self.pg_fault = value
            elif tag == 80:
                value, pos = read_varint(data, pos, end)
                self.pg_maj_fault = value
            elif tag == 88:
                value, pos = read_varint(data, pos, end)
                self.inactive_anon = value
            elif tag == 96:
                value, pos = read_varint(data, pos, end)
                self.active_anon = value
            elif tag == 104:
                value, pos = read_varint(data, pos, end)
                self.inactive_file = value
            elif tag == 112:
                value, pos = read_varint(data, pos, end)
                self.active_file = value
            elif tag == 120:
                value, pos = read_varint(data, pos, end)
                self.unevictable = value
            elif tag == 128:
                value, pos = read_varint(data, pos, end)
                self.hierarchical_memory_limit = value
            elif tag == 136:
                value, pos = read_varint(data, pos, end)
                self.hierarchical_swap_limit = value
            elif tag == 144:
                value, pos = read_varint(data, pos, end)
                self.total_cache = value
            elif tag == 152:
                value, pos = read_varint(data, pos, end)
                self.total_rss = value
            elif tag == 160:
                value, pos = read_varint(data, pos, end)
                self.total_rss_huge = value
            elif tag == 168:
                value, pos = read_varint(data, pos, end)
                self.total_mapped_file = value
            elif tag == 176:
                value, pos = read_varint(data, pos, end)
                self.total_dirty = value
            elif tag == 184:
                value, pos = read_varint(data, pos, end)
                self.total_writeback = value
            elif tag == 192:
                value, pos = read_varint(data, pos, end)
                self.total_pg_pg_in = value
            elif tag == 200:
                value, pos = read_varint(data, pos, end)
                self.total_pg_pg_out = value
            elif tag == 208:
                value, pos = read_varint(data, pos, end)
                self.total_pg_fault = value
            elif tag == 216:
                value, pos = read_varint(data, pos, end)
                self.total_pg_maj_fault = value
            elif tag == 224:
                value, pos = read_varint(data, pos, end)
                self.total_inactive_anon = value
            elif tag == 232:
                value, pos = read_varint(data, pos, end)
                self.total_active_anon = value
            elif tag == 240:
                value, pos = read_varint(data, pos, end)
                self.total_inactive_file = value
            elif tag == 248:
                value, pos = read_varint(data, pos, end)
                self.total_active_file = value
            elif tag == 256:
                value, pos = read_varint(data, pos, end)
                self.total_unevictable = value
            elif tag == 266:
                pos, stop = read_length(data, pos, end)
                if self.usage is None:
                    self.usage = MemoryEntry()
                self.usage.merge(data, pos, stop)
                pos = stop
            elif tag == 274:
                pos, stop = read_length(data, pos, end)
                if self.swap is None:
                    self.swap = MemoryEntry()
                self.swap.merge(data, pos, stop)
                pos = stop
            elif tag == 282:
                pos, stop = read_length(data, pos, end)
                if self.kernel is None:
                    self.kernel = MemoryEntry()
                self.kernel.merge(data, pos, stop)
                pos = stop
            elif tag == 290:
                pos, stop = read_length(data, pos, end)
                if self.kernel_tcp is None:
                    self.kernel_tcp = MemoryEntry()
                self.kernel_tcp.merge(data, pos, stop)
                pos = stop
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.cache:
            out.append(b'\x08' + varint(self.cache))
        if self.rss:
            out.append(b'\x10' + varint(self.rss))
        if self.rss_huge:
            out.append(b'\x18' + varint(self.rss_huge))
        if self.mapped_file:
            out.append(b' ' + varint(self.mapped_file))
        if self.dirty:
            out.append(b'(' + varint(self.dirty))
        if self.writeback:
            out.append(b'0' + varint(self.writeback))
        if self.pg_pg_in:
            out.append(b'8' + varint(self.pg_pg_in))
        if self.pg_pg_out:
            out.append(b'@' + varint(self.pg_pg_out))
        if self.pg_fault:
            out.append(b'H' + varint(self.pg_fault))
        if self.pg_maj_fault:
            out.append(b'P' + varint(self.pg_maj_fault))
        if self.inactive_anon:
            out.append(b'X' + varint(self.inactive_anon))
        if self.active_anon:
            out.append(b'`' + varint(self.active_anon))
        if self.inactive_file:
            out.append(b'h' + varint(self.inactive_file))
        if self.active_file:
            out.append(b'p' + varint(self.active_file))
        if self.unevictable:
            out.append(b'x' + varint(self.unevictable))
        if self.hierarchical_memory_limit:
            out.append(b'\x80\x01' + varint(self.hierarchical_memory_limit))
        if self.hierarchical_swap_limit:
            out.append(b'\x88\x01' + varint(self.hierarchical_swap_limit))
        if self.total_cache:
            out.append(b'\x90\x01' + varint(self.total_cache))
        if self.total_rss:
            out.append(b'\x98\x01' + varint(self.total_rss))
        if self.total_rss_huge:
            out.append(b'\xa0\x01' + varint(self.total_rss_huge))
        if self.total_mapped_file:
            out.append(b'\xa8\x01' + varint(self.total_mapped_file))
        if self.total_dirty:
            out.append(b'\xb0\x01' + varint(self.total_dirty))
        if self.total_writeback:
            out.append(b'\xb8\x01' + varint(self.total_writeback))
        if self.total_pg_pg_in:
            out.append(b'\xc0\x01' + varint(self.total_pg_pg_in))
        if self.total_pg_pg_out:
            out.append(b'\xc8\x01' + varint(self.total_pg_pg_out))
        if self.total_pg_fault:
            out.append(b'\xd0\x01' + varint(self.total_pg_fault))
        if self.total_pg_maj_fault:
            out.append(b'\xd8\x01' + varint(self.total_pg_maj_fault))
        if self.total_inactive_anon:
            out.append(b'\xe0\x01' + varint(self.total_inactive_anon))
        if self.total_active_anon:
            out.append(b'\xe8\x01' + varint(self.total_active_anon))
        if self.total_inactive_file:
            out.append(b'\xf0\x01' + varint(self.total_inactive_file))
        if self.total_active_file:
            out.append(b'\xf8\x01' + varint(self.total_active_file))
        if self.total_unevictable:
            out.append(b'\x80\x02' + varint(self.total_unevictable))
        if self.usage is not None:
            out.append(put_bytes(b'\x8a\x02', self.usage.encode()))
        if self.swap is not None:
            out.append(put_bytes(b'\x92\x02', self.swap.encode()))
        if self.kernel is not None:
            out.append(put_bytes(b'\x9a\x02', self.kernel.encode()))
        if self.kernel_tcp is not None:
            out.append(put_bytes(b'\xa2\x02', self.kernel_tcp.encode()))
        return b"".join(out)


class MemoryEntry(Message):
    __slots__ = ("limit", "usage", "max", "failcnt")
    FULL_NAME = "io.containerd.cgroups.v1.MemoryEntry"

    def __init__(self, *, limit: int = 0, usage: int = 0, max: int = 0, failcnt: int = 0) -> None:
        self.limit = limit
        self.usage = usage
        self.max = max
        self.failcnt = failcnt

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 8:
                value, pos = read_varint(data, pos, end)
                self.limit = value
            elif tag == 16:
                value, pos = read_varint(data, pos, end)
                self.usage = value
            elif tag == 24:
                value, pos = read_varint(data, pos, end)
                self.max = value
            elif tag == 32:
                value, pos = read_varint(data, pos, end)
                self.failcnt = value
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.limit:
            out.append(b'\x08' + varint(self.limit))
        if self.usage:
            out.append(b'\x10' + varint(self.usage))
        if self.max:
            out.append(b'\x18' + varint(self.max))
        if self.failcnt:
            out.append(b' ' + varint(self.failcnt))
        return b"".join(out)


class MemoryOomControl(Message):
    __slots__ = ("oom_kill_disable", "under_oom", "oom_kill")
    FULL_NAME = "io.containerd.cgroups.v1.MemoryOomControl"

    def __init__(self, *, oom_kill_disable: int = 0, under_oom: int = 0, oom_kill: int = 0) -> None:
        self.oom_kill_disable = oom_kill_disable
        self.under_oom = under_oom
        self.oom_kill = oom_kill

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 8:
                value, pos = read_varint(data, pos, end)
                self.oom_kill_disable = value
            elif tag == 16:
                value, pos = read_varint(data, pos, end)
                self.under_oom = value
            elif tag == 24:
                value, pos = read_varint(data, pos, end)
                self.oom_kill = value
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.oom_kill_disable:
            out.append(b'\x08' + varint(self.oom_kill_disable))
        if self.under_oom:
            out.append(b'\x10' + varint(self.under_oom))
        if self.oom_kill:
            out.append(b'\x18' + varint(self.oom_kill))
        return b"".join(out)


class BlkIOStat(Message):
    __slots__ = ("io_service_bytes_recursive", "io_serviced_recursive", "io_queued_recursive", "io_service_time_recursive", "io_wait_time_recursive", "io_merged_recursive", "io_time_recursive", "sectors_recursive")
    FULL_NAME = "io.containerd.cgroups.v1.BlkIOStat"

    def __init__(self, *, io_service_bytes_recursive: list[BlkIOEntry] | None = None, io_serviced_recursive: list[BlkIOEntry] | None = None, io_queued_recursive: list[BlkIOEntry] | None = None, io_service_time_recursive: list[BlkIOEntry] | None = None, io_wait_time_recursive: list[BlkIOEntry] | None = None, io_merged_recursive: list[BlkIOEntry] | None = None, io_time_recursive: list[BlkIOEntry] | None = None, sectors_recursive: list[BlkIOEntry] | None = None) -> None:
        self.io_service_bytes_recursive: list[BlkIOEntry] = [] if io_service_bytes_recursive is None else io_service_bytes_recursive
        self.io_serviced_recursive: list[BlkIOEntry] = [] if io_serviced_recursive is None else io_serviced_recursive
        self.io_queued_recursive: list[BlkIOEntry] = [] if io_queued_recursive is None else io_queued_recursive
        self.io_service_time_recursive: list[BlkIOEntry] = [] if io_service_time_recursive is None else io_service_time_recursive
        self.io_wait_time_recursive: list[BlkIOEntry] = [] if io_wait_time_recursive is None else io_wait_time_recursive
        self.io_merged_recursive: list[BlkIOEntry] = [] if io_merged_recursive is None else io_merged_recursive
        self.io_time_recursive: list[BlkIOEntry] = [] if io_time_recursive is None else io_time_recursive
        self.sectors_recursive: list[BlkIOEntry] = [] if sectors_recursive is None else sectors_recursive

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                pos, stop = read_length(data, pos, end)
                item_1 = BlkIOEntry()
                item_1.merge(data, pos, stop)
                self.io_service_bytes_recursive.append(item_1)
                pos = stop
            elif tag == 18:
                pos, stop = read_length(data, pos, end)
                item_2 = BlkIOEntry()
                item_2.merge(data, pos, stop)
                self.io_serviced_recursive.append(item_2)
                pos = stop
            elif tag == 26:
                pos, stop = read_length(data, pos, end)
                item_3 = BlkIOEntry()
                item_3.merge(data, pos, stop)
                self.io_queued_recursive.append(item_3)
                pos = stop
            elif tag == 34:
                pos, stop = read_length(data, pos, end)
                item_4 = BlkIOEntry()
                item_4.merge(data, pos, stop)
                self.io_service_time_recursive.append(item_4)
                pos = stop
            elif tag == 42:
                pos, stop = read_length(data, pos, end)
                item_5 = BlkIOEntry()
                item_5.merge(data, pos, stop)
                self.io_wait_time_recursive.append(item_5)
                pos = stop
            elif tag == 50:
                pos, stop = read_length(data, pos, end)
                item_6 = BlkIOEntry()
                item_6.merge(data, pos, stop)
                self.io_merged_recursive.append(item_6)
                pos = stop
            elif tag == 58:
                pos, stop = read_length(data, pos, end)
                item_7 = BlkIOEntry()
                item_7.merge(data, pos, stop)
                self.io_time_recursive.append(item_7)
                pos = stop
            elif tag == 66:
                pos, stop = read_length(data, pos, end)
                item_8 = BlkIOEntry()
                item_8.merge(data, pos, stop)
                self.sectors_recursive.append(item_8)
                pos = stop
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        for item_1 in self.io_service_bytes_recursive:
            out.append(put_bytes(b'\n', item_1.encode()))
        for item_2 in self.io_serviced_recursive:
            out.append(put_bytes(b'\x12', item_2.encode()))
        for item_3 in self.io_queued_recursive:
            out.append(put_bytes(b'\x1a', item_3.encode()))
        for item_4 in self.io_service_time_recursive:
            out.append(put_bytes(b'"', item_4.encode()))
        for item_5 in self.io_wait_time_recursive:
            out.append(put_bytes(b'*', item_5.encode()))
        for item_6 in self.io_merged_recursive:
            out.append(put_bytes(b'2', item_6.encode()))
        for item_7 in self.io_time_recursive:
            out.append(put_bytes(b':', item_7.encode()))
        for item_8 in self.sectors_recursive:
            out.append(put_bytes(b'B', item_8.encode()))
        return b"".join(out)


class BlkIOEntry(Message):
    __slots__ = ("op", "device", "major", "minor", "value")
    FULL_NAME = "io.containerd.cgroups.v1.BlkIOEntry"

    def __init__(self, *, op: str = "", device: str = "", major: int = 0, minor: int = 0, value: int = 0) -> None:
        self.op = op
        self.device = device
        self.major = major
        self.minor = minor
        self.value = value

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                self.op, pos = read_string(data, pos, end)
            elif tag == 18:
                self.device, pos = read_string(data, pos, end)
            elif tag == 24:
                value, pos = read_varint(data, pos, end)
                self.major = value
            elif tag == 32:
                value, pos = read_varint(data, pos, end)
                self.minor = value
            elif tag == 40:
                value, pos = read_varint(data, pos, end)
                self.value = value
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.op:
            out.append(put_string(b'\n', self.op))
        if self.device:
            out.append(put_string(b'\x12', self.device))
        if self.major:
            out.append(b'\x18' + varint(self.major))
        if self.minor:
            out.append(b' ' + varint(self.minor))
        if self.value:
            out.append(b'(' + varint(self.value))
        return b"".join(out)


class RdmaStat(Message):
    __slots__ = ("current", "limit")
    FULL_NAME = "io.containerd.cgroups.v1.RdmaStat"

    def __init__(self, *, current: list[RdmaEntry] | None = None, limit: list[RdmaEntry] | None = None) -> None:
        self.current: list[RdmaEntry] = [] if current is None else current
        self.limit: list[RdmaEntry] = [] if limit is None else limit

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                pos, stop = read_length(data, pos, end)
                item_1 = RdmaEntry()
                item_1.merge(data, pos, stop)
                self.current.append(item_1)
                pos = stop
            elif tag == 18:
                pos, stop = read_length(data, pos, end)
                item_2 = RdmaEntry()
                item_2.merge(data, pos, stop)
                self.limit.append(item_2)
                pos = stop
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        for item_1 in self.current:
            out.append(put_bytes(b'\n', item_1.encode()))
        for item_2 in self.limit:
            out.append(put_bytes(b'\x12', item_2.encode()))
        return b"".join(out)


class RdmaEntry(Message):
    __slots__ = ("device", "hca_handles", "hca_objects")
    FULL_NAME = "io.containerd.cgroups.v1.RdmaEntry"

    def __init__(self, *, device: str = "", hca_handles: int = 0, hca_objects: int = 0) -> None:
        self.device = device
        self.hca_handles = hca_handles
        self.hca_objects = hca_objects

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                self.device, pos = read_string(data, pos, end)
            elif tag == 16:
                value, pos = read_varint(data, pos, end)
                self.hca_handles = value & 0xFFFFFFFF
            elif tag == 24:
                value, pos = read_varint(data, pos, end)
                self.hca_objects = value & 0xFFFFFFFF
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.device:
            out.append(put_string(b'\n', self.device))
        if self.hca_handles:
            out.append(b'\x10' + varint(self.hca_handles & 0xFFFFFFFF))
        if self.hca_objects:
            out.append(b'\x18' + varint(self.hca_objects & 0xFFFFFFFF))
        return b"".join(out)


class NetworkStat(Message):
    __slots__ = ("name", "rx_bytes", "rx_packets", "rx_errors", "rx_dropped", "tx_bytes", "tx_packets", "tx_errors", "tx_dropped")
    FULL_NAME = "io.containerd.cgroups.v1.NetworkStat"

    def __init__(self, *, name: str = "", rx_bytes: int = 0, rx_packets: int = 0, rx_errors: int = 0, rx_dropped: int = 0, tx_bytes: int = 0, tx_packets: int = 0, tx_errors: int = 0, tx_dropped: int = 0) -> None:
        self.name = name
        self.rx_bytes = rx_bytes
        self.rx_packets = rx_packets
        self.rx_errors = rx_errors
        self.rx_dropped = rx_dropped
        self.tx_bytes = tx_bytes
        self.tx_packets = tx_packets
        self.tx_errors = tx_errors
        self.tx_dropped = tx_dropped

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
                self.rx_bytes = value
            elif tag == 24:
                value, pos = read_varint(data, pos, end)
                self.rx_packets = value
            elif tag == 32:
                value, pos = read_varint(data, pos, end)
                self.rx_errors = value
            elif tag == 40:
                value, pos = read_varint(data, pos, end)
                self.rx_dropped = value
            elif tag == 48:
                value, pos = read_varint(data, pos, end)
                self.tx_bytes = value
            elif tag == 56:
                value, pos = read_varint(data, pos, end)
                self.tx_packets = value
            elif tag == 64:
                value, pos = read_varint(data, pos, end)
                self.tx_errors = value
            elif tag == 72:
                value, pos = read_varint(data, pos, end)
                self.tx_dropped = value
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.name:
            out.append(put_string(b'\n', self.name))
        if self.rx_bytes:
            out.append(b'\x10' + varint(self.rx_bytes))
        if self.rx_packets:
            out.append(b'\x18' + varint(self.rx_packets))
        if self.rx_errors:
            out.append(b' ' + varint(self.rx_errors))
        if self.rx_dropped:
            out.append(b'(' + varint(self.rx_dropped))
        if self.tx_bytes:
            out.append(b'0' + varint(self.tx_bytes))
        if self.tx_packets:
            out.append(b'8' + varint(self.tx_packets))
        if self.tx_errors:
            out.append(b'@' + varint(self.tx_errors))
        if self.tx_dropped:
            out.append(b'H' + varint(self.tx_dropped))
        return b"".join(out)


class CgroupStats(Message):
    __slots__ = ("nr_sleeping", "nr_running", "nr_stopped", "nr_uninterruptible", "nr_io_wait")
    FULL_NAME = "io.containerd.cgroups.v1.CgroupStats"

    def __init__(self, *, nr_sleeping: int = 0, nr_running: int = 0, nr_stopped: int = 0, nr_uninterruptible: int = 0, nr_io_wait: int = 0) -> None:
        self.nr_sleeping = nr_sleeping
        self.nr_running = nr_running
        self.nr_stopped = nr_stopped
        self.nr_uninterruptible = nr_uninterruptible
        self.nr_io_wait = nr_io_wait

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 8:
                value, pos = read_varint(data, pos, end)
                self.nr_sleeping = value
            elif tag == 16:
                value, pos = read_varint(data, pos, end)
                self.nr_running = value
            elif tag == 24:
                value, pos = read_varint(data, pos, end)
                self.nr_stopped = value
            elif tag == 32:
                value, pos = read_varint(data, pos, end)
                self.nr_uninterruptible = value
            elif tag == 40:
                value, pos = read_varint(data, pos, end)
                self.nr_io_wait = value
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.nr_sleeping:
            out.append(b'\x08' + varint(self.nr_sleeping))
        if self.nr_running:
            out.append(b'\x10' + varint(self.nr_running))
        if self.nr_stopped:
            out.append(b'\x18' + varint(self.nr_stopped))
        if self.nr_uninterruptible:
            out.append(b' ' + varint(self.nr_uninterruptible))
        if self.nr_io_wait:
            out.append(b'(' + varint(self.nr_io_wait))
        return b"".join(out)

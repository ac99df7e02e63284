# Generated from cgroups/v2/metrics.proto by scripts/generate_api.py. Do not edit; `make proto` regenerates it.
from __future__ import annotations

from shim.api.wire import Message, put_bytes, put_double, put_string, read_double, read_length, read_string, read_tag, read_varint, skip, varint


class Metrics(Message):
    __slots__ = ("pids", "cpu", "memory", "rdma", "io", "hugetlb", "memory_events", "network")
    FULL_NAME = "io.containerd.cgroups.v2.Metrics"

    def __init__(self, *, pids: PidsStat | None = None, cpu: CPUStat | None = None, memory: MemoryStat | None = None, rdma: RdmaStat | None = None, io: IOStat | None = None, hugetlb: list[HugeTlbStat] | None = None, memory_events: MemoryEvents | None = None, network: list[NetworkStat] | None = None) -> None:
        self.pids = pids
        self.cpu = cpu
        self.memory = memory
        self.rdma = rdma
        self.io = io
        self.hugetlb: list[HugeTlbStat] = [] if hugetlb is None else hugetlb
        self.memory_events = memory_events
        self.network: list[NetworkStat] = [] if network is None else network

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                pos, stop = read_length(data, pos, end)
                if self.pids is None:
                    self.pids = PidsStat()
                self.pids.merge(data, pos, stop)
                pos = stop
            elif tag == 18:
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
                if self.rdma is None:
                    self.rdma = RdmaStat()
                self.rdma.merge(data, pos, stop)
                pos = stop
            elif tag == 50:
                pos, stop = read_length(data, pos, end)
                if self.io is None:
                    self.io = IOStat()
                self.io.merge(data, pos, stop)
                pos = stop
            elif tag == 58:
                pos, stop = read_length(data, pos, end)
                item_7 = HugeTlbStat()
                item_7.merge(data, pos, stop)
                self.hugetlb.append(item_7)
                pos = stop
            elif tag == 66:
                pos, stop = read_length(data, pos, end)
                if self.memory_events is None:
                    self.memory_events = MemoryEvents()
                self.memory_events.merge(data, pos, stop)
                pos = stop
            elif tag == 74:
                pos, stop = read_length(data, pos, end)
                item_9 = NetworkStat()
                item_9.merge(data, pos, stop)
                self.network.append(item_9)
                pos = stop
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.pids is not None:
            out.append(put_bytes(b'\n', self.pids.encode()))
        if self.cpu is not None:
            out.append(put_bytes(b'\x12', self.cpu.encode()))
        if self.memory is not None:
            out.append(put_bytes(b'"', self.memory.encode()))
        if self.rdma is not None:
            out.append(put_bytes(b'*', self.rdma.encode()))
        if self.io is not None:
            out.append(put_bytes(b'2', self.io.encode()))
        for item_7 in self.hugetlb:
            out.append(put_bytes(b':', item_7.encode()))
        if self.memory_events is not None:
            out.append(put_bytes(b'B', self.memory_events.encode()))
        for item_9 in self.network:
            out.append(put_bytes(b'J', item_9.encode()))
        return b"".join(out)


class PSIData(Message):
    __slots__ = ("avg10", "avg60", "avg300", "total")
    FULL_NAME = "io.containerd.cgroups.v2.PSIData"

    def __init__(self, *, avg10: float = 0.0, avg60: float = 0.0, avg300: float = 0.0, total: int = 0) -> None:
        self.avg10 = avg10
        self.avg60 = avg60
        self.avg300 = avg300
        self.total = total

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 9:
                self.avg10, pos = read_double(data, pos, end)
            elif tag == 17:
                self.avg60, pos = read_double(data, pos, end)
            elif tag == 25:
                self.avg300, pos = read_double(data, pos, end)
            elif tag == 32:
                value, pos = read_varint(data, pos, end)
                self.total = value
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        out.append(put_double(b'\t', self.avg10))
        out.append(put_double(b'\x11', self.avg60))
        out.append(put_double(b'\x19', self.avg300))
        if self.total:
            out.append(b' ' + varint(self.total))
        return b"".join(out)


class PSIStats(Message):
    __slots__ = ("some", "full")
    FULL_NAME = "io.containerd.cgroups.v2.PSIStats"

    def __init__(self, *, some: PSIData | None = None, full: PSIData | None = None) -> None:
        self.some = some
        self.full = full

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                pos, stop = read_length(data, pos, end)
                if self.some is None:
                    self.some = PSIData()
                self.some.merge(data, pos, stop)
                pos = stop
            elif tag == 18:
                pos, stop = read_length(data, pos, end)
                if self.full is None:
                    self.full = PSIData()
                self.full.merge(data, pos, stop)
                pos = stop
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.some is not None:
            out.append(put_bytes(b'\n', self.some.encode()))
        if self.full is not None:
            out.append(put_bytes(b'\x12', self.full.encode()))
        return b"".join(out)


class PidsStat(Message):
    __slots__ = ("current", "limit")
    FULL_NAME = "io.containerd.cgroups.v2.PidsStat"

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
    __slots__ = ("usage_usec", "user_usec", "system_usec", "nr_periods", "nr_throttled", "throttled_usec", "psi", "nr_bursts", "burst_usec")
    FULL_NAME = "io.containerd.cgroups.v2.CPUStat"

    def __init__(self, *, usage_usec: int = 0, user_usec: int = 0, system_usec: int = 0, nr_periods: int = 0, nr_throttled: int = 0, throttled_usec: int = 0, psi: PSIStats | None = None, nr_bursts: int = 0, burst_usec: int = 0) -> None:
        self.usage_usec = usage_usec
        self.user_usec = user_usec
        self.system_usec = system_usec
        self.nr_periods = nr_periods
        self.nr_throttled = nr_throttled
        self.throttled_usec = throttled_usec
        self.psi = psi
        self.nr_bursts = nr_bursts
        self.burst_usec = burst_usec

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 8:
                value, pos = read_varint(data, pos, end)
                self.usage_usec = value
            elif tag == 16:
                value, pos = read_varint(data, pos, end)
                self.user_usec = value
            elif tag == 24:
                value, pos = read_varint(data, pos, end)
                self.system_usec = value
            elif tag == 32:
                value, pos = read_varint(data, pos, end)
                self.nr_periods = value
            elif tag == 40:
                value, pos = read_varint(data, pos, end)
                self.nr_throttled = value
            elif tag == 48:
                value, pos = read_varint(data, pos, end)
                self.throttled_usec = value
            elif tag == 58:
                pos, stop = read_length(data, pos, end)
                if self.psi is None:
                    self.psi = PSIStats()
                self.psi.merge(data, pos, stop)
                pos = stop
            elif tag == 64:
                value, pos = read_varint(data, pos, end)
                self.nr_bursts = value
            elif tag == 72:
                value, pos = read_varint(data, pos, end)
                self.burst_usec = value
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.usage_usec:
            out.append(b'\x08' + varint(self.usage_usec))
        if self.user_usec:
            out.append(b'\x10' + varint(self.user_usec))
        if self.system_usec:
            out.append(b'\x18' + varint(self.system_usec))
        if self.nr_periods:
            out.append(b' ' + varint(self.nr_periods))
        if self.nr_throttled:
            out.append(b'(' + varint(self.nr_throttled))
        if self.throttled_usec:
            out.append(b'0' + varint(self.throttled_usec))
        if self.psi is not None:
            out.append(put_bytes(b':', self.psi.encode()))
        if self.nr_bursts:
            out.append(b'@' + varint(self.nr_bursts))
        if self.burst_usec:
            out.append(b'H' + varint(self.burst_usec))
        return b"".join(out)


class MemoryStat(Message):
    __slots__ = ("anon", "file", "kernel_stack", "slab", "sock", "shmem", "file_mapped", "file_dirty", "file_writeback", "anon_thp", "inactive_anon", "active_anon", "inactive_file", "active_file", "unevictable", "slab_reclaimable", "slab_unreclaimable", "pgfault", "pgmajfault", "workingset_refault", "workingset_activate", "workingset_nodereclaim", "pgrefill", "pgscan", "pgsteal", "pgactivate", "pgdeactivate", "pglazyfree", "pglazyfreed", "thp_fault_alloc", "thp_collapse_alloc", "usage", "usage_limit", "swap_usage", "swap_limit", "max_usage", "swap_max_usage", "psi")
    FULL_NAME = "io.containerd.cgroups.v2.MemoryStat"

    def __init__(self, *, anon: int = 0, file: int = 0, kernel_stack: int = 0, slab: int = 0, sock: int = 0, shmem: int = 0, file_mapped: int = 0, file_dirty: int = 0, file_writeback: int = 0, anon_thp: int = 0, inactive_anon: int = 0, active_anon: int = 0, inactive_file: int = 0, active_file: int = 0, unevictable: int = 0, slab_reclaimable: int = 0, slab_unreclaimable: int = 0, pgfault: int = 0, pgmajfault: int = 0, workingset_refault: int = 0, workingset_activate: int = 0, workingset_nodereclaim: int = 0, pgrefill: int = 0, pgscan: int = 0, pgsteal: int = 0, pgactivate: int = 0, pgdeactivate: int = 0, pglazyfree: int = 0, pglazyfreed: int = 0, thp_fault_alloc: int = 0, thp_collapse_alloc: int = 0, usage: int = 0, usage_limit: int = 0, swap_usage: int = 0, swap_limit: int = 0, max_usage: int = 0, swap_max_usage: int = 0, psi: PSIStats | None = None) -> None:
        self.anon = anon
        self.file = file
        self.kernel_stack = kernel_stack
        self.slab = slab
        self.sock = sock
        self.shmem = shmem
        self.file_mapped = file_mapped
        self.file_dirty = file_dirty
        self.file_writeback = file_writeback
        self.anon_thp = anon_thp
        self.inactive_anon = inactive_anon
        self.active_anon = active_anon
        self.inactive_file = inactive_file
        self.active_file = active_file
        self.unevictable = unevictable
        self.slab_reclaimable = slab_reclaimable
        self.slab_unreclaimable = slab_unreclaimable
        self.pgfault = pgfault
        self.pgmajfault = pgmajfault
        self.workingset_refault = workingset_refault
        self.workingset_activate = workingset_activate
        self.workingset_nodereclaim = workingset_nodereclaim
        self.pgrefill = pgrefill
        self.pgscan = pgscan
        self.pgsteal = pgsteal
        self.pgactivate = pgactivate
        self.pgdeactivate = pgdeactivate
        self.pglazyfree = pglazyfree
        self.pglazyfreed = pglazyfreed
        self.thp_fault_alloc = thp_fault_alloc
        self.thp_collapse_alloc = thp_collapse_alloc
        self.usage = usage
        self.usage_limit = usage_limit
        self.swap_usage = swap_usage
        self.swap_limit = swap_limit
        self.max_usage = max_usage
        self.swap_max_usage = swap_max_usage
        self.psi = psi

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 8:
                value, pos = read_varint(data, pos, end)
                self.anon = value
            elif tag == 16:
                value, pos = read_varint(data, pos, end)
                self.file = value
            elif tag == 24:
                value, pos = read_varint(data, pos, end)
                self.kernel_stack = value
            elif tag == 32:
                value, pos = read_varint(data, pos, end)
                self.slab = value
            elif tag == 40:
                value, pos = read_varint(data, pos, end)
                self.sock = value
            elif tag == 48:
                value, pos = read_varint(data, pos, end)
                self.shmem = value
            elif tag == 56:
                value, pos = read_varint(data, pos, end)
                self.file_mapped = value
            elif tag == 64:
                value, pos = read_varint(data, pos, end)
                self.file_dirty = value
            elif tag == 72:
                value, pos = read_varint(data, pos, end)
                self.file_writeback = value
            elif tag == 80:
                value, pos = read_varint(data, pos, end)
                self.anon_thp = value
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
                self.slab_reclaimable = value
            elif tag == 136:
                value, pos = read_varint(data, pos, end)
                self.slab_unreclaimable = value
            elif tag == 144:
                value, pos = read_varint(data, pos, end)
                self.pgfault = value
            elif tag == 152:
                value, pos = read_varint(data, pos, end)
                self.pgmajfault = value
            elif tag == 160:
                value, pos = read_varint(data, pos, end)
                self.workingset_refault = value
            elif tag == 168:
                value, pos = read_varint(data, pos, end)
                self.workingset_activate = value
            elif tag == 176:
                value, pos = read_varint(data, pos, end)
                self.workingset_nodereclaim = value
            elif tag == 184:
                value, pos = read_varint(data, pos, end)
                self.pgrefill = value
            elif tag == 192:
                value, pos = read_varint(data, pos, end)
                self.pgscan = value
            elif tag == 200:
                value, pos = read_varint(data, pos, end)
                self.pgsteal = value
            elif tag == 208:
                value, pos = read_varint(data, pos, end)
                self.pgactivate = value
            elif tag == 216:
                value, pos = read_varint(data, pos, end)
                self.pgdeactivate = value
            elif tag == 224:
                value, pos = read_varint(data, pos, end)
                self.pglazyfree = value
            elif tag == 232:
                value, pos = read_varint(data, pos, end)
                self.pglazyfreed = value
            elif tag == 240:
                value, pos = read_varint(data, pos, end)
                self.thp_fault_alloc = value
            elif tag == 248:
                value, pos = read_varint(data, pos, end)
                self.thp_collapse_alloc = value
            elif tag == 256:
                value, pos = read_varint(data, pos, end)
                self.usage = value
            elif tag == 264:
                value, pos = read_varint(data, pos, end)
                self.usage_limit = value
            elif tag == 272:
                value, pos = read_varint(data, pos, end)
                self.swap_usage = value
            elif tag == 280:
                value, pos = read_varint(data, pos, end)
                self.swap_limit = value
            elif tag == 288:
                value, pos = read_varint(data, pos, end)
                self.max_usage = value
            elif tag == 296:
                value, pos = read_varint(data, pos, end)
                self.swap_max_usage = value
            elif tag == 306:
                pos, stop = read_length(data, pos, end)
                if self.psi is None:
                    self.psi = PSIStats()
                self.psi.merge(data, pos, stop)
                pos = stop
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.anon:
            out.append(b'\x08' + varint(self.anon))
        if self.file:
            out.append(b'\x10' + varint(self.file))
        if self.kernel_stack:
            out.append(b'\x18' + varint(self.kernel_stack))
        if self.slab:
            out.append(b' ' + varint(self.slab))
        if self.sock:
            out.append(b'(' + varint(self.sock))
        if self.shmem:
            out.append(b'0' + varint(self.shmem))
        if self.file_mapped:
            out.append(b'8' + varint(self.file_mapped))
        if self.file_dirty:
            out.append(b'@' + varint(self.file_dirty))
        if self.file_writeback:
            out.append(b'H' + varint(self.file_writeback))
        if self.anon_thp:
            out.append(b'P' + varint(self.anon_thp))
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
        if self.slab_reclaimable:
            out.append(b'\x80\x01' + varint(self.slab_reclaimable))
        if self.slab_unreclaimable:
            out.append(b'\x88\x01' + varint(self.slab_unreclaimable))
        if self.pgfault:
            out.append(b'\x90\x01' + varint(self.pgfault))
        if self.pgmajfault:
            out.append(b'\x98\x01' + varint(self.pgmajfault))
        if self.workingset_refault:
            out.append(b'\xa0\x01' + varint(self.workingset_refault))
        if self.workingset_activate:
            out.append(b'\xa8\x01' + varint(self.workingset_activate))
        if self.workingset_nodereclaim:
            out.append(b'\xb0\x01' + varint(self.workingset_nodereclaim))
        if self.pgrefill:
            out.append(b'\xb8\x01' + varint(self.pgrefill))
        if self.pgscan:
            out.append(b'\xc0\x01' + varint(self.pgscan))
        if self.pgsteal:
            out.append(b'\xc8\x01' + varint(self.pgsteal))
        if self.pgactivate:
            out.append(b'\xd0\x01' + varint(self.pgactivate))
        if self.pgdeactivate:
            out.append(b'\xd8\x01' + varint(self.pgdeactivate))
        if self.pglazyfree:
            out.append(b'\xe0\x01' + varint(self.pglazyfree))
        if self.pglazyfreed:
            out.append(b'\xe8\x01' + varint(self.pglazyfreed))
        if self.thp_fault_alloc:
            out.append(b'\xf0\x01' + varint(self.thp_fault_alloc))
        if self.thp_collapse_alloc:
            out.append(b'\xf8\x01' + varint(self.thp_collapse_alloc))
        if self.usage:
            out.append(b'\x80\x02' + varint(self.usage))
        if self.usage_limit:
            out.append(b'\x88\x02' + varint(self.usage_limit))
        if self.swap_usage:
            out.append(b'\x90\x02' + varint(self.swap_usage))
        if self.swap_limit:
            out.append(b'\x98\x02' + varint(self.swap_limit))
        if self.max_usage:
            out.append(b'\xa0\x02' + varint(self.max_usage))
        if self.swap_max_usage:
            out.append(b'\xa8\x02' + varint(self.swap_max_usage))
        if self.psi is not None:
            out.append(put_bytes(b'\xb2\x02', self.psi.encode()))
        return b"".join(out)


class MemoryEvents(Message):
    __slots__ = ("low", "high", "max", "oom", "oom_kill", "oom_group_kill")
    FULL_NAME = "io.containerd.cgroups.v2.MemoryEvents"

    def __init__(self, *, low: int = 0, high: int = 0, max: int = 0, oom: int = 0, oom_kill: int = 0, oom_group_kill: int = 0) -> None:
        self.low = low
        self.high = high
        self.max = max
        self.oom = oom
        self.oom_kill = oom_kill
        self.oom_group_kill = oom_group_kill

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 8:
                value, pos = read_varint(data, pos, end)
                self.low = value
            elif tag == 16:
                value, pos = read_varint(data, pos, end)
                self.high = value
            elif tag == 24:
                value, pos = read_varint(data, pos, end)
                self.max = value
            elif tag == 32:
                value, pos = read_varint(data, pos, end)
                self.oom = value
            elif tag == 40:
                value, pos = read_varint(data, pos, end)
                self.oom_kill = value
            elif tag == 48:
                value, pos = read_varint(data, pos, end)
                self.oom_group_kill = value
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.low:
            out.append(b'\x08' + varint(self.low))
        if self.high:
            out.append(b'\x10' + varint(self.high))
        if self.max:
            out.append(b'\x18' + varint(self.max))
        if self.oom:
            out.append(b' ' + varint(self.oom))
        if self.oom_kill:
            out.append(b'(' + varint(self.oom_kill))
        if self.oom_group_kill:
            out.append(b'0' + varint(self.oom_group_kill))
        return b"".join(out)


class RdmaStat(Message):
    __slots__ = ("current", "limit")
    FULL_NAME = "io.containerd.cgroups.v2.RdmaStat"

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
    FULL_NAME = "io.containerd.cgroups.v2.RdmaEntry"

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


class IOStat(Message):
    __slots__ = ("usage", "psi")
    FULL_NAME = "io.containerd.cgroups.v2.IOStat"

    def __init__(self, *, usage: list[IOEntry] | None = None, psi: PSIStats | None = None) -> None:
        self.usage: list[IOEntry] = [] if usage is None else usage
        self.psi = psi

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                pos, stop = read_length(data, pos, end)
                item_1 = IOEntry()
                item_1.merge(data, pos, stop)
                self.usage.append(item_1)
                pos = stop
            elif tag == 18:
                pos, stop = read_length(data, pos, end)
                if self.psi is None:
                    self.psi = PSIStats()
                self.psi.merge(data, pos, stop)
                pos = stop
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        for item_1 in self.usage:
            out.append(put_bytes(b'\n', item_1.encode()))
        if self.psi is not None:
            out.append(put_bytes(b'\x12', self.psi.encode()))
        return b"".join(out)


class IOEntry(Message):
    __slots__ = ("major", "minor", "rbytes", "wbytes", "rios", "wios")
    FULL_NAME = "io.containerd.cgroups.v2.IOEntry"

    def __init__(self, *, major: int = 0, minor: int = 0, rbytes: int = 0, wbytes: int = 0, rios: int = 0, wios: int = 0) -> None:
        self.major = major
        self.minor = minor
        self.rbytes = rbytes
        self.wbytes = wbytes
        self.rios = rios
        self.wios = wios

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 8:
                value, pos = read_varint(data, pos, end)
                self.major = value
            elif tag == 16:
                value, pos = read_varint(data, pos, end)
                self.minor = value
            elif tag == 24:
                value, pos = read_varint(data, pos, end)
                self.rbytes = value
            elif tag == 32:
                value, pos = read_varint(data, pos, end)
                self.wbytes = value
            elif tag == 40:
                value, pos = read_varint(data, pos, end)
                self.rios = value
            elif tag == 48:
                value, pos = read_varint(data, pos, end)
                self.wios = value
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.major:
            out.append(b'\x08' + varint(self.major))
        if self.minor:
            out.append(b'\x10' + varint(self.minor))
        if self.rbytes:
            out.append(b'\x18' + varint(self.rbytes))
        if self.wbytes:
            out.append(b' ' + varint(self.wbytes))
        if self.rios:
            out.append(b'(' + varint(self.rios))
        if self.wios:
            out.append(b'0' + varint(self.wios))
        return b"".join(out)


class HugeTlbStat(Message):
    __slots__ = ("current", "max", "pagesize", "failcnt")
    FULL_NAME = "io.containerd.cgroups.v2.HugeTlbStat"

    def __init__(self, *, current: int = 0, max: int = 0, pagesize: str = "", failcnt: int = 0) -> None:
        self.current = current
        self.max = max
        self.pagesize = pagesize
        self.failcnt = failcnt

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
                self.max = value
            elif tag == 26:
                self.pagesize, pos = read_string(data, pos, end)
            elif tag == 32:
                value, pos = read_varint(data, pos, end)
                self.failcnt = value
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.current:
            out.append(b'\x08' + varint(self.current))
        if self.max:
            out.append(b'\x10' + varint(self.max))
        if self.pagesize:
            out.append(put_string(b'\x1a', self.pagesize))
        if self.failcnt:
            out.append(b' ' + varint(self.failcnt))
        return b"".join(out)


class NetworkStat(Message):
    __slots__ = ("name", "rx_bytes", "rx_packets", "rx_errors", "rx_dropped", "tx_bytes", "tx_packets", "tx_errors", "tx_dropped")
    FULL_NAME = "io.containerd.cgroups.v2.NetworkStat"

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

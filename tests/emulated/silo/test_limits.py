"""Resource limits of a silo, and its stats."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import pytest

from hcs_emulator.service.silo import cgroup
from hcs_emulator.service.silo.limits import Limits
from hcs_emulator.service.silo.namespaces import Bind, Silo
from tests.support.silo import DEADLINE, finished, in_loop, programs, read_until, running, until

__all__ = ["programs"]

MIB = 1 << 20
_GREEDY = 'python3 -c "import time; x = bytearray({size} << 20); print(len(x), flush=True); time.sleep({seconds})"'


def needs(controller: str) -> None:
    where = cgroup.host_hierarchies()
    if controller not in where.bases and where.unified is None:
        pytest.skip(f"this machine has no {controller} control group")


@in_loop
async def test_memory_limit_breach_kills_the_process_and_is_counted() -> None:
    needs("memory")
    async with running(memory_bytes=48 * MIB) as silo:
        assert silo.enforced == {"memory_bytes": True}
        modest = await finished(silo, _GREEDY.format(size=8, seconds=0))
        assert modest.out == f"{8 * MIB}\n".encode()
        assert silo.oom_count == 0
        greedy = await finished(silo, _GREEDY.format(size=200, seconds=0))
        assert greedy.out == b""
        assert greedy.code == 0xC000012D
        assert silo.oom_count == 1
        assert (await finished(silo, "true")).code == 0  # the silo keeps running
        assert silo.statistics()["Memory"]["MemoryUsageCommitPeakBytes"] >= 40 * MIB


@in_loop
async def test_memory_limit_can_be_set_and_lifted_while_the_silo_runs() -> None:
    needs("memory")
    async with running() as silo:
        assert silo.enforced == {}
        held = await silo.spawn({"CommandLine": _GREEDY.format(size=20, seconds=1000), "CreateStdOutPipe": True})
        await read_until(held, b"\n")
        assert await silo.set_limits(memory_bytes=64 * MIB) == {"memory_bytes": True}
        assert (await finished(silo, _GREEDY.format(size=200, seconds=0))).code == 0xC000012D
        assert await silo.set_limits(memory_bytes=None) == {}
        assert (await finished(silo, _GREEDY.format(size=200, seconds=0))).code == 0
        assert not held.exited.done()
        held.close()


@in_loop
async def test_processor_maximum_limits_the_runtime() -> None:
    needs("cpu")
    processors = os.cpu_count() or 1
    async with running(cpu_maximum=10_000 // (5 * processors)) as silo:  # a fifth of one processor
        assert silo.enforced == {"cpu_maximum": True}
        assert 0.15 < processors_allowed(silo) <= 0.2
        spinner = await silo.spawn({"CommandLine": 'sh -c "while :; do :; done"'})
        began, runtime_before = time.monotonic(), runtime(silo)
        await until(lambda: runtime(silo) - runtime_before >= 0.3, "0.3 s of processor time")
        assert time.monotonic() - began > 0.6, "without a limit it takes 0.3 s"
        spinner.kill()


def runtime(silo: Silo) -> float:
    """Seconds of processor time."""
    total: int = silo.statistics()["Processor"]["TotalRuntime100ns"]
    return total / 10_000_000


def kernel_file(silo: Silo, controller: str, version_1: str, version_2: str) -> list[int | str]:
    """The words of a cgroup file of the silo, in the group that the kernel says the silo is in."""
    groups = {}
    for line in Path(f"/proc/{silo.pid}/cgroup").read_text().splitlines():
        _, names, path = line.split(":", 2)
        groups |= dict.fromkeys(names.split(","), path.lstrip("/"))
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, mount_point, kind, options, *_ = line.split()
        if kind == "cgroup" and controller in options.split(","):
            file = Path(mount_point, groups[controller], version_1)
        elif kind == "cgroup2" and controller not in groups:
            file = Path(mount_point, groups[""], version_2)
        else:
            continue
        return [int(word) if word.lstrip("-").isdigit() else word for word in file.read_text().split()]
    raise AssertionError(f"no hierarchy has the controller {controller}")


def processors_allowed(silo: Silo) -> float:
    quota, *period = kernel_file(silo, "cpu", "cpu.cfs_quota_us", "cpu.max")
    assert isinstance(quota, int), "no limit"
    length = period or kernel_file(silo, "cpu", "cpu.cfs_period_us", "cpu.max")
    return quota / int(length[-1])


def processor_weight(silo: Silo) -> float:
    """As a multiple of the default."""
    shares = kernel_file(silo, "cpu", "cpu.shares", "cpu.weight")[0]
    default = 100 if Path("/sys/fs/cgroup/cgroup.controllers").exists() else 1024
    return int(shares) / default


@in_loop
async def test_processor_count_sets_the_quota_of_the_cgroup() -> None:
    needs("cpu")
    async with running(cpu_count=1) as silo:
        assert silo.enforced == {"cpu_count": True}
        assert processors_allowed(silo) == 1.0
        await silo.set_limits(cpu_count=2)
        assert processors_allowed(silo) == 2.0


@in_loop
async def test_processor_weight_sets_the_weight_of_the_cgroup_and_lifts_the_quota() -> None:
    needs("cpu")
    async with running(cpu_count=1) as silo:
        assert processor_weight(silo) == 1.0
        assert await silo.set_limits(cpu_count=None, cpu_weight=500) == {"cpu_weight": True}
        assert processor_weight(silo) == 5.0
        assert kernel_file(silo, "cpu", "cpu.cfs_quota_us", "cpu.max")[0] in (-1, "max")


# Forks until the kernel refuses, or 20 times; prints how many children it has.
_FORKS = """python3 -c "
import os, time
children = 0
try:
    while children < 20:
        if os.fork() == 0:
            time.sleep(1000)
        children += 1
except BlockingIOError:
    pass
print(children, 'children', flush=True)
time.sleep(1000)
" """


@pytest.mark.parametrize(("limit", "children"), [(5, b"4"), (None, b"20")])
@in_loop
async def test_process_limit_counts_all_processes_of_the_silo(limit: int | None, children: bytes) -> None:
    needs("pids")
    async with running(process_limit=limit) as silo:
        process = await silo.spawn({"CommandLine": _FORKS, "CreateStdOutPipe": True})
        assert (await read_until(process, b"children\n")).split()[0] == children
        assert len(silo.process_list()) == int(children) + 1
        if limit is not None:
            assert kernel_file(silo, "pids", "pids.max", "pids.max") == [limit + 1]  # and pid 1 of the silo
        process.close()


@in_loop
async def test_limit_without_a_controller_is_reported_as_not_enforced() -> None:
    nowhere = cgroup.Hierarchies({}, None)
    group = cgroup.Cgroup("test", "x", nowhere)
    await group.apply(Limits(memory_bytes=MIB, cpu_maximum=5000, process_limit=3))
    assert group.enforced == {"memory_bytes": False, "cpu_maximum": False, "process_limit": False}
    assert group.oom_count == 0
    assert group.memory() is None
    assert await group.freeze(list) is None
    await group.remove()


@in_loop
async def test_frozen_processes_write_nothing_and_can_be_terminated() -> None:
    needs("freezer")
    async with running() as silo:
        script = "while :; do echo tick; sleep 0.01; done"
        process = await silo.spawn({"CommandLine": f'sh -c "{script}"', "CreateStdOutPipe": True})
        await read_until(process, b"tick")
        assert await silo.freeze()
        os.set_blocking(process.stdout or -1, False)
        drain(process.stdout or -1)
        await asyncio.sleep(0.2)
        assert drain(process.stdout or -1) == b""
        await silo.thaw()
        os.set_blocking(process.stdout or -1, True)
        await read_until(process, b"tick")
        assert await silo.freeze()
        await asyncio.wait_for(silo.terminate(), DEADLINE)  # even frozen
        assert process.exited.done()
        process.close()


def drain(descriptor: int) -> bytes:
    seen = b""
    while True:
        try:
            part = os.read(descriptor, 65536)
        except BlockingIOError:
            return seen
        if not part:
            return seen
        seen += part


@in_loop
async def test_statistics_count_processor_time_and_memory_of_exited_processes() -> None:
    async with running() as silo:
        idle = silo.statistics()
        assert set(idle) == {"Timestamp", "ContainerStartTime", "Uptime100ns", "Processor", "Memory", "Storage"}
        busy = 'python3 -c "import time; t = time.process_time()\nwhile time.process_time() - t < 0.4: pass"'
        await finished(silo, busy)
        ended = silo.statistics()["Processor"]
        # The process has exited; what it used is still counted.
        assert 3_500_000 < ended["TotalRuntime100ns"] < 20_000_000
        assert ended["TotalRuntime100ns"] == ended["RuntimeUser100ns"] + ended["RuntimeKernel100ns"]
        process = await silo.spawn({"CommandLine": _GREEDY.format(size=50, seconds=1000), "CreateStdOutPipe": True})
        await read_until(process, b"\n")
        memory = silo.statistics()["Memory"]
        assert 50 * MIB < memory["MemoryUsageCommitBytes"] < 90 * MIB
        assert memory["MemoryUsageCommitPeakBytes"] >= memory["MemoryUsageCommitBytes"]
        assert 50 * MIB < memory["MemoryUsagePrivateWorkingSetBytes"] < 90 * MIB
        process.kill()
        await process.exited
        after = silo.statistics()["Memory"]
        assert after["MemoryUsageCommitBytes"] < 10 * MIB
        assert after["MemoryUsageCommitPeakBytes"] >= 50 * MIB
        process.close()


@in_loop
async def test_statistics_count_storage_writes(tmp_path: Path) -> None:
    async with running(binds=[Bind(str(tmp_path), "/data")]) as silo:
        await finished(silo, "dd if=/dev/zero of=/data/file bs=65536 count=20 conv=fsync")
        storage = silo.statistics()["Storage"]
    assert storage["WriteCountNormalized"] >= 20
    assert storage["WriteSizeBytes"] >= 20 * 65536


@in_loop
async def test_process_list_has_names_times_and_memory() -> None:
    async with running() as silo:
        assert silo.process_list() == []
        one = await silo.spawn({"CommandLine": "sleep 1000"})
        other = await silo.spawn({"CommandLine": "ping -t localhost"})
        memory = ("MemoryCommitBytes", "MemoryWorkingSetPrivateBytes", "MemoryWorkingSetSharedBytes")

        # A program has its name and its memory some time after exec.
        def ready() -> bool:
            entries = silo.process_list()
            named = {entry["ImageName"] for entry in entries} == {"sleep", "ping.exe"}
            return named and all(entry[name] for entry in entries for name in memory)

        await until(ready, "the names and the memory of both processes")
        entries = {entry["ProcessId"]: entry for entry in silo.process_list()}
        assert {pid: entry["ImageName"] for pid, entry in entries.items()} == {one.pid: "sleep", other.pid: "ping.exe"}
        sleeper = entries[one.pid]
        assert sleeper["CreateTimestamp"][-9:-1].replace(".", "").isdigit() and sleeper["CreateTimestamp"].endswith("Z")
        assert all(sleeper[name] > 0 for name in memory)

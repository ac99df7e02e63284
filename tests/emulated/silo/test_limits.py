"""Limits that hold, and figures that are true."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import pytest

from hcs_emulator.service.silo import cgroup
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
async def test_a_memory_limit_breach_is_seen_and_recorded() -> None:
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
        assert (await finished(silo, "true")).code == 0  # the silo outlives it
        assert silo.statistics()["Memory"]["MemoryUsageCommitPeakBytes"] >= 40 * MIB


@in_loop
async def test_limits_can_be_set_and_lifted_while_it_runs() -> None:
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
async def test_a_processor_limit_holds() -> None:
    needs("cpu")
    processors = os.cpu_count() or 1
    async with running(cpu_maximum=10_000 // (5 * processors)) as silo:  # a fifth of one processor
        assert silo.enforced == {"cpu_maximum": True}
        spinner = await silo.spawn({"CommandLine": 'sh -c "while :; do :; done"'})
        began, used_before = time.monotonic(), used(silo)
        await asyncio.sleep(1.5)
        share = (used(silo) - used_before) / (time.monotonic() - began)
        assert share < 0.5, "unlimited it would be near 1"
        spinner.kill()


def used(silo: Silo) -> float:
    total: int = silo.statistics()["Processor"]["TotalRuntime100ns"]
    return total / 10_000_000


@in_loop
async def test_processor_count_and_weight_are_written() -> None:
    needs("cpu")
    async with running(cpu_count=1) as silo:
        assert silo.enforced == {"cpu_count": True}
        assert await silo.set_limits(cpu_count=None, cpu_weight=500) == {"cpu_weight": True}


@in_loop
async def test_a_process_limit_holds() -> None:
    needs("pids")
    async with running(process_limit=5) as silo:
        script = "for i in 1 2 3 4 5 6 7 8; do sleep 1000 & done; echo done; wait"
        process = await silo.spawn({"CommandLine": f'sh -c "{script}"'})
        await until(lambda: process.exited.done() or len(silo.process_list()) >= 5, "five processes")
        assert len(silo.process_list()) <= 5
        process.close()


@in_loop
async def test_what_the_machine_does_not_allow_is_reported_as_not_enforced() -> None:
    nowhere = cgroup.Hierarchies({}, None)
    group = cgroup.Cgroup("test", "x", nowhere)
    await group.apply(cgroup.Limits(memory_bytes=MIB, cpu_maximum=5000, process_limit=3))
    assert group.enforced == {"memory_bytes": False, "cpu_maximum": False, "process_limit": False}
    assert group.oom_count == 0
    assert group.memory() is None
    assert await group.freeze(list) is None
    await group.remove()


@in_loop
async def test_frozen_processes_stand_still() -> None:
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
async def test_statistics_are_true() -> None:
    async with running() as silo:
        idle = silo.statistics()
        assert set(idle) == {"Timestamp", "ContainerStartTime", "Uptime100ns", "Processor", "Memory", "Storage"}
        busy = 'python3 -c "import time; t = time.process_time()\nwhile time.process_time() - t < 0.4: pass"'
        await finished(silo, busy)
        ended = silo.statistics()["Processor"]
        # The process is gone, what it used is not.
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
async def test_storage_is_counted(tmp_path: Path) -> None:
    async with running(binds=[Bind(str(tmp_path), "/data")]) as silo:
        await finished(silo, "dd if=/dev/zero of=/data/file bs=65536 count=20 conv=fsync")
        storage = silo.statistics()["Storage"]
    assert storage["WriteCountNormalized"] >= 20
    assert storage["WriteSizeBytes"] >= 20 * 65536


@in_loop
async def test_the_process_list() -> None:
    async with running() as silo:
        assert silo.process_list() == []
        one = await silo.spawn({"CommandLine": "sleep 1000"})
        other = await silo.spawn({"CommandLine": "ping -t localhost"})
        # The names come with exec, which has happened; the stand-in's name a moment later.
        await until(lambda: "ping.exe" in [entry["ImageName"] for entry in silo.process_list()], "ping.exe")
        entries = {entry["ProcessId"]: entry for entry in silo.process_list()}
        assert {pid: entry["ImageName"] for pid, entry in entries.items()} == {one.pid: "sleep", other.pid: "ping.exe"}
        sleeper = entries[one.pid]
        assert sleeper["CreateTimestamp"][-9:-1].replace(".", "").isdigit() and sleeper["CreateTimestamp"].endswith("Z")
        assert sleeper["MemoryCommitBytes"] > 0
        assert sleeper["MemoryWorkingSetPrivateBytes"] > 0
        assert sleeper["MemoryWorkingSetSharedBytes"] > 0

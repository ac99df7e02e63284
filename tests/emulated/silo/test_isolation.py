"""Isolation of silos, their exit, and cleanup."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hcs_emulator.service.silo import cgroup
from hcs_emulator.service.silo.namespaces import Bind, LaunchError, Silo, SiloSettings
from tests.support.silo import exists, finished, in_loop, programs, read_until, running, until

__all__ = ["programs"]


@in_loop
async def test_silos_have_namespaces_of_their_own() -> None:
    async with running() as one, running() as other:
        for kind in ("pid", "mnt", "uts", "ipc"):
            names = {os.readlink(f"/proc/{pid}/ns/{kind}") for pid in ("self", one.pid, other.pid)}
            assert len(names) == 3, kind


@in_loop
async def test_process_cannot_see_or_signal_another_silo() -> None:
    async with running(hostname="one") as one, running(hostname="other") as other:
        victim = await one.spawn({"CommandLine": "sleep 4242"})
        script = f"cat /proc/[0-9]*/cmdline; kill -9 {victim.pid}; kill -9 -1"
        listing = await finished(other, f'sh -c "{script}"')
        assert b"4242" not in listing.out
        assert not victim.exited.done()
        assert victim.pid in [entry["ProcessId"] for entry in one.process_list()]
        assert (await finished(one, "hostname")).out == b"one\n"
        assert (await finished(other, "hostname")).out == b"other\n"
        assert exists(one.pid) and exists(other.pid)


@in_loop
async def test_host_cannot_be_changed_from_a_silo() -> None:
    async with running() as silo:
        for attempt in (
            "echo x > /etc/silo-test",
            "echo x > /usr/silo-test",
            "echo 1 > /proc/sys/kernel/panic_on_oops",
            "echo h > /proc/sysrq-trigger",
            "mount -t tmpfs x /mnt",
            "mount -o remount,rw /usr",
            "umount /etc/shadow",
            "mknod /tmp/disk b 254 0",
            "chroot / true && nsenter -t 1 -m true",
            "test -s /etc/shadow",
        ):
            assert (await finished(silo, f'sh -c "{attempt}"')).code != 0, attempt
        assert (await finished(silo, 'sh -c "echo mine > /tmp/x && cat /tmp/x"')).out == b"mine\n"
    assert not Path("/etc/silo-test").exists()


@in_loop
async def test_silo_with_a_root_file_system(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "data").mkdir(parents=True)
    (root / "data" / "file.txt").write_text("from the layer\n")
    async with running(root=str(root)) as silo:
        result = await finished(silo, r"cmd /c type C:\data\file.txt & echo new>C:\data\new.txt")
        assert result.out == b"from the layer\n"
        with pytest.raises(LaunchError):
            await finished(silo, "/bin/sh -c true")  # the host's programs are not in it
    assert (root / "data" / "new.txt").read_bytes() == b"new\r\n"


@in_loop
async def test_missing_root_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LaunchError) as caught:
        await Silo.start(SiloSettings("x", root=str(tmp_path / "none")))
    assert caught.value.hresult == 0x80070002


@in_loop
async def test_binds_show_host_directories_and_files(tmp_path: Path) -> None:
    data, single = tmp_path / "data", tmp_path / "hosts"
    data.mkdir()
    (data / "a.txt").write_text("a\n")
    single.write_text("127.0.0.1 here\n")
    binds = [
        Bind(str(data), r"C:\logs"),
        Bind(str(data), r"C:\fixed", read_only=True),
        Bind(str(single), r"C:\Windows\System32\drivers\etc\hosts", read_only=True),
    ]
    async with running(binds=binds) as silo:
        result = await finished(silo, 'sh -c "cat /logs/a.txt; echo b > /logs/b.txt; cat /fixed/b.txt"')
        assert result.out == b"a\nb\n"
        assert (await finished(silo, 'sh -c "echo c > /fixed/c.txt"')).code != 0
        hosts = "/Windows/System32/drivers/etc/hosts"
        assert (await finished(silo, f"cat {hosts}")).out == b"127.0.0.1 here\n"
        assert (await finished(silo, f'sh -c "echo x > {hosts}"')).code != 0
    assert sorted(path.name for path in data.iterdir()) == ["a.txt", "b.txt"]
    assert single.read_text() == "127.0.0.1 here\n"


@in_loop
async def test_binds_below_read_only_binds(tmp_path: Path) -> None:
    """Windows' bind filter needs no directory to map at, and writes none into a directory that is read-only."""
    outer, inner = tmp_path / "outer", tmp_path / "inner"
    (outer / "sub").mkdir(parents=True)
    (outer / "a.txt").write_text("a\n")
    inner.mkdir()
    (inner / "b.txt").write_text("b\n")
    binds = [
        Bind(str(outer), r"C:\fixed", read_only=True),
        Bind(str(inner), r"C:\fixed\new\deep"),
        Bind(str(inner / "b.txt"), r"C:\fixed\single", read_only=True),
        Bind(str(inner), r"C:\fixed\sub\below", read_only=True),
    ]
    async with running(binds=binds) as silo:
        shown = await finished(silo, 'sh -c "cd /fixed; cat a.txt new/deep/b.txt single sub/below/b.txt"')
        assert shown.out == b"a\nb\nb\nb\n"
        for refused in ("/fixed/c", "/fixed/new/c", "/fixed/sub/c", "/fixed/a.txt", "/fixed/sub/below/c"):
            assert (await finished(silo, f'sh -c "echo c > {refused}"')).code != 0
        assert (await finished(silo, 'sh -c "echo c > /fixed/new/deep/c.txt"')).code == 0
        await silo.remove_bind(r"C:\fixed\new\deep")
        await silo.remove_bind(r"C:\fixed")
        assert (await finished(silo, "cat /fixed/a.txt")).code != 0
    assert sorted(path.name for path in outer.rglob("*")) == ["a.txt", "sub"]
    assert sorted(path.name for path in inner.iterdir()) == ["b.txt", "c.txt"]


@in_loop
async def test_binds_below_a_read_only_bind_of_an_overlay(tmp_path: Path) -> None:
    """A directory of the host that is on an overlay itself, as in a container, stays as it is."""
    lower, upper, work, merged, inner = (tmp_path / name for name in ("lower", "upper", "work", "merged", "inner"))
    for directory in (lower, upper, work, merged, inner):
        directory.mkdir()
    (inner / "b.txt").write_text("b\n")
    options = f"lowerdir={lower},upperdir={upper},workdir={work}"
    subprocess.run(["mount", "-t", "overlay", "overlay", "-o", options, str(merged)], check=True)
    try:
        binds = [Bind(str(merged), r"C:\fixed", read_only=True), Bind(str(inner), r"C:\fixed\new")]
        async with running(binds=binds) as silo:
            assert (await finished(silo, "cat /fixed/new/b.txt")).out == b"b\n"
        assert list(merged.iterdir()) == []
    finally:
        subprocess.run(["umount", str(merged)], check=True)


@in_loop
async def test_binds_can_be_added_and_removed_while_the_silo_runs(tmp_path: Path) -> None:
    (tmp_path / "here").write_text("now\n")
    async with running() as silo:
        await silo.add_bind(Bind(str(tmp_path), r"C:\Added\Later"))
        assert (await finished(silo, "cat /Added/Later/here")).out == b"now\n"
        await silo.remove_bind(r"c:\added\later")
        assert (await finished(silo, "cat /Added/Later/here")).code != 0
        with pytest.raises(LaunchError):
            await silo.remove_bind(r"C:\added\later")
        with pytest.raises(LaunchError) as caught:
            await silo.add_bind(Bind(str(tmp_path / "none"), r"C:\x"))
        assert caught.value.hresult == 0x80070002


@in_loop
async def test_bind_target_cannot_leave_the_root_through_a_link(tmp_path: Path) -> None:
    root, outside, data = tmp_path / "root", tmp_path / "outside", tmp_path / "data"
    for directory in (root, outside, data):
        directory.mkdir()
    (root / "link").symlink_to(outside)
    with pytest.raises(LaunchError):
        async with running(root=str(root), binds=[Bind(str(data), r"C:\link\x")]):
            pass
    assert list(outside.iterdir()) == []


@in_loop
async def test_processes_are_killed_with_their_silo() -> None:
    async with running() as silo:
        script = "setsid sleep 1000 & trap '' TERM INT HUP; echo up; while :; do sleep 1000; done"
        process = await silo.spawn({"CommandLine": f'sh -c "{script}"', "CreateStdOutPipe": True})
        await read_until(process, b"up")
        await until(lambda: len(silo.process_list()) >= 3, "three processes")
        inside = [entry["ProcessId"] for entry in silo.process_list()]
        os.kill(silo.pid, signal.SIGKILL)  # killed from outside
        await asyncio.wait_for(silo.exited, 30)
        assert await process.exited == 0xFFFFFFFF
        assert not [pid for pid in inside if exists(pid)]
        with pytest.raises(LaunchError):
            await silo.spawn({"CommandLine": "true"})
        process.close()


@in_loop
async def test_shutdown_signals_processes_before_killing_them() -> None:
    async with running() as silo:
        script = "trap 'exit 9' TERM; echo up; sleep 1000 & wait"
        polite = await silo.spawn({"CommandLine": f'sh -c "{script}"', "CreateStdOutPipe": True})
        await read_until(polite, b"up")
        assert await silo.shutdown(30)
        assert await polite.exited == 9
        assert silo.exited.done()
        polite.close()
    async with running() as silo:
        script = "trap '' TERM; echo up; while :; do sleep 1000; done"
        deaf = await silo.spawn({"CommandLine": f'sh -c "{script}"', "CreateStdOutPipe": True})
        await read_until(deaf, b"up")
        assert not await silo.shutdown(0.05)
        assert await deaf.exited == 0xFFFFFFFF
        deaf.close()


_SERVICE = """
import asyncio, sys
from hcs_emulator.service.silo.namespaces import Silo, SiloSettings

async def main():
    silo = await Silo.start(SiloSettings("orphan", instance=sys.argv[1]))
    process = await silo.spawn({"CommandLine": "sleep 1000"})
    frozen = await silo.freeze() if sys.argv[2] == "frozen" else None
    print(silo.pid, process.pid, flush=True)
    await asyncio.sleep(1000)

asyncio.run(main())
"""


@pytest.mark.parametrize("state", ["running", "frozen"])
def test_silo_exits_when_its_service_is_killed(state: str) -> None:
    instance = f"test-orphan-{os.getpid()}"
    command = [sys.executable, "-c", _SERVICE, instance, state]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as service:
        assert service.stdout is not None
        pids = [int(number) for number in service.stdout.readline().split()]
        assert len(pids) == 2
        service.kill()

    async def gone() -> None:
        await until(lambda: not any(exists(pid) for pid in pids), f"the end of {pids}")
        await asyncio.to_thread(cgroup.remove_stale, instance)

    asyncio.run(gone())
    assert not leftover_cgroups(instance)


def leftover_cgroups(instance: str) -> list[str]:
    return [directory for directory, _, _ in os.walk("/sys/fs/cgroup") if directory.endswith("/" + instance)]


@in_loop
async def test_many_concurrent_silos_run() -> None:
    async def one(number: int) -> int:
        async with running() as silo:
            started.append(number)
            await until(lambda: len(started) == 120, "all silos at once")
            return (await finished(silo, f"cmd /c exit {number}")).code

    started: list[int] = []
    assert await asyncio.gather(*(one(number) for number in range(120))) == list(range(120))


@in_loop
async def test_hundred_cycles_leak_nothing(tmp_path: Path) -> None:
    async def cycle(number: int) -> None:
        limits = {"memory_bytes": 64 << 20} if number % 10 == 0 else {}
        async with running(binds=[Bind(str(tmp_path), "C:\\data")], **limits) as silo:
            assert (await finished(silo, f"cmd /c exit {number}")).code == number
            await silo.spawn({"CommandLine": "sleep 1000"})

    await cycle(0)
    await cycle(1)
    before = measure(tmp_path)
    for number in range(100):
        await cycle(number)
    assert measure(tmp_path) == before
    assert not before[1] and not before[2]


def measure(directory: Path) -> tuple[int, list[str], list[str], int]:
    """Descriptors, mounts, cgroups and children of this process only; other test processes have theirs."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    ours = [line for line in mounts if str(directory) in line or "tmpfs silo" in line]
    groups = [path for path, _, _ in os.walk("/sys/fs/cgroup") if f"test-{os.getpid()}" in path]
    return len(os.listdir("/proc/self/fd")), ours, groups, len(children)

"""All programs of a Wine prefix exit with the process that created it, even if it is killed. Programs run without
address space layout randomization, and one that has deadlocked is killed: scripts/wine_prefix.py gives the reasons."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from wine_exits import ExitWatch, deadlocked
from wine_prefix import NULL_STREAMS, Prefix, without_aslr

from tests.support.eventually import eventually
from tests.wine.conftest import ROOT, TIMEOUT, Machine

NOT_RANDOMISED = 0x40000
# Its first thread has exited, and the other waits for a lock that nobody releases.
DEADLOCK = """
import _thread, ctypes
lock = _thread.allocate_lock()
lock.acquire()
_thread.start_new_thread(lock.acquire, ())
print("started", flush=True)
ctypes.CDLL(None).syscall(60, 0)  # exit(2), of this thread only
"""
OWNER = """
import subprocess, sys, time
from pathlib import Path
from wine_prefix import NULL_STREAMS, Prefix
prefix = Prefix(Path(sys.argv[1]))
prefix.create()
prefix.start()
subprocess.Popen(["wine", "cmd", "/c", "ping -n 600 127.0.0.1"], env=prefix.environment, **NULL_STREAMS)
print("started", flush=True)
time.sleep(600)
"""


def test_prefix_ends_when_owner_is_killed(tmp_path: Path) -> None:
    prefix = Prefix(tmp_path / "prefix")
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(prefix.directory)], cwd=ROOT / "scripts", stdout=subprocess.PIPE
    )
    try:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"started\n"
        eventually(lambda: len(prefix.processes()) > 3, "programs in the prefix", TIMEOUT)
    finally:
        owner.kill()
        owner.wait(TIMEOUT)
    try:
        eventually(lambda: not prefix.processes(), "the exit of all programs")
    finally:
        prefix.stop()


def test_prefix_ends_on_close(tmp_path: Path) -> None:
    prefix = Prefix(tmp_path / "prefix")
    prefix.create()
    try:
        prefix.start()
        assert prefix.run("cmd", "/c", "exit 3").returncode == 3
    finally:
        prefix.stop()
    eventually(lambda: not prefix.processes(), "the exit of all programs")


def test_deadlocked_program_is_killed(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    environment = {**os.environ, "WINEPREFIX": str(tmp_path / "prefix")}
    other = {**environment, "WINEPREFIX": str(tmp_path / "other")}
    programs = [
        subprocess.Popen([sys.executable, "-c", DEADLOCK], env=one, stdout=subprocess.PIPE)
        for one in (environment, other)
    ]
    waiting = subprocess.Popen(["sleep", "600"], env=environment)
    watch = ExitWatch(tmp_path / "prefix")
    try:
        for program in programs:
            assert program.stdout is not None
            assert program.stdout.readline() == b"started\n"
        assert programs[0].wait(TIMEOUT) == -signal.SIGKILL
        eventually(lambda: deadlocked(tmp_path / "other") == [programs[1].pid], "the deadlock of the other prefix")
        assert watch.killed == [programs[0].pid]
        assert waiting.poll() is None and programs[1].poll() is None
    finally:
        watch.close()
        for program in (*programs, waiting):
            program.kill()
            program.wait(TIMEOUT)


@pytest.mark.skipif(not without_aslr(), reason="the system does not allow to disable ASLR")
def test_address_space_is_not_randomised(tmp_path: Path) -> None:
    """For the started program and its children."""
    prefix = Prefix(tmp_path / "prefix")
    prefix.create()
    try:
        prefix.start()
        command = ["wine", "cmd", "/c", "ping -n 600 127.0.0.1"]
        subprocess.Popen(command, env=prefix.environment, **NULL_STREAMS)
        eventually(lambda: any("ping" in name for name in _programs(prefix)), "a program of a program", TIMEOUT)
        programs = _programs(prefix)
        assert len(programs) > 3
        assert set(programs.values()) == {NOT_RANDOMISED}, programs
    finally:
        prefix.stop()


def _programs(prefix: Prefix) -> dict[str, int]:
    """The Windows programs in a prefix, with their personality(2)."""
    found = {}
    for pid in prefix.processes():
        process = Path(f"/proc/{pid}")
        try:
            if not (process / "exe").readlink().name.startswith("wineserver"):
                name = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                found[f"{pid} {name}"] = int((process / "personality").read_text(), 16)
        except OSError:
            continue  # it has just exited
    return found


def test_ping_of_the_tests_replaces_wines(machine: Machine) -> None:
    """That of Wine can freeze the prefix, see ping.c."""
    done = machine.run("cmd", "/c", "ping -n 2 127.0.0.1")
    text = done.stdout.decode()
    assert done.returncode == 0 and text.count("Reply from 127.0.0.1: bytes=32 time<1ms TTL=128") == 2, text
    usage = machine.run("ping")
    assert usage.returncode == 1 and b"usage: ping" in usage.stdout, usage.stdout

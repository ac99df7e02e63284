"""The program of a sandbox without an image: it is a program that runs, reaps, and exits."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from shim.oci.errors import InvalidSpec
from shim.platform import host
from shim.uvm.linux import pause
from tests.support.eventually import eventually

RT_SIGTIMEDWAIT = "128"  # of x86-64


@pytest.fixture
def root(tmp_path: Path) -> Path:
    pause.create_root(str(tmp_path / "root"))
    return tmp_path / "root"


@pytest.fixture
def process(root: Path) -> Iterator[subprocess.Popen[bytes]]:
    # A pid namespace, as in a pod: there it is pid 1, which gets no signal that it does not ask for.
    command = ["unshare", "--pid", "--fork", "--kill-child", str(root / "pause")]
    running = subprocess.Popen(command)
    try:
        yield running
    finally:
        running.kill()
        running.wait(10)


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def waits_for_signals(pid: int) -> bool:
    is_pause = os.readlink(f"/proc/{pid}/exe").endswith("/pause")
    return is_pause and Path(f"/proc/{pid}/syscall").read_text().split()[0] == RT_SIGTIMEDWAIT


def pause_pid(process: subprocess.Popen[bytes]) -> int:
    """As soon as it gets signals: before, it is a pid 1 that has not asked for any."""

    def waiting() -> list[int]:
        return [pid for pid in children(process.pid) if waits_for_signals(pid)]

    return eventually(waiting, "the program waits for signals")[0]


def test_root_has_program_and_mount_points(root: Path) -> None:
    assert sorted(path.name for path in root.iterdir()) == ["dev", "pause", "proc"]
    assert (root / "pause").read_bytes() == pause.program()
    assert len(pause.program()) == 216


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_program_exits_at_signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    os.kill(pause_pid(process), number)
    assert process.wait(10) == 0


def test_program_reaps_and_goes_on(process: subprocess.Popen[bytes]) -> None:
    pid = pause_pid(process)
    enter = ["nsenter", f"--pid=/proc/{pid}/ns/pid", "sh", "-c", "(sleep 0.05 &) ; exit 0"]
    subprocess.run(enter, check=True, timeout=10)
    eventually(lambda: children(pid), "a process is reparented to it")
    eventually(lambda: not children(pid), "it is reaped")
    assert process.poll() is None


def test_other_architecture_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "architecture", lambda: "arm64")
    with pytest.raises(InvalidSpec, match="amd64"):
        pause.create_root(str(tmp_path))

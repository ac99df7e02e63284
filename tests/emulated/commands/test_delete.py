"""`delete`: repeatable, and independent of what is left of a container."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from shim.commands import delete
from shim.platform import daemon
from shim.task import exit_record
from tests.support.emulator import Emulator, is_alive
from tests.support.eventually import eventually
from tests.support.shim_commands import Binary, connect, dial, shut_down
from tests.support.shims import Shims


@pytest.fixture(params=["1", "0"], ids=["native", "python"])
def binary(request: pytest.FixtureRequest, binary: Binary) -> Binary:
    """The native launcher, and one that leaves everything to Python: they must not differ."""
    binary.env["RUNHCS_NATIVE"] = request.param
    return binary


def test_delete_after_clean_shutdown(binary: Binary) -> None:
    bundle = binary.bundle()
    shut_down(binary.start(bundle))
    before = time.time()
    answer, said = binary.delete(bundle)
    assert answer.exit_status == 255 and answer.pid == 0
    assert answer.exited_at is not None and abs(answer.exited_at.seconds - before) < 60
    assert said == b""
    binary.expect_clean()


def test_delete_twice_and_without_bundle(binary: Binary) -> None:
    bundle = binary.bundle()
    for _ in range(2):
        assert binary.delete(bundle)[0].exit_status == 255
    assert binary.delete(binary.directory / "nowhere")[0].exit_status == 255


def test_delete_returns_recorded_exit(binary: Binary) -> None:
    bundle = binary.bundle()
    exit_record.write(str(bundle), 3, 1_700_000_000, 5, 4711)
    answer, _ = binary.delete(bundle)
    assert (answer.exit_status, answer.pid) == (3, 4711)
    assert answer.exited_at is not None and (answer.exited_at.seconds, answer.exited_at.nanos) == (1_700_000_000, 5)


def test_delete_ignores_fifo_as_exit_record(binary: Binary) -> None:
    bundle = binary.bundle()
    os.mkfifo(bundle / exit_record.FILE_NAME)
    assert binary.delete(bundle)[0].exit_status == 255


def test_exit_record_replaces_fifo(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / exit_record.FILE_NAME)
    exit_record.write(str(tmp_path), 3, 1, 2, 4)
    assert exit_record.read(str(tmp_path)) == (3, 1, 2, 4)


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_delete_says_that_ledger_cannot_be_read(binary: Binary, make: Callable[[Path], None]) -> None:
    bundle = binary.bundle()
    make(bundle / "ledger.jsonl")
    if make is os.mkdir:
        (bundle / "ledger.jsonl" / "x").touch()
    result = binary.run(*binary.flags("c1"), "-bundle", str(bundle), "delete", cwd=binary.directory)
    assert b"Traceback" not in result.stderr
    if make is os.mkdir:  # a FIFO has no content
        assert result.returncode and b"ledger.jsonl" in result.stderr and b"not released" in result.stderr


def test_delete_takes_more_time_if_the_environment_allows_it(emulator: Emulator, shims: Shims) -> None:
    shim = shims.start("c1", shims.spec("ping", "-t", "localhost"))
    shim.run(rootfs=shims.rootfs())
    emulator.fault("HcsOpenComputeSystem", delay=delete.RELEASE_TIMEOUT + 2)
    shim.kill_daemon()
    short = shims.command("c1", "delete", shim.path, bundle=shim.path)
    assert short.returncode and b"timed out" in short.stderr, short.stderr
    shims.env[delete.SECONDS_VARIABLE] = "60"
    shim.delete_command()
    emulator.control("fault-clear")


@pytest.mark.parametrize("value", ["", "soon", "nan", "-1", "0.5", "1e9"])
def test_bad_time_for_delete_is_ignored(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setattr(delete.files, "environment", lambda name: value)
    assert delete._release_timeout() == delete.RELEASE_TIMEOUT


def test_delete_removes_stale_socket(binary: Binary) -> None:
    bundle = binary.bundle()
    address = binary.start(bundle)
    pid = int((bundle / "shim.pid").read_text())
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: not is_alive(pid), "the daemon's end")
    assert Path(address.removeprefix("unix://")).exists()
    binary.delete(bundle)
    binary.expect_clean()


def test_delete_leaves_running_daemon_alone(binary: Binary) -> None:
    bundle = binary.bundle()
    address = binary.start(bundle)
    pid = connect(dial(address)).shim_pid
    binary.delete(bundle)
    assert connect(dial(address)).shim_pid == pid


def test_delete_prints_panic_log(binary: Binary) -> None:
    bundle = binary.bundle()
    (bundle / "panic.log").write_bytes(b"Fatal Python error: Segmentation fault\n" + b"x" * (2 << 20))
    _, said = binary.delete(bundle)
    assert said.startswith(b"Fatal Python error") and len(said) == 1 << 20


def test_delete_follows_no_link_for_the_crash_log(binary: Binary, tmp_path: Path) -> None:
    """Of a shared daemon, in the place of which a link has been put."""
    bundle = binary.bundle()
    (tmp_path / "other").write_text("content of another file")
    (bundle / "daemon-panic.log").symlink_to(tmp_path / "other")
    _, said = binary.delete(bundle)
    assert b"content" not in said


def test_sigusr1_dumps_stacks_at_any_time(binary: Binary) -> None:
    """Also while the daemon still imports modules, and any number of times."""
    bundle = binary.bundle()
    address = binary.start(bundle)
    pid = connect(dial(address)).shim_pid

    def written() -> int:
        return (bundle / "panic.log").read_bytes().count(b", in ShutdownRequest.wait")

    for count in range(50):
        os.kill(pid, signal.SIGUSR1)
        eventually(lambda count=count: written() > count, "the stacks")
    shut_down(address)
    eventually(lambda: not is_alive(pid), "the daemon's end")
    assert b", in ShutdownRequest.wait" in binary.delete(bundle)[1]


def test_delete_error_names_unreleased_resource(binary: Binary) -> None:
    bundle = binary.bundle()
    (bundle / "ledger.jsonl").write_text('{"n":"1","enter":"nonsense","id":"x"}\n')
    result = binary.run(*binary.flags(), "-bundle", str(bundle), "delete", cwd=binary.directory)
    assert result.returncode == 1 and result.stdout == b""
    assert b"nonsense" in result.stderr and result.stderr.count(b"\n") == 1


def test_delete_does_not_wait_for_zombie_daemon(binary: Binary) -> None:
    """Its parent may reap it late; its resources are released at once."""
    bundle = binary.bundle()
    with subprocess.Popen(["sleep", "1000"]) as zombie:
        zombie.kill()
        eventually(lambda: not is_alive(zombie.pid), "a zombie")
        assert not daemon.is_running(zombie.pid)
        (bundle / "shim.pid").write_text(str(zombie.pid))
        (bundle / "address").write_text(f"unix://{binary.sockets}/gone")
        assert not delete._daemon_is_exiting(str(bundle))
        (bundle / "shim.pid").write_text(str(os.getpid()))
        assert delete._daemon_is_exiting(str(bundle)), "a living process whose socket has gone"


def test_delete_releases_mounts_of_the_ledger(binary: Binary) -> None:
    bundle = binary.bundle()
    target = bundle / "rootfs"
    target.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "none", target], check=True)
    try:
        (bundle / "ledger.jsonl").write_text(f'{{"n":"1","enter":"mount","target":"{target}"}}\n')
        assert binary.delete(bundle)[0].exit_status == 255
        assert not target.is_mount()
        assert binary.delete(bundle)[0].exit_status == 255
    finally:
        if target.is_mount():
            subprocess.run(["umount", target], check=True)

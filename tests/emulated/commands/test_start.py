"""`start` and `serve` with real processes and sockets."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from shim.api import task as api
from shim.api.bootstrap import BootstrapParams
from shim.api.runhcs_options import Options
from shim.api.wellknown import Any
from shim.ttrpc.status import NOT_FOUND, StatusError
from tests.support.emulator import is_alive
from tests.support.eventually import eventually
from tests.support.shim_commands import (
    MEMBER,
    NAMESPACE,
    SANDBOX,
    Binary,
    ask,
    connect,
    dial,
    shut_down,
    was_started_natively,
)


@pytest.fixture(params=["1", "0"], ids=["native", "python"])
def binary(request: pytest.FixtureRequest, binary: Binary) -> Binary:
    """The native launcher, and one that leaves everything to Python: they must not differ."""
    binary.env["RUNHCS_NATIVE"] = request.param
    return binary


def test_start_connect_shutdown(binary: Binary) -> None:
    bundle = binary.bundle()
    address = binary.start(bundle)
    assert address.startswith(f"unix://{binary.sockets}/") and not address.endswith("\n")
    assert (bundle / "address").read_text() == address
    pid = int((bundle / "shim.pid").read_text())
    client = dial(address)
    answer = connect(client)
    assert answer.shim_pid == pid
    assert was_started_natively(pid) == (binary.env["RUNHCS_NATIVE"] == "1")
    with pytest.raises(StatusError) as caught:
        ask(client, "State", api.StateRequest(id="c1"))
    assert caught.value.code == NOT_FOUND
    ask(client, "Shutdown", api.ShutdownRequest(id="c1"))
    eventually(lambda: not is_alive(pid), "the daemon's end")
    assert not list(binary.sockets.iterdir())
    assert (bundle / "panic.log").read_bytes() == b""
    assert sorted(path.name for path in bundle.iterdir()) == ["address", "config.json", "panic.log", "shim.pid"]
    client.close()


def test_shutdown_now_exits_at_once(binary: Binary) -> None:
    address = binary.start(binary.bundle())
    shut_down(address, now=True)
    binary.expect_clean()


def descriptors(pid: int) -> dict[int, str]:
    """The open files of a process, without those that it closes meanwhile."""
    found = {}
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            found[int(fd)] = os.readlink(f"/proc/{pid}/fd/{fd}")
        except FileNotFoundError:
            continue
    return found


def test_daemon_is_detached(binary: Binary) -> None:
    """It has left the caller's session, directory and descriptors; containerd's pipe closes when `start` ends."""
    bundle = binary.bundle()
    inherited, ours = os.pipe()
    os.set_inheritable(inherited, True)
    process = subprocess.Popen(
        [binary.launcher, *binary.flags(), "start"], cwd=bundle, env=binary.env, pass_fds=[inherited],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdin is not None and process.stdout is not None and process.stderr is not None
    streams = (inherited, process.stdin.fileno(), process.stdout.fileno(), process.stderr.fileno())
    given = {os.readlink(f"/proc/self/fd/{fd}") for fd in streams}
    # communicate() returns when all writers of stdout and stderr have closed: the daemon must not be one of them.
    address = process.communicate(timeout=30)[0].decode()
    os.close(inherited)
    os.close(ours)
    pid = int((bundle / "shim.pid").read_text())
    connect(dial(address))
    assert os.getsid(pid) == pid != os.getsid(0)
    assert os.readlink(f"/proc/{pid}/cwd") == "/"
    # Once it serves, it has inherited nothing of `start`.
    targets = descriptors(pid)
    assert (targets.pop(0), targets.pop(1), targets.pop(2)) == ("/dev/null", "/dev/null", str(bundle / "panic.log"))
    assert not given.intersection(targets.values()), targets

    # A module that is being imported is open for a moment.
    def held() -> list[str]:
        return [target for target in descriptors(pid).values() if target.startswith(str(binary.directory))]

    eventually(lambda: held() == [str(bundle / "panic.log")], "the end of all files but the panic log")
    shut_down(address)
    binary.expect_clean()


def test_daemon_exits_with_killed_start(binary: Binary) -> None:
    """containerd kills `start` when its client gives up, and does not know about the daemon then."""
    bundle = binary.bundle()
    with binary.starting(bundle) as process:
        pid = int((bundle / "shim.pid").read_text())
        process.kill()
    eventually(lambda: not is_alive(pid), "the end of a daemon that was never handed over")
    binary.expect_clean()


def test_socket_permissions(binary: Binary) -> None:
    address = binary.start(binary.bundle())
    path = Path(address.removeprefix("unix://"))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user to try")
def test_connection_of_other_user_is_closed(binary: Binary) -> None:
    """Even if the file system permits the access."""
    address = binary.start(binary.bundle())
    path = Path(address.removeprefix("unix://"))
    for place in (binary.directory, path.parent, path):
        place.chmod(0o777)
    code = (
        "import os, socket, sys\n"
        "os.setgid(65534); os.setuid(65534)\n"
        "s = socket.socket(socket.AF_UNIX); s.settimeout(60); s.connect(sys.argv[1])\n"
        "sys.exit(0 if s.recv(1) == b'' else 1)\n"
    )
    done = subprocess.run([sys.executable, "-IS", "-c", code, str(path)], timeout=60, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    connect(dial(address))


def test_sigterm_shuts_down_cleanly(binary: Binary) -> None:
    bundle = binary.bundle()
    address = binary.start(bundle)
    connect(dial(address))
    os.kill(int((bundle / "shim.pid").read_text()), signal.SIGTERM)
    binary.expect_clean()
    assert (bundle / "panic.log").read_bytes() == b""


def test_sigterm_at_any_time_is_not_lost(binary: Binary) -> None:
    """Also while it starts, and if another thread than the main one gets it."""
    for number in range(8):
        bundle = binary.bundle(f"b{number}")
        address = binary.start(bundle, f"c{number}")
        if number % 2:
            connect(dial(address))
        os.kill(int((bundle / "shim.pid").read_text()), signal.SIGTERM)
    eventually(lambda: not binary.daemons(), "the end of all daemons")


def test_start_replaces_only_stale_socket(binary: Binary) -> None:
    first = binary.bundle("b1")
    address = binary.start(first)
    pid = int((first / "shim.pid").read_text())
    connect(dial(address))

    second = binary.bundle("b2")
    refused = binary.run(*binary.flags(), "start", cwd=second)
    assert refused.returncode == 1 and b"already running" in refused.stderr
    assert [path.name for path in second.iterdir()] == ["config.json"]
    assert connect(dial(address)).shim_pid == pid

    os.kill(pid, signal.SIGKILL)
    eventually(lambda: not is_alive(pid), "the daemon's end")
    assert Path(address.removeprefix("unix://")).exists()
    assert binary.start(second) == address
    assert connect(dial(address)).shim_pid == int((second / "shim.pid").read_text()) != pid


def test_start_does_not_remove_a_regular_file(binary: Binary) -> None:
    bundle = binary.bundle()
    address = binary.start(bundle)
    shut_down(address)
    binary.expect_clean()
    path = Path(address.removeprefix("unix://"))
    path.write_text("precious")
    refused = binary.run(*binary.flags(), "start", cwd=bundle)
    assert refused.returncode == 1 and b"not a socket" in refused.stderr
    assert path.read_text() == "precious"


def test_pod_containers_share_the_daemon_of_the_sandbox(binary: Binary) -> None:
    sandbox = binary.pod_bundle("pod", SANDBOX)
    address = binary.start(sandbox, "pod")
    member = binary.pod_bundle("c1", MEMBER)
    assert binary.start(member, "c1") == address
    assert (member / "address").read_text() == address
    assert (member / "shim.pid").read_text() == (sandbox / "shim.pid").read_text()
    assert len(binary.daemons()) == 1
    # delete of the member must leave the pod alone.
    binary.delete(member, "c1")
    assert connect(dial(address), "pod").shim_pid == int((sandbox / "shim.pid").read_text())


def test_start_in_dead_pod_fails(binary: Binary) -> None:
    sandbox = binary.pod_bundle("pod", SANDBOX)
    binary.start(sandbox, "pod")
    os.kill(int((sandbox / "shim.pid").read_text()), signal.SIGKILL)
    member = binary.pod_bundle("c1", MEMBER)
    eventually(lambda: not binary.daemons(), "the daemon's end")
    refused = binary.run(*binary.flags(), "start", cwd=member)
    assert refused.returncode == 1
    assert b"the shim of sandbox 'pod' is gone" in refused.stderr and refused.stdout == b""
    assert [path.name for path in member.iterdir()] == ["config.json"]
    assert not binary.daemons()


def test_options_as_any_and_bootstrap_params(binary: Binary) -> None:
    packed = Any(type_url="containerd.runhcs.v1.Options", value=Options(log_level="debug").encode())
    address = binary.start(binary.bundle("b1"), stdin=packed.encode())
    shut_down(address)
    binary.expect_clean()
    other = binary.directory / "s2"
    params = BootstrapParams(instance_id="c1", namespace=NAMESPACE, socket_dir=str(other))
    address = binary.start(binary.bundle("b2"), stdin=params.encode())
    assert address.startswith(f"unix://{other}/")
    shut_down(address)
    eventually(lambda: not list(other.iterdir()), "the socket's removal")


def test_log_is_written_to_the_fifo(binary: Binary) -> None:
    bundle = binary.bundle()
    os.mkfifo(bundle / "log")
    reader = os.open(bundle / "log", os.O_RDWR | os.O_NONBLOCK)
    address = binary.start(bundle)
    connect(dial(address))

    def line() -> bytes:
        try:
            return os.read(reader, 1 << 16)
        except BlockingIOError:
            return b""

    text = eventually(line, "a line in the log").decode()
    assert text.startswith('time="') and 'level=info msg="starting containerd-shim-runhcs-v1"' in text
    os.close(reader)


def test_serve_command_runs_in_foreground(binary: Binary) -> None:
    """For systems without fork: it closes stdout when it listens, and runs until shutdown."""
    bundle = binary.bundle()
    binary.sockets.mkdir(mode=0o700)
    address = f"unix://{binary.sockets}/x"
    process = subprocess.Popen(
        [binary.launcher, *binary.flags(), "serve", "--socket", address, "--is-sandbox"],
        cwd=bundle, env=binary.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None and process.stderr is not None
    assert process.stdout.read() == b""
    assert connect(dial(address)).shim_pid == process.pid
    shut_down(address)
    assert process.wait(30) == 0
    assert process.stderr.read() == b""
    process.stdout.close()
    process.stderr.close()
    assert not list(binary.sockets.iterdir())


def test_concurrent_starts(binary: Binary) -> None:
    """Ten ids at the same time: ten daemons, and one socket directory."""
    processes = []
    for number in range(10):
        bundle = binary.bundle(f"b{number}")
        process = subprocess.Popen(
            [binary.launcher, *binary.flags(f"c{number}"), "start"], cwd=bundle, env=binary.env,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        processes.append(process)
    addresses = []
    for process in processes:
        out, err = process.communicate(timeout=60)
        assert (process.returncode, err) == (0, b"")
        addresses.append(out.decode())
    assert len(set(addresses)) == 10
    pids = {connect(dial(address), f"c{number}").shim_pid for number, address in enumerate(addresses)}
    assert len(pids) == 10
    for number, address in enumerate(addresses):
        shut_down(address, f"c{number}")
    binary.expect_clean()


def test_connection_before_daemon_is_ready_is_served(binary: Binary) -> None:
    """The endpoint listens when `start` prints the address: a connection at that time is never refused."""
    address = binary.start(binary.bundle())
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(address.removeprefix("unix://"))

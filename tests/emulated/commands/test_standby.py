"""The standby: a start with a spare equals a cold one, and if the standby fails, the start is cold."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runhcs.install.linux import write_launcher
from runhcs.installation import ROOT
from shim.api.runhcs_options import Options
from shim.api.wellknown import Any as Packed
from tests.support.emulator import is_alive
from tests.support.eventually import eventually
from tests.support.shim_commands import MEMBER, SANDBOX, Binary, connect, dial, shut_down, standbys


class WithStandby(Binary):
    def __init__(self) -> None:
        super().__init__()
        self.env["RUNHCS_STANDBY"] = "1"

    def standby_sockets(self) -> list[Path]:
        return list(self.sockets.glob("standby-*"))

    def standbys(self) -> set[int]:
        return standbys(self.daemons())

    def standby(self) -> int:
        """The pid of the listening process."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as probe:
            probe.connect(str(self.standby_sockets()[0]))
            credentials = probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        pid: int = struct.unpack("3i", credentials)[0]
        return pid

    def spare(self) -> int:
        """The pid of the waiting spare, if there is one."""
        try:
            listening = self.standby()
        except (OSError, IndexError):
            return 0  # not yet, or no more
        return next(iter(sorted(self.standbys() - {listening})), 0)

    def warm(self) -> int:
        """Wait for a standby; returns the pid of its spare."""
        if not self.standby_sockets():
            address = self.start(self.bundle("first"), "first")
            shut_down(address, "first")
        pid: int = eventually(self.spare, "a spare")
        return pid

    def start_pid(self, name: str, id: str = "") -> int:
        """Start; returns the pid of the daemon, which responds."""
        bundle = self.bundle(name)
        address = self.start(bundle, id or name)
        pid = int((bundle / "shim.pid").read_text())
        assert connect(dial(address), id or name).shim_pid == pid
        return pid

    def close(self) -> None:
        for pid in self.standbys():
            os.kill(pid, signal.SIGCONT)
        super().close()


@pytest.fixture
def binary() -> Iterator[WithStandby]:
    binary = WithStandby()
    yield binary
    binary.close()


def world(pid: int) -> dict[str, Any]:
    """The properties of a process, apart from its memory."""
    proc = Path(f"/proc/{pid}")
    status = dict(line.split(":\t", 1) for line in (proc / "status").read_text().splitlines() if ":\t" in line)
    names = ("Name", "Umask", "PPid", "Uid", "Gid", "Groups", "SigBlk", "SigIgn", "SigCgt", "CapInh", "CapPrm",
             "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp", "Cpus_allowed", "Threads")  # fmt: skip
    texts = ("limits", "cgroup", "oom_score_adj", "comm")
    links = ("cwd", "root", "exe", *(f"ns/{name}" for name in os.listdir(proc / "ns")))
    kinds = sorted(os.readlink(proc / "fd" / fd).split(":")[0] for fd in os.listdir(proc / "fd"))
    return {
        **{name: status.get(name) for name in names},
        **{name: (proc / name).read_text() for name in texts},
        **{name: os.readlink(proc / name) for name in links},
        "fd": [kind.rpartition("/")[2] for kind in kinds],
        "leader": os.getsid(pid) == pid == os.getpgid(pid),
        "nice": os.getpriority(os.PRIO_PROCESS, pid),
    }


def test_standby_is_off_by_default(binary: WithStandby) -> None:
    binary.env["RUNHCS_STANDBY"] = "0"
    binary.start_pid("c1")
    assert not binary.standby_sockets() and len(binary.daemons()) == 1
    on = write_launcher(binary.directory / "bin", standby=True)
    del binary.env["RUNHCS_STANDBY"]
    assert on == binary.launcher
    binary.start_pid("c2")
    eventually(binary.standby_sockets, "a standby, as installed")


def test_daemon_of_spare_equals_cold_daemon(binary: WithStandby) -> None:
    binary.env["RUNHCS_STANDBY"] = "0"
    cold = binary.start_pid("c1")
    binary.env["RUNHCS_STANDBY"] = "1"
    spare = binary.warm()
    assert binary.start_pid("c2") == spare
    # The warm-up thread of either ends by itself.
    eventually(lambda: world(cold) == world(spare), f"two like daemons: {world(cold)} {world(spare)}")
    before, after = (Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").split(b"\0") for pid in (cold, spare))
    assert [word.replace(b"c1", b"c2") for word in before] == after
    assert b"runhcs_daemon=00%s" % os.fsencode(binary.directory / "bundles/c2") in after


def test_spare_takes_over_options(binary: WithStandby) -> None:
    spare = binary.warm()
    options = Packed(type_url="containerd.runhcs.v1.Options", value=Options(log_level="debug").encode())
    bundle = binary.bundle("b1")
    os.mkfifo(bundle / "log")
    log = os.open(bundle / "log", os.O_RDWR | os.O_NONBLOCK)
    address = binary.start(bundle, "c1", options.encode())
    assert connect(dial(address)).shim_pid == spare
    shut_down(address)
    eventually(lambda: not is_alive(spare), "its end")
    assert b"level=debug" in os.read(log, 1 << 16)
    os.close(log)


TAKE = """
import ctypes, os, socket, sys
from shim.platform.linux.standby import PROTOCOL, Handover

class Title:
    def set(self, words):
        print(words[:2])

link, listener, log = socket.socketpair()[0], socket.socket(socket.AF_UNIX), os.open(sys.argv[1], os.O_WRONLY)
texts = [PROTOCOL, b"1", b"/b", b"1", b"start", b"NEW=1", b"KEPT=same", b"CHANGED=after", b"no variable"]
handover = Handover(link, b"".join(text + b"\\0" for text in texts), [listener.detach(), log])
handover.apply(Title())
getenv = ctypes.CDLL(None).getenv
getenv.restype = ctypes.c_char_p
print(dict(os.environ), [getenv(name) for name in (b"NEW", b"KEPT", b"CHANGED", b"GONE")])
print(handover.is_sandbox, handover.bundle, handover.arguments, handover.options, file=sys.stderr, flush=True)
"""


def test_spare_takes_over_environment(tmp_path: Path) -> None:
    """For Python and for native code; stderr goes to the panic log."""
    log = tmp_path / "panic.log"
    log.touch()
    before = {"KEPT": "same", "CHANGED": "before", "GONE": "1", "PYTHONPATH": str(ROOT), "LC_CTYPE": "C.UTF-8"}
    done = subprocess.run(
        [sys.executable, "-c", TAKE, log], env=before, capture_output=True, text=True, timeout=60, check=True
    )
    after = {"KEPT": "same", "CHANGED": "after", "NEW": "1"}
    assert done.stdout.splitlines() == ["['-X', 'runhcs_daemon=10/b']", f"{after} [b'1', b'same', b'after', None]"]
    assert (done.stderr, log.read_text()) == ("", "True /b ['start'] -1\n")


def test_pod_options_and_delete_work_with_standby(binary: WithStandby) -> None:
    binary.warm()
    sandbox = binary.pod_bundle("pod", SANDBOX)
    address = binary.start(sandbox, "pod")
    member = binary.pod_bundle("c1", MEMBER)
    assert binary.start(member, "c1") == address
    (sandbox / "panic.log").write_text("last words\n")
    answers = []
    for switch in "10":
        binary.env["RUNHCS_STANDBY"] = switch
        answer, said = binary.delete(sandbox, "pod")
        answers.append((answer.exit_status, answer.pid, said))
    assert answers[0] == answers[1] == (255, 0, b"last words\n")


def test_unsupported_start_is_cold(binary: WithStandby) -> None:
    spare = binary.warm()
    empty = binary.bundle("empty", config=None)
    refused = binary.run(*binary.flags("c1"), "start", cwd=empty)
    assert refused.returncode == 1 and f"{empty} has no config.json".encode() in refused.stderr
    assert refused.stdout == b""
    # There is no standby in another directory.
    other = binary.directory / "s2"
    result = binary.run(*binary.flags("c1"), "start", cwd=binary.bundle("b1"), RUNHCS_SOCKET_DIR=str(other))
    assert result.stdout.startswith(f"unix://{other}/".encode())
    shut_down(result.stdout.decode())
    assert is_alive(spare)


def test_daemon_of_spare_exits_with_killed_start(binary: WithStandby) -> None:
    spare = binary.warm()
    bundle = binary.bundle()
    with binary.starting(bundle) as process:
        assert int((bundle / "shim.pid").read_text()) == spare
        process.kill()
        process.wait()
        eventually(lambda: not is_alive(spare), "the end of a daemon that was never handed over")
    assert binary.start_pid("again", "c1")


def test_dead_standby_is_replaced(binary: WithStandby) -> None:
    """Its stale socket exists: the start is cold and starts another standby."""
    binary.warm()
    old = binary.standbys()
    os.kill(binary.standby(), signal.SIGKILL)
    eventually(lambda: not binary.standbys(), "their end")
    assert binary.standby_sockets()
    assert binary.start_pid("c1") not in old
    eventually(binary.spare, "a new spare")


def test_spare_exits_with_its_standby(binary: WithStandby) -> None:
    spare = binary.warm()
    os.kill(binary.standby(), signal.SIGKILL)
    eventually(lambda: not is_alive(spare), "the spare's end")


@pytest.mark.parametrize("whole", [True, False], ids=["standby and spare", "spare"])
def test_hanging_standby_does_not_block_start(binary: WithStandby, whole: bool) -> None:
    """It has not responded when the launcher times out, and must not start a daemon after that."""
    spare = binary.warm()
    old = binary.standbys()
    for pid in old if whole else {spare}:
        os.kill(pid, signal.SIGSTOP)
    os.utime(binary.standby_sockets()[0], (0, 0))  # it has not been touched for long
    daemon = binary.start_pid("c1")
    assert daemon not in old
    for pid in old:
        os.kill(pid, signal.SIGCONT)
    eventually(lambda: not is_alive(spare), "the end of a spare that came too late")
    eventually(binary.spare, "another spare", 60)
    assert is_alive(daemon)
    others = set(binary.daemons()) - binary.standbys()
    assert others == {daemon}


def test_standby_of_other_version_is_not_used(binary: WithStandby) -> None:
    """A file of the shim is edited in place: the next start runs the new one."""
    root = binary.directory / "tree"
    shutil.copytree(ROOT / "shim", root / "shim", ignore=shutil.ignore_patterns("__pycache__"))
    write_launcher(binary.directory / "bin", root=root)
    binary.env["HCS_LIBRARY_PATH"] = str(ROOT / "hcs_emulator/native/build")
    spare = binary.warm()
    old = binary.standbys()
    page = root / "shim" / "commands" / "start.py"
    text = page.read_text()
    assert "has no config.json" in text
    with open(page, "r+") as file:
        file.write(text.replace("has no config.json", "HAS NO config.json"))
    refused = binary.run(*binary.flags("c1"), "start", cwd=binary.bundle("b", config=None))
    assert b"HAS NO config.json" in refused.stderr
    eventually(lambda: not is_alive(spare) and not old & binary.standbys(), "the end of the old standby")
    binary.start_pid("c2")
    eventually(lambda: binary.spare() not in (0, spare), "a standby of the new version")


def test_standby_of_old_installation_is_not_used(binary: WithStandby) -> None:
    spare = binary.warm()
    write_launcher(binary.directory / "bin")
    assert binary.start_pid("c1") != spare


def test_launcher_with_other_limits_starts_cold(binary: WithStandby) -> None:
    spare = binary.warm()
    bundle = binary.bundle("b1")
    soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    assert (soft, hard) != (4096, 8192)

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_CORE, (4096, 8192))

    done = subprocess.run(
        [binary.launcher, *binary.flags(), "start"], cwd=bundle, env=binary.env, stdin=subprocess.DEVNULL,
        capture_output=True, timeout=60, check=True, preexec_fn=limit,
    )  # fmt: skip
    daemon = connect(dial(done.stdout.decode())).shim_pid
    assert daemon != spare and resource.prlimit(daemon, resource.RLIMIT_CORE) == (4096, 8192)
    # One standby per directory.
    assert is_alive(spare) and len(binary.standby_sockets()) == 1


def test_concurrent_starts_with_standby(binary: WithStandby) -> None:
    binary.warm()
    processes = []
    for number in range(12):
        bundle = binary.bundle(f"b{number}")
        process = subprocess.Popen(
            [binary.launcher, *binary.flags(f"c{number}"), "start"], cwd=bundle, env=binary.env,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        processes.append(process)
    pids = set()
    for number, process in enumerate(processes):
        out, err = process.communicate(timeout=60)
        log = binary.directory / "bundles" / f"b{number}" / "panic.log"
        assert (process.returncode, err) == (0, b""), log.read_text() if log.exists() else "no log"
        pids.add(connect(dial(out.decode()), f"c{number}").shim_pid)
        shut_down(out.decode(), f"c{number}")
    assert len(pids) == 12
    eventually(lambda: not pids & set(binary.daemons()), "the end of all daemons")


def test_idle_standby_exits(binary: WithStandby) -> None:
    binary.env["RUNHCS_STANDBY_IDLE"] = "0.5"
    address = binary.start(binary.bundle("first"), "first")
    eventually(binary.standby_sockets, "a standby")
    shut_down(address, "first")
    binary.expect_clean()


def test_standby_exits_when_its_socket_is_removed(binary: WithStandby) -> None:
    binary.warm()
    old = binary.standbys()
    claimed = binary.start_pid("c1")
    assert claimed in old
    eventually(binary.spare, "the next spare")
    binary.standby_sockets()[0].unlink()
    binary.start_pid("c2")
    eventually(lambda: len(binary.standby_sockets()) == 1 and binary.spare(), "a new standby")


def test_script_launcher_starts_cold(binary: WithStandby) -> None:
    """For an installation without a C compiler."""
    write_launcher(binary.directory / "bin", native=False)
    assert binary.launcher.read_bytes().startswith(b"#!")
    binary.start_pid("c1")
    assert not binary.standby_sockets()

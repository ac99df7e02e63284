"""The binary as containerd runs it, for tests of its commands. No emulator runs, because they create no container.

`Binary` creates bundles, runs commands, and finds what they leak: processes, by the directory of the test in their
environment, sockets and files.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from runhcs.install.linux import write_launcher
from runhcs.installation import NAME, library
from runhcs.task_client import TASK_V2
from shim.api import task as api
from shim.ttrpc.client import Client
from tests.support.eventually import eventually

NAMESPACE = "tests"
SANDBOX = {"io.kubernetes.cri.container-type": "sandbox", "io.kubernetes.cri.sandbox-id": "pod"}
MEMBER = {"io.kubernetes.cri.container-type": "container", "io.kubernetes.cri.sandbox-id": "pod"}


class Binary:
    def __init__(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="rhc-", dir="/tmp"))
        (self.directory / "bin").mkdir()
        self.launcher = write_launcher(self.directory / "bin")
        #: The program that the launcher runs in Python.
        self.program = library(self.directory / "bin") / f"{NAME}.pyc"
        self.sockets = self.directory / "s"
        self.env = os.environ | {
            "RUNHCS_SOCKET_DIR": str(self.sockets),
            "HCS_EMULATOR_DIR": str(self.directory / "hcs"),
            "TTRPC_ADDRESS": str(self.directory / "t.sock"),
            "RUNHCS_STANDBY": "0",
        }

    def bundle(self, name: str = "b", config: str | None = "{}") -> Path:
        bundle = self.directory / "bundles" / name
        bundle.mkdir(parents=True)
        if config is not None:
            (bundle / "config.json").write_text(config)
        return bundle

    def pod_bundle(self, name: str, annotations: dict[str, str]) -> Path:
        return self.bundle(name, config=json.dumps({"ociVersion": "1.0.2", "annotations": annotations}))

    def flags(self, id: str = "c1") -> list[str]:
        return ["-namespace", NAMESPACE, "-address", "/run/none.sock", "-publish-binary", "/bin/false", "-id", id]

    def run(self, *arguments: str, cwd: Path, stdin: bytes = b"", **env: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [self.launcher, *arguments], cwd=cwd, env=self.env | env, input=stdin, capture_output=True, timeout=60,
            check=False,
        )  # fmt: skip

    def start(self, bundle: Path, id: str = "c1", stdin: bytes = b"") -> str:
        """Run `start`, which must succeed, and return the address that it prints."""
        result = self.run(*self.flags(id), "start", cwd=bundle, stdin=stdin)
        assert result.returncode == 0, result.stderr
        assert result.stderr == b""
        return result.stdout.decode()

    @contextmanager
    def starting(self, bundle: Path) -> Iterator[subprocess.Popen[bytes]]:
        """A `start` that has started its daemon and blocks: its output is a full pipe without a reader."""
        reading, writing = os.pipe()
        os.set_blocking(writing, False)
        try:
            while True:
                os.write(writing, bytes(65536))
        except BlockingIOError:
            os.set_blocking(writing, True)
        with subprocess.Popen(
            [self.launcher, *self.flags(), "start"], cwd=bundle, env=self.env, stdin=subprocess.DEVNULL, stdout=writing
        ) as process:
            os.close(writing)
            eventually(lambda: (bundle / "shim.pid").exists(), "a daemon")
            yield process
        os.close(reading)

    def delete(self, bundle: Path, id: str = "c1") -> tuple[api.DeleteResponse, bytes]:
        """Run `delete`, which must succeed, and return its response and stderr. As on Windows, not in the bundle."""
        result = self.run(*self.flags(id), "-bundle", str(bundle), "delete", cwd=self.directory)
        assert result.returncode == 0, result.stderr
        return api.DeleteResponse.decode(result.stdout), result.stderr

    def daemons(self) -> list[int]:
        """All processes with the environment of this test."""
        return started_under(self.directory)

    def leaked(self) -> list[str]:
        """Processes and sockets that the commands leaked."""
        sockets = [str(path) for path in self.sockets.glob("*")] if self.sockets.exists() else []
        return [f"process {pid}" for pid in self.daemons()] + sockets

    def expect_clean(self) -> None:
        eventually(lambda: not self.leaked(), f"no leaked resource, there is {self.leaked()}")

    def close(self) -> None:
        for pid in self.daemons():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        shutil.rmtree(self.directory, ignore_errors=True)


def started_under(directory: Path) -> list[int]:
    """All processes whose RUNHCS_SOCKET_DIR is in this directory."""
    return with_environment(f"RUNHCS_SOCKET_DIR={directory}/")


def with_environment(text: str) -> list[int]:
    """All processes that have this text in their environment."""
    marker = text.encode()
    found = []
    for entry in os.listdir("/proc"):
        try:
            if entry.isdigit() and marker in Path(f"/proc/{entry}/environ").read_bytes():
                found.append(int(entry))
        except OSError:
            continue
    return found


def dial(address: str) -> Client:
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(address.removeprefix("unix://"))
    return Client(connection)


def ask(client: Client, method: str, request: Any) -> bytes:
    return client.call(TASK_V2, method, request.encode(), timeout=30)


def connect(client: Client, id: str = "c1") -> api.ConnectResponse:
    return api.ConnectResponse.decode(ask(client, "Connect", api.ConnectRequest(id=id)))


def shut_down(address: str, id: str = "c1", now: bool = False) -> None:
    client = dial(address)
    ask(client, "Shutdown", api.ShutdownRequest(id=id, now=now))
    client.close()


def was_started_natively(pid: int) -> bool:
    """Whether the launcher started this daemon itself, without Python's `start`."""
    return b"\0-X\0runhcs_daemon=" in Path(f"/proc/{pid}/cmdline").read_bytes()


def standbys(pids: Iterable[int]) -> set[int]:
    """The processes that are standbys or spares, by their command line, without a spare that is being forked and the
    process between it and its standby: their parent is another of these processes."""
    found = {}
    for pid in pids:
        try:
            if b"\0standby\0" in Path(f"/proc/{pid}/cmdline").read_bytes():
                found[pid] = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    return {pid for pid, parent in found.items() if parent not in found}

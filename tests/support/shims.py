"""Shims as containerd runs them, for tests: the installed launcher, a bundle, an events endpoint, and a log FIFO if a
test asks for it.

A `Shims` acts as containerd: `start` creates a bundle, runs the launcher's `start` in it as containerd does, and
returns a `Shim` that is connected to the printed address. The events of the shims are collected in order. `close`
kills every daemon and fails if resources are leaked.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from runhcs.install.linux import write_launcher
from runhcs.task_client import TASK_V2, TaskClient
from runhcs.task_events import KINDS, SERVICE, TASKS, exec_of
from shim.api import task as api
from shim.api.events_ttrpc import ForwardRequest
from shim.api.types import Mount
from shim.api.wellknown import Any as PackedAny
from shim.ttrpc.client import Client
from shim.ttrpc.server import Call, Method, Server
from shim.ttrpc.status import StatusError
from tests.support.emulator import is_alive
from tests.support.eventually import eventually
from tests.support.image import make_image
from tests.support.log_fifo import LogFifo
from tests.support.shim_commands import standbys, started_under

NAMESPACE = "tests"


class Events:
    """containerd's events endpoint, which shims forward their events to. It can be stopped and started again."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.messages: list[tuple[str, Any]] = []
        #: The request of each message. One that is sent again, since the endpoint stopped before it answered, is equal.
        self.requests: list[bytes] = []
        self._server: Server | None = None
        self.start()

    def start(self) -> None:
        listener = socket.socket(socket.AF_UNIX)
        self.path.unlink(missing_ok=True)
        listener.bind(str(self.path))
        listener.listen(64)
        self._server = Server({SERVICE: {"Forward": Method.inline(self._forward)}})
        threading.Thread(target=self._server.serve, args=(listener,), daemon=True).start()

    def stop(self) -> None:
        if self._server is not None:
            self._server.shutdown(5)
            self._server = None
        self.path.unlink(missing_ok=True)

    def _forward(self, call: Call) -> bytes:
        envelope = ForwardRequest.decode(call.payload).envelope
        assert envelope is not None and envelope.event is not None and envelope.timestamp is not None
        assert envelope.namespace == NAMESPACE
        kind = KINDS[envelope.topic.removeprefix(TASKS)]
        assert envelope.event.type_url == kind.FULL_NAME
        self.requests.append(bytes(call.payload))
        self.messages.append((envelope.topic, kind.decode(envelope.event.value)))
        return b""

    def received(self, id: str | None = None) -> list[str]:
        """`create c1`, `start c1`, `exec-added e1`, `exit e1` …: of one container, or of all."""
        out = []
        for topic, event in list(self.messages):
            if id is not None and event.container_id != id:
                continue
            out.append(f"{topic.removeprefix(TASKS)} {exec_of(event) or event.container_id}")
        return out

    def expect(self, expected: list[str], id: str | None = None) -> None:
        """Wait for as many events as expected; they must be exactly these, in this order."""
        eventually(lambda: len(self.received(id)) >= len(expected), f"events {expected}, got {self.received(id)}")
        assert self.received(id) == expected

    def last(self, topic: str, id: str) -> Any:
        """The last event of a topic about this id (of a container, or of an exec)."""
        found = [
            event
            for name, event in list(self.messages)
            if name == f"{TASKS}{topic}" and id in (event.container_id, getattr(event, "id", ""))
        ]
        assert found, f"no {topic} of {id} in {self.received()}"
        return found[-1]


class Shim(TaskClient):
    """One started shim, or the pod's shim as found by a workload's `start`."""

    def __init__(self, owner: Shims, id: str, bundle: Path, address: str, service: str = TASK_V2) -> None:
        self.owner = owner
        self.path = bundle
        self.address = address
        self.pid = int((bundle / "shim.pid").read_text())
        self._log: LogFifo | None = None
        super().__init__(self.dial(), id, str(bundle), service)

    def dial(self) -> Client:
        """Open another connection, as containerd does."""
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(self.address.removeprefix("unix://"))
        client = Client(connection)
        self.owner.clients.append(client)
        return client

    @property
    def log(self) -> LogFifo:
        assert self._log is not None, "start it with_log"
        return self._log

    @log.setter
    def log(self, log: LogFifo) -> None:
        self._log = log

    @property
    def alive(self) -> bool:
        return is_alive(self.pid)

    def run(self, **fields: Any) -> int:
        self.create(**fields)
        return self.start()

    def kill_daemon(self) -> None:
        """Kill the daemon as a crash would."""
        os.kill(self.pid, signal.SIGKILL)
        eventually(lambda: not self.alive, "the exit of the daemon")

    def wait_exited(self) -> None:
        eventually(lambda: not self.alive, f"the exit of the daemon after Shutdown: {self.panic_log()}")

    def panic_log(self) -> str:
        path = self.path / "panic.log"
        return path.read_text() if path.exists() else ""

    def delete_command(self, timeout: float = 60.0) -> api.DeleteResponse:
        """The `delete` command, which containerd runs after every Delete and when a shim has died."""
        result = self.owner.command(self.id, "delete", self.path, bundle=self.path, timeout=timeout)
        assert result.returncode == 0, result.stderr
        return api.DeleteResponse.decode(result.stdout)


class Shims:
    def __init__(self, env: Mapping[str, str]) -> None:
        # The length of Unix socket paths is limited, so the directory is short.
        self.directory = Path(tempfile.mkdtemp(prefix="rhs-", dir="/tmp"))
        self.events = Events(self.directory / "ttrpc.sock")
        (self.directory / "bin").mkdir()
        self.launcher = write_launcher(self.directory / "bin")
        self.env = {
            **env,
            "TTRPC_ADDRESS": str(self.events.path),
            "RUNHCS_SOCKET_DIR": str(self.directory / "s"),
            "NAMESPACE": NAMESPACE,
            "GOMAXPROCS": "2",
            "MAX_SHIM_VERSION": "2",
        }
        self.image = self.directory / "image"
        self.shims: list[Shim] = []
        self.clients: list[Client] = []
        self.logs: list[LogFifo] = []

    def command(
        self, id: str, action: str, cwd: Path, *, bundle: Path | None = None, stdin: bytes = b"", timeout: float = 60.0
    ) -> subprocess.CompletedProcess[bytes]:
        flags = ["-namespace", NAMESPACE, "-address", "/run/none.sock", "-publish-binary", "/bin/false", "-id", id]
        if bundle is not None:
            flags += ["-bundle", str(bundle)]
        arguments = [str(self.launcher), *flags, action]
        return subprocess.run(
            arguments, cwd=cwd, env=self.env, input=stdin, capture_output=True, timeout=timeout, check=False
        )

    def bundle(self, id: str, spec: dict[str, Any]) -> Path:
        bundle = self.directory / "bundles" / id
        (bundle / "rootfs").mkdir(parents=True)
        (bundle / "config.json").write_text(json.dumps(spec))
        return bundle

    def rootfs(self) -> list[Mount]:
        """A small root file system with a shell, as mounts of a snapshotter."""
        if not self.image.exists():
            make_image(self.image)
        return [Mount(type="bind", source=str(self.image), options=["bind", "rw"])]

    @staticmethod
    def process(*args: str) -> dict[str, Any]:
        return {"args": list(args), "cwd": "C:\\", "user": {"username": "ContainerAdministrator"}}

    @classmethod
    def spec(cls, *args: str) -> dict[str, Any]:
        """A spec as `ctr` on Windows creates it: the root file system comes with Create."""
        windows = {"layerFolders": None, "ignoreFlushesDuringBoot": True}
        return {"ociVersion": "1.1.0", "process": cls.process(*args), "root": {"path": ""}, "windows": windows}

    def start(
        self,
        id: str,
        spec: dict[str, Any],
        *,
        options: PackedAny | None = None,
        service: str = TASK_V2,
        with_log: bool = False,
    ) -> Shim:
        """`start` of a new container: a daemon of its own, or the one of its pod. `with_log` reads its log."""
        bundle = self.bundle(id, spec)
        log = LogFifo(bundle) if with_log else None
        if log is not None:
            self.logs.append(log)
        result = self.command(id, "start", bundle, stdin=options.encode() if options else b"")
        assert result.returncode == 0 and not result.stderr, result.stderr.decode()
        shim = Shim(self, id, bundle, result.stdout.decode(), service)
        if log is not None:
            shim.log = log
        self.shims.append(shim)
        return shim

    def close(self) -> None:
        """Kill every daemon as a crash would, run `delete` for it, then assert that nothing is leaked."""
        for client in self.clients:
            client.close()
        problems = []
        for shim in self.shims:
            if shim.alive:
                os.kill(shim.pid, signal.SIGKILL)
                eventually(lambda shim=shim: not shim.alive, "the exit of a killed daemon")  # type: ignore[misc]
            result = self.command(shim.id, "delete", shim.path, bundle=shim.path)
            if result.returncode or result.stderr:
                problems.append(f"delete of {shim.id} failed: {result.stderr.decode()}")
            if text := shim.panic_log():
                problems.append(f"panic.log of {shim.id}: {text}")
        self.events.stop()
        for log in self.logs:
            log.close()
        self._stop_standby()
        if sockets := list((self.directory / "s").glob("*")):
            problems.append(f"leaked sockets: {sockets}")
        if mounts := self.mounts():
            problems.append(f"leaked mounts: {mounts}")
            for point in reversed(mounts):
                subprocess.run(["umount", "-l", point], check=False)
        if not self.mounts():  # never delete through a mount
            shutil.rmtree(self.directory, ignore_errors=True)
        assert not problems, problems

    def _stop_standby(self) -> None:
        """With RUNHCS_STANDBY=1 a standby waits for more commands; it is not leaked."""

        def exited() -> bool:
            found = standbys(started_under(self.directory))
            for pid in found:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            return not found

        eventually(exited, "the exit of the standby")
        for path in (self.directory / "s").glob("standby-*"):
            path.unlink(missing_ok=True)

    def mounts(self) -> list[str]:
        points = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
        return [point for point in points if point.startswith(f"{self.directory}/")]


def refused(code: int, call: Callable[..., Any], *args: Any, **kwargs: Any) -> str:
    """Expect the call to fail with this status; returns the message."""
    with pytest.raises(StatusError) as caught:
        call(*args, **kwargs)
    assert caught.value.code == code, caught.value
    return caught.value.message

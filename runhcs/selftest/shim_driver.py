"""A shim, started and called as containerd does it, on Linux and on Windows.

containerd writes a bundle, runs `containerd-shim-runhcs-v1 … start` in it, reads the address of the daemon from its
stdout, and calls the task API over ttrpc. The daemon publishes events on containerd's ttrpc endpoint. At the end
containerd runs `… delete` and removes the bundle.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
import time
from pathlib import Path
from typing import Any, Protocol

from runhcs.selftest.node import PREFIX, Node
from runhcs.selftest.runner import Context, StepFailed
from runhcs.task_client import TaskClient
from runhcs.task_events import SERVICE, read
from shim.platform import daemon, endpoint, host
from shim.ttrpc.client import Client
from shim.ttrpc.server import Call, Method, Server
from shim.ttrpc.status import ClosedError

COMMAND_TIMEOUT = 60.0
EXIT_TIMEOUT = 30.0
EVENTS_TIMEOUT = 10.0
SIGKILL = 9


class Input(Protocol):
    """The writing end of stdin."""

    path: str

    def write(self, data: bytes) -> None: ...
    def close(self) -> None: ...


def _stdio() -> Any:
    """The module with the pipes of this system."""
    if host.IS_EMULATED:
        from runhcs.selftest import linux

        return linux
    from runhcs.selftest import windows

    return windows


def wait_until(condition: Any, timeout: float) -> bool:
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


class Output:
    """Collects stdout or stderr of a process."""

    def __init__(self, context: Context, directory: Path, name: str) -> None:
        self._pipe = _stdio().OutputPipe(directory, name)
        self.path: str = self._pipe.path
        self._data: list[bytes] = []
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()
        context.on_cleanup(self._close)

    def _read(self) -> None:
        while data := self._pipe.read(self._closed):
            self._data.append(data)

    def bytes(self, timeout: float = EXIT_TIMEOUT) -> bytes:
        """Everything, once the shim has closed its end. Raises StepFailed."""
        self._thread.join(timeout)
        if self._thread.is_alive():
            size = sum(map(len, self._data))
            raise StepFailed(f"the shim did not close {self.path} within {timeout:.0f} s after {size} bytes")
        return b"".join(self._data)

    def text(self) -> str:
        return self.bytes().decode("utf-8", "replace").replace("\r\n", "\n")

    def _close(self) -> None:
        self._closed.set()
        self._pipe.stop()
        self._thread.join(EXIT_TIMEOUT)
        self._pipe.close()


class Events:
    """containerd's ttrpc endpoint, which shims publish their events on."""

    def __init__(self, context: Context, directory: Path, id: str) -> None:
        if host.IS_EMULATED:
            directory.mkdir(mode=0o700, exist_ok=True)
        self.address = str(directory / f"{id}.sock") if host.IS_EMULATED else rf"\\.\pipe\{id}.ttrpc"
        self.kinds: list[str] = []
        listener = endpoint.listen(f"unix://{self.address}" if host.IS_EMULATED else self.address)
        server = Server({SERVICE: {"Forward": Method.inline(self._forward)}})
        threading.Thread(target=server.serve, args=(endpoint.Listener(listener),), daemon=True).start()
        context.on_cleanup(lambda: _stop(server, self.address))

    def _forward(self, call: Call) -> bytes:
        if found := read(call.payload):
            self.kinds.append(found[0])
        return b""

    def expect(self, count: int) -> list[str]:
        """The kinds of the events, once there are so many, or after a timeout."""
        wait_until(lambda: len(self.kinds) >= count, EVENTS_TIMEOUT)
        return list(self.kinds)


def _stop(server: Server, address: str) -> None:
    server.shutdown(2)
    if host.IS_EMULATED:
        Path(address).unlink(missing_ok=True)


class ShimDriver:
    """One container and its shim. Its cleanup kills the daemon, runs `delete`, and removes bundle and scratch."""

    def __init__(self, context: Context, id: str, spec: dict[str, Any], program: str = "") -> None:
        self.context = context
        self.node: Node = context.node
        self.id = id
        self.program = program or self.node.program
        self.bundle = self.node.directory / "bundles" / id
        self.bundle.mkdir(parents=True)
        (self.bundle / "config.json").write_text(json.dumps(spec), encoding="utf-8")
        self.address = ""
        self.task: TaskClient | None = None
        self._streams = 0
        self._pid = 0
        self._deleted = False
        context.on_cleanup(self._cleanup)
        self.events = Events(context, self.node.directory / "e", id)

    # The commands.

    def command(self, action: str) -> subprocess.CompletedProcess[bytes]:
        containerd = str(self.bundle / "c.sock") if host.IS_EMULATED else rf"\\.\pipe\{PREFIX}-none"
        flags = ["-namespace", PREFIX, "-address", containerd, "-publish-binary", "containerd", "-id", self.id]
        if action == "delete":
            flags += ["-bundle", str(self.bundle)]
        return subprocess.run(
            [self.program, *flags, action], cwd=self.bundle, stdin=subprocess.DEVNULL, capture_output=True,
            env=self.node.env | {"TTRPC_ADDRESS": self.events.address, "MAX_SHIM_VERSION": "2"},
            timeout=COMMAND_TIMEOUT, check=False,
        )  # fmt: skip

    def start(self) -> TaskClient:
        done = self.command("start")
        if done.returncode:
            text = (done.stderr + done.stdout).decode(errors="replace").strip()
            raise StepFailed(f"the shim's start failed: {text}", "see panic.log and the log of containerd")
        self.address = done.stdout.decode().strip()
        self.task = TaskClient(self.connect(), self.id, str(self.bundle))
        return self.task

    def connect(self) -> Client:
        stream = endpoint.connect(endpoint.path_of(self.address), EXIT_TIMEOUT)
        stream.settimeout(None)
        client = Client(stream)
        self.context.on_cleanup(client.close)
        return client

    # The container.

    def create(self, **fields: Any) -> TaskClient:
        """`start`, then Create with a scratch over the layers of the node."""
        task = self.start()
        task.create(rootfs=[self.node.layer_mount(self.id)], **fields)
        return task

    def output(self) -> Output:
        self._streams += 1
        return Output(self.context, self.bundle, f"{self.id}-out{self._streams}")

    def input(self) -> Input:
        self._streams += 1
        pipe: Input = _stdio().InputPipe(self.bundle, f"{self.id}-in{self._streams}")
        self.context.on_cleanup(pipe.close)
        return pipe

    # The end.

    @property
    def pid(self) -> int:
        if not self._pid:
            try:
                self._pid = int((self.bundle / "shim.pid").read_text())
            except (OSError, ValueError):
                return 0
        return self._pid

    def kill(self) -> None:
        """SIGKILL, or TerminateProcess on Windows."""
        if pid := self.pid:
            try:
                os.kill(pid, SIGKILL)
            except OSError:
                pass  # it has exited
            wait_until(lambda: not daemon.is_running(pid), EXIT_TIMEOUT)

    def shutdown(self) -> None:
        """Shutdown, the exit of the daemon, and `delete`. Raises StepFailed if something is left."""
        assert self.task is not None
        try:
            self.task.shutdown()
        except (ClosedError, OSError):
            pass  # Microsoft's shim exits before it answers
        if not wait_until(lambda: not daemon.is_running(self.pid), EXIT_TIMEOUT):
            raise StepFailed(f"the shim (pid {self.pid}) did not exit within {EXIT_TIMEOUT:.0f} s after Shutdown")
        self.delete()

    def delete(self) -> None:
        """The delete command, then the leak check."""
        done = self.command("delete")
        self._deleted = True
        if done.returncode:
            text = (done.stderr + done.stdout).decode(errors="replace").strip()
            raise StepFailed(f"the shim's delete failed: {text}", "`runhcs gc` lists what is left")
        if leaked := self.node.leaks(self.id):
            raise StepFailed(f"leaked after delete: {', '.join(leaked)}", "`runhcs gc --yes` releases it")

    def _cleanup(self) -> None:
        if self.pid and daemon.is_running(self.pid):
            self.kill()
        if not self._deleted:
            self.command("delete")
        shutil.rmtree(self.bundle, ignore_errors=True)
        shutil.rmtree(self.node.directory / "scratch" / self.id, ignore_errors=True)

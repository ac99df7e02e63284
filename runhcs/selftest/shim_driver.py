"""The shims of the selftest: one container each, its streams and events, and the cleanup of the step."""

from __future__ import annotations

import json
import secrets
import shutil
import subprocess
import threading
from pathlib import Path
from typing import Any, Protocol

from runhcs.selftest.node import PREFIX, Node
from runhcs.selftest.runner import Context, StepFailed
from runhcs.shim_driver import EXIT_TIMEOUT, EventEndpoint, ShimCommands, ShimError
from runhcs.task_client import TaskClient
from shim.platform import host
from shim.ttrpc.client import Client
from shim.ttrpc.status import ClosedError

EVENTS_TIMEOUT = 10.0


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


class Events(EventEndpoint):
    """The events of one shim."""

    def __init__(self, context: Context, directory: Path, id: str) -> None:
        if host.IS_EMULATED:
            directory.mkdir(mode=0o700, exist_ok=True)
        # A name of its own: the pipe of an earlier shim of this id exists until that has closed its end.
        # Short: the path of a socket has at most 107 bytes.
        name = secrets.token_hex(4)
        super().__init__(str(directory / name) if host.IS_EMULATED else rf"\\.\pipe\{id}-{name}.ttrpc")
        context.on_cleanup(self.close)

    def expect(self, count: int, timeout: float = EVENTS_TIMEOUT) -> list[str]:
        return super().expect(count, timeout)


class ShimDriver:
    """One container and its shim. Its cleanup kills the daemon, runs `delete`, and removes bundle and scratch."""

    def __init__(self, context: Context, id: str, spec: dict[str, Any], program: str = "") -> None:
        self.context = context
        self.node: Node = context.node
        self.id = id
        self.bundle = self.node.directory / "bundles" / id
        self.bundle.mkdir(parents=True)
        (self.bundle / "config.json").write_text(json.dumps(spec), encoding="utf-8")
        self.task: TaskClient | None = None
        self._streams = 0
        self._deleted = False
        context.on_cleanup(self._remove_files)
        self.events = Events(context, self.node.directory / "e", id)
        containerd = str(self.bundle / "c.sock") if host.IS_EMULATED else rf"\\.\pipe\{PREFIX}-none"
        self._commands = ShimCommands(
            program or self.node.program, id, str(self.bundle), namespace=PREFIX, address=containerd,
            environment=self.node.env | {"TTRPC_ADDRESS": self.events.address, "MAX_SHIM_VERSION": "2"},
        )  # fmt: skip
        context.on_cleanup(self._kill_and_delete)

    # The commands.

    @property
    def address(self) -> str:
        return self._commands.address

    def command(self, action: str) -> subprocess.CompletedProcess[bytes]:
        return self._commands.command(action)

    def start(self) -> TaskClient:
        try:
            self.task = self._commands.start()
        except ShimError as error:
            raise StepFailed(f"the shim's start failed: {error}", "see panic.log and the log of containerd") from None
        self.context.on_cleanup(self.task.client.close)
        return self.task

    def connect(self) -> Client:
        client = self._commands.connect()
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

    @property
    def client(self) -> TaskClient:
        """The client of the started shim."""
        assert self.task is not None
        return self.task

    # The end.

    @property
    def pid(self) -> int:
        return self._commands.pid

    def kill(self) -> None:
        """SIGKILL, or TerminateProcess on Windows."""
        self._commands.kill()

    def shutdown(self) -> None:
        """Shutdown, the exit of the daemon, and `delete`. Raises StepFailed if something is left."""
        try:
            self.client.shutdown()
        except (ClosedError, OSError):
            pass  # Microsoft's shim exits before it answers
        if not self._commands.wait_exited():
            raise StepFailed(f"the shim (pid {self.pid}) did not exit within {EXIT_TIMEOUT:.0f} s after Shutdown")
        self.delete()

    def delete(self) -> None:
        """The delete command, then the leak check."""
        self._deleted = True
        try:
            self._commands.delete()
        except ShimError as error:
            raise StepFailed(f"the shim's delete failed: {error}", "`runhcs gc` lists what is left") from None
        if leaked := self.node.leaks(self.id):
            raise StepFailed(f"leaked after delete: {', '.join(leaked)}", "`runhcs gc --yes` releases it")

    def _kill_and_delete(self) -> None:
        if self._commands.is_running:
            self.kill()
        if not self._deleted:
            self.command("delete")

    def _remove_files(self) -> None:
        shutil.rmtree(self.bundle, ignore_errors=True)
        shutil.rmtree(self.node.directory / "scratch" / self.id, ignore_errors=True)

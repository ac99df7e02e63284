"""The shims of the demo, started and called as containerd does it (`runhcs.shim_driver`); each step is recorded.

The daemon sends events to the demo's ttrpc endpoint and its log to a FIFO in the bundle.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
from pathlib import Path
from typing import Any, TypeVar

from runhcs.demo import DemoError
from runhcs.demo.containerd_stub import OutputFifo, status_text
from runhcs.demo.leak_checks import descendants, kill_processes
from runhcs.demo.output import CALL, OUTPUT, Record
from runhcs.demo.workspace import NAMESPACE, Workspace
from runhcs.shim_driver import ShimCommands
from shim.api import task as api
from shim.api.types import Mount
from shim.api.wellknown import Any as PackedAny
from shim.api.wellknown import Empty
from shim.api.wire import Message
from shim.ttrpc.client import Client
from shim.ttrpc.status import ClosedError, StatusError

TASK = "containerd.task.v2.Task"
PROCESS_TYPE = "types.containerd.io/opencontainers/runtime-spec/1/Process"
COMMAND_TIMEOUT = 20.0
CALL_TIMEOUT = 20.0
EXIT_TIMEOUT = 10.0
STATES = ("unknown", "created", "running", "stopped", "paused", "pausing")

Answer = TypeVar("Answer", bound=Message)


class Shim:
    """The shim of one container, and the container."""

    def __init__(
        self, workspace: Workspace, record: Record, id: str, spec: dict[str, Any], options: PackedAny | None = None,
        *, pod: Shim | None = None,
    ) -> None:  # fmt: skip
        """A member of a `pod` is served by the shim of its pod."""
        self.workspace = workspace
        self.record = record
        self.id = id
        self.options = options
        self.pod = pod
        self._closed = False
        self.first_byte: float | None = None
        self.outputs: list[OutputFifo] = []
        self._client: Client | None = None
        self.bundle = workspace.directory / "bundles" / id
        self.bundle.mkdir(parents=True)
        (self.bundle / "config.json").write_text(json.dumps(spec, indent=2))
        endpoints = workspace.directory
        self._commands = ShimCommands(
            str(workspace.launcher), id, str(self.bundle), namespace=NAMESPACE, address=str(endpoints / "c.sock"),
            environment=workspace.env | {
                "TTRPC_ADDRESS": str(endpoints / "t.sock"), "NAMESPACE": NAMESPACE, "MAX_SHIM_VERSION": "2",
                "GOMAXPROCS": "2",
            },
            publish_binary=shutil.which("containerd") or "containerd", timeout=COMMAND_TIMEOUT,
        )  # fmt: skip
        self._log: list[str] = []
        self._log_reader = OutputFifo(self.bundle / "log", self._log.append)

    def _add(self, kind: str, name: str, text: str, **data: Any) -> None:
        self.record.add(kind, name, text, about=self.id, **data)

    @property
    def pid(self) -> int:
        """The daemon's; 0 before its start."""
        return self._commands.pid

    # The commands `start` and `delete`.

    def launch(self) -> None:
        began = self.record.now()
        address = self._commands.address = self._command("start").decode()
        self.record.add_phase("shim start", began)
        where = f"daemon {self.pid} listens on …/{Path(address).name[:12]}…" if self.pod is None else "the pod's daemon"
        self._add(CALL, "shim start", where)
        began = self.record.now()
        self._client = self._commands.connect()
        connected = self.call("Connect", api.ConnectRequest(id=self.id), api.ConnectResponse)
        self.record.add_phase("connect", began)
        if self.pod is None:
            self._add(CALL, "Connect", f"shim {connected.shim_pid}, no task yet")

    def _command(self, action: str) -> bytes:
        options = self.options.encode() if self.options is not None and action == "start" else b""
        done = self._commands.command(action, options)
        if done.returncode or done.stderr:
            raise DemoError(f"the shim's {action} failed: {done.stderr.decode(errors='replace').strip()}")
        return done.stdout

    # The task API.

    def call(self, method: str, request: Message, answer: type[Answer], timeout: float = CALL_TIMEOUT) -> Answer:
        if self._client is None:
            raise DemoError(f"{method} of {self.id} before its shim was started")
        try:
            return answer.decode(self._client.call(TASK, method, request.encode(), timeout=timeout))
        except (StatusError, ClosedError) as error:
            log = "".join(f"\n{line}" for line in self._log[-5:])
            raise DemoError(f"{method} of {self.id} failed: {error}{log}") from None

    def create(self, mount: Mount | None, text: str = "a scratch over one base layer") -> None:
        """Without a mount, the spec names the root file system."""
        began = self.record.now()
        request = api.CreateTaskRequest(
            id=self.id, bundle=str(self.bundle), rootfs=[mount] if mount is not None else [], options=self.options,
            stdout=self._output(self.id, is_init=True),
        )  # fmt: skip
        self.call("Create", request, api.CreateTaskResponse)
        self.record.add_phase("create", began)
        self._add(CALL, "Create", text)

    def start(self) -> None:
        began = self.record.now()
        pid = self.call("Start", api.StartRequest(id=self.id), api.StartResponse).pid
        self.record.add_phase("start", began)
        self._add(CALL, "Start", f"pid {pid}")

    def wait(self, exec_id: str = "") -> int:
        return self.call("Wait", api.WaitRequest(id=self.id, exec_id=exec_id), api.WaitResponse).exit_status

    def run_until_exit(self) -> None:
        """Start and wait. Like containerd, it calls Wait before Start, so that no exit is missed."""
        exits: list[int] = []

        def wait() -> None:
            try:
                exits.append(self.wait())
            except DemoError:
                pass  # reported below

        waiter = threading.Thread(target=wait, daemon=True)
        waiter.start()
        started = self.record.now()
        self.start()
        waiter.join(CALL_TIMEOUT)
        exited = self.record.now()
        if not exits:
            raise DemoError(f"Wait of {self.id} did not return within {CALL_TIMEOUT:.0f} s after Start")
        self._add(CALL, "Wait", f"exit status {status_text(exits[0])}", exit_status=exits[0])
        if self.first_byte is not None:
            self.record.add_phase("first byte", started, self.first_byte)
        self.record.add_phase("exit", self.first_byte or started, exited)

    def state(self) -> str:
        """The name of the status, as containerd prints it."""
        return STATES[self.call("State", api.StateRequest(id=self.id), api.StateResponse).status]

    def exec(self, exec_id: str, *args: str) -> int:
        """Run a second process in the container; returns its exit status."""
        process = {"args": list(args), "cwd": "C:\\", "user": {"username": "ContainerUser"}}
        packed = PackedAny(type_url=PROCESS_TYPE, value=json.dumps(process).encode())
        output = self._output(exec_id)
        request = api.ExecProcessRequest(id=self.id, exec_id=exec_id, spec=packed, stdout=output)
        self.call("Exec", request, Empty)
        self._add(CALL, "Exec", " ".join(args))
        pid = self.call("Start", api.StartRequest(id=self.id, exec_id=exec_id), api.StartResponse).pid
        self._add(CALL, "Start", f"exec {exec_id}, pid {pid}")
        status = self.wait(exec_id)
        self._add(CALL, "Wait", f"exec {exec_id}, exit status {status}", exit_status=status)
        self.outputs.pop().close(EXIT_TIMEOUT)
        self.call("Delete", api.DeleteRequest(id=self.id, exec_id=exec_id), api.DeleteResponse)
        return status

    def _output(self, name: str, is_init: bool = False) -> str:
        def first() -> None:
            self.first_byte = self.record.now()

        def line(text: str) -> None:
            self._add(OUTPUT, "output" if is_init else name, text)

        output = OutputFifo(self.bundle / f"{name}-stdout", line, first if is_init else None)
        self.outputs.append(output)
        return str(output.path)

    @property
    def text(self) -> str:
        """Everything that the container printed."""
        return self.outputs[0].text

    # Delete and shutdown.

    def delete(self) -> int:
        """Delete, Shutdown, and the cleanup that containerd does afterwards; returns the exit status."""
        began = self.record.now()
        status = self.call("Delete", api.DeleteRequest(id=self.id), api.DeleteResponse).exit_status
        self.record.add_phase("delete", began)
        self._add(CALL, "Delete", f"exit status {status_text(status)}")
        began = self.record.now()
        self.call("Shutdown", api.ShutdownRequest(id=self.id), Empty)
        if self.pod is None and not self._commands.wait_exited(EXIT_TIMEOUT):
            raise DemoError(f"the shim of {self.id} (pid {self.pid}) did not exit after Shutdown")
        self._command("delete")
        if self.pod is None:
            self.record.add_phase("shutdown", began)
            self._add(CALL, "Shutdown", "the daemon has exited; the delete command had nothing to release")
        self.close()
        return status

    def kill(self) -> None:
        """After a failure: kill the daemon and run `delete`, as containerd does after a crash."""
        if self._closed:
            return
        try:
            if self.pod is None and self.pid in descendants():
                kill_processes([self.pid])
            self._command("delete")
        except (DemoError, OSError, subprocess.SubprocessError):
            pass  # no daemon yet; the leak checks find everything else
        self.close()

    def close(self) -> None:
        """Remove the bundle and the snapshot of the root file system."""
        if self._client is not None:
            self._client.close()
        for output in self.outputs:
            output.close(0.5)
        self._log_reader.close(0.5 if self.pod is None else 0)  # the log of a pod member goes to its sandbox
        shutil.rmtree(self.bundle, ignore_errors=True)
        shutil.rmtree(self.workspace.scratch(self.id), ignore_errors=True)
        self._closed = True

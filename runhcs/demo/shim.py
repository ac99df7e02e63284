"""A shim, started and spoken to exactly as containerd does it, each step shown.

containerd writes a bundle, runs `containerd-shim-runhcs-v1 … start` in it, reads the address of the daemon's socket
from its stdout, and from then on speaks the task API over ttrpc. The daemon sends events to containerd's own ttrpc
endpoint and its log to a FIFO in the bundle. When the task is gone, containerd runs `… delete` and removes the bundle.
"""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import threading
import time
from pathlib import Path
from typing import Any, TypeVar

from runhcs.demo import DemoError, process_tree
from runhcs.demo.events import status_text
from runhcs.demo.record import CALL, OUTPUT, Record
from runhcs.demo.streams import Output
from runhcs.demo.workspace import NAMESPACE, Workspace
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
END_TIMEOUT = 10.0

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
        self.pid = 0
        self._closed = False
        self.first_byte: float | None = None
        self.outputs: list[Output] = []
        self._client: Client | None = None
        self.bundle = workspace.directory / "bundles" / id
        self.bundle.mkdir(parents=True)
        (self.bundle / "config.json").write_text(json.dumps(spec, indent=2))
        self._log: list[str] = []
        self._log_reader = Output(self.bundle / "log", self._log.append)

    def note(self, kind: str, name: str, text: str, **data: Any) -> None:
        self.record.note(kind, name, text, about=self.id, **data)

    # Its two commands.

    def launch(self) -> None:
        began = self.record.now()
        address = self._command("start").decode()
        self.pid = int((self.bundle / "shim.pid").read_text())
        self.record.phase("shim start", began)
        where = f"daemon {self.pid} listens on …/{Path(address).name[:12]}…" if self.pod is None else "the pod's daemon"
        self.note(CALL, "shim start", where)
        began = self.record.now()
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(CALL_TIMEOUT)
        connection.connect(address.removeprefix("unix://"))
        connection.settimeout(None)
        self._client = Client(connection)
        connected = self.call("Connect", api.ConnectRequest(id=self.id), api.ConnectResponse)
        self.record.phase("connect", began)
        if self.pod is None:
            self.note(CALL, "Connect", f"shim {connected.shim_pid}, no task yet")

    def _command(self, action: str) -> bytes:
        flags = ["-namespace", NAMESPACE, "-address", str(self.workspace.directory / "c.sock")]
        flags += ["-publish-binary", shutil.which("containerd") or "containerd", "-id", self.id]
        if action == "delete":
            flags += ["-bundle", str(self.bundle)]
        env = self.workspace.env | {
            "TTRPC_ADDRESS": str(self.workspace.directory / "t.sock"),
            "NAMESPACE": NAMESPACE,
            "MAX_SHIM_VERSION": "2",
            "GOMAXPROCS": "2",
        }
        done = process_tree.run(
            [str(self.workspace.launcher), *flags, action], cwd=self.bundle, env=env, timeout=COMMAND_TIMEOUT,
            stdin=self.options.encode() if self.options is not None and action == "start" else b"",
        )  # fmt: skip
        if done.returncode or done.stderr:
            raise DemoError(f"the shim's {action} failed: {done.stderr.decode(errors='replace').strip()}")
        return done.stdout

    # The task API.

    def call(self, method: str, request: Message, answer: type[Answer], timeout: float = CALL_TIMEOUT) -> Answer:
        if self._client is None:
            raise DemoError(f"{method} of {self.id} before its shim was launched")
        try:
            return answer.decode(self._client.call(TASK, method, request.encode(), timeout=timeout))
        except (StatusError, ClosedError) as error:
            log = "".join(f"\n{line}" for line in self._log[-5:])
            raise DemoError(f"{method} of {self.id} failed: {error}{log}") from None

    def create(self, mount: Mount, text: str = "a scratch over one base layer") -> None:
        began = self.record.now()
        request = api.CreateTaskRequest(
            id=self.id, bundle=str(self.bundle), rootfs=[mount], options=self.options,
            stdout=self._output(self.id, is_init=True),
        )  # fmt: skip
        self.call("Create", request, api.CreateTaskResponse)
        self.record.phase("create", began)
        self.note(CALL, "Create", text)

    def start(self) -> None:
        began = self.record.now()
        pid = self.call("Start", api.StartRequest(id=self.id), api.StartResponse).pid
        self.record.phase("start", began)
        self.note(CALL, "Start", f"pid {pid}")

    def wait(self, exec_id: str = "") -> int:
        return self.call("Wait", api.WaitRequest(id=self.id, exec_id=exec_id), api.WaitResponse).exit_status

    def run_to_its_end(self) -> None:
        """Start and wait. containerd waits before it starts, so that no exit is missed."""
        exits: list[int] = []

        def wait() -> None:
            try:
                exits.append(self.wait())
            except DemoError:
                pass  # its absence will be noticed

        waiter = threading.Thread(target=wait, daemon=True)
        waiter.start()
        started = self.record.now()
        self.start()
        waiter.join(CALL_TIMEOUT)
        exited = self.record.now()
        if not exits:
            raise DemoError(f"Wait of {self.id} has not answered {CALL_TIMEOUT:.0f} s after the start")
        self.note(CALL, "Wait", f"exit status {status_text(exits[0])}", exit_status=exits[0])
        if self.first_byte is not None:
            self.record.phase("first byte", started, self.first_byte)
        self.record.phase("exit", self.first_byte or started, exited)

    def state(self) -> str:
        """In containerd's word."""
        return STATES[self.call("State", api.StateRequest(id=self.id), api.StateResponse).status]

    def exec(self, exec_id: str, *args: str) -> int:
        """A second process in the container, to its end; its exit status."""
        process = {"args": list(args), "cwd": "C:\\", "user": {"username": "ContainerUser"}}
        packed = PackedAny(type_url=PROCESS_TYPE, value=json.dumps(process).encode())
        output = self._output(exec_id)
        request = api.ExecProcessRequest(id=self.id, exec_id=exec_id, spec=packed, stdout=output)
        self.call("Exec", request, Empty)
        self.note(CALL, "Exec", " ".join(args))
        pid = self.call("Start", api.StartRequest(id=self.id, exec_id=exec_id), api.StartResponse).pid
        self.note(CALL, "Start", f"exec {exec_id}, pid {pid}")
        status = self.wait(exec_id)
        self.note(CALL, "Wait", f"exec {exec_id}, exit status {status}", exit_status=status)
        self.outputs.pop().close(END_TIMEOUT)
        self.call("Delete", api.DeleteRequest(id=self.id, exec_id=exec_id), api.DeleteResponse)
        return status

    def _output(self, name: str, is_init: bool = False) -> str:
        def first() -> None:
            self.first_byte = self.record.now()

        def line(text: str) -> None:
            self.note(OUTPUT, "output" if is_init else name, text)

        output = Output(self.bundle / f"{name}-stdout", line, first if is_init else None)
        self.outputs.append(output)
        return str(output.path)

    @property
    def text(self) -> str:
        """All that the container has printed."""
        return self.outputs[0].text

    # Its end.

    def delete(self) -> int:
        """Delete, Shutdown, and what containerd does afterwards; the exit status."""
        began = self.record.now()
        status = self.call("Delete", api.DeleteRequest(id=self.id), api.DeleteResponse).exit_status
        self.record.phase("delete", began)
        self.note(CALL, "Delete", f"exit status {status_text(status)}")
        began = self.record.now()
        self.call("Shutdown", api.ShutdownRequest(id=self.id), Empty)
        if self.pod is None:
            self._wait_for_the_end()
        self._command("delete")
        if self.pod is None:
            self.record.phase("shutdown", began)
            self.note(CALL, "Shutdown", "the daemon has ended; the delete command found nothing to free")
        self.close()
        return status

    def _wait_for_the_end(self) -> None:
        deadline = time.monotonic() + END_TIMEOUT
        while process_tree.is_alive(self.pid):
            if time.monotonic() > deadline:
                raise DemoError(f"the shim of {self.id} (pid {self.pid}) has not ended after Shutdown")
            time.sleep(0.001)

    def abandon(self) -> None:
        """For when something went wrong: end the daemon as a crash would, which `delete` is made for."""
        if self._closed:
            return
        try:
            pid = self.pid or int((self.bundle / "shim.pid").read_text())
            if self.pod is None and pid in process_tree.descendants():
                process_tree.end([pid], set())
            self._command("delete")
        except (DemoError, OSError, ValueError, subprocess.SubprocessError):
            pass  # there was no daemon yet; what is left otherwise will be found
        self.close()

    def close(self) -> None:
        """What containerd removes: the bundle, and the snapshot of the root file system."""
        if self._client is not None:
            self._client.close()
        for output in self.outputs:
            output.close(0.5)
        self._log_reader.close(0.5 if self.pod is None else 0)  # a pod's log goes to its sandbox's
        shutil.rmtree(self.bundle, ignore_errors=True)
        shutil.rmtree(self.workspace.scratch(self.id), ignore_errors=True)
        self._closed = True


STATES = ("unknown", "created", "running", "stopped", "paused", "pausing")

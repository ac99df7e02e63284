"""Drives a shim as containerd does: runs its commands, connects to it, calls it.

A `Shim` is the shim of one container. It measures no time; the measures do. A second container of a pod is another
`Shim`, whose `start` returns the address of the pod's daemon, as with containerd.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import socket
import subprocess
import time
import uuid
from collections.abc import Callable
from typing import IO, Any

from bench.harness import bundles, leaks
from bench.harness.bundles import PROCESS, Bundle, Role
from bench.harness.candidates import Candidate
from bench.harness.dialects import Endpoint
from bench.harness.node import Node
from shim.api import task as api
from shim.api.wellknown import Any as PackedAny
from shim.ttrpc.client import Client
from shim.ttrpc.status import ClosedError, StatusError

PROCESS_TYPE = "types.containerd.io/opencontainers/runtime-spec/1/Process"
TIMEOUT = 60.0
SHUTDOWN_TIMEOUT = 30.0
EVENT_TIMEOUT = 30.0
CLEANUP_TIMEOUT = 3.0


class Shim:
    """Use as a context manager: on exit the shim and its resources are cleaned up."""

    def __init__(
        self,
        candidate: Candidate,
        node: Node,
        args: list[str] | None = None,
        profile: str = PROCESS,
        role: Role | None = None,
        variables: dict[str, str] | None = None,
        *,
        terminals: bool = False,
    ) -> None:
        self.candidate = candidate
        self.node = node
        self.id = role.pod if role is not None and role.kind == "sandbox" else new_id()
        self.is_member = role is not None and role.kind == "container"
        node.ids.add(self.id)
        self.bundle = Bundle(
            node.directory, self.id, profile, args, role, windows=candidate.is_ours, scope=candidate.scope,
            terminals=terminals,
        )  # fmt: skip
        self._options = self.bundle.options or candidate.options(node.directory)
        self._environment = {
            **node.environment,
            **candidate.dialect.variables(node.address),
            **candidate.environment,
            **(variables or {}),
        }
        self._log = os.open(self.bundle.path / "log", os.O_RDWR | os.O_NONBLOCK)
        self._client: Client | None = None
        self._daemon = -1
        self.endpoint = Endpoint("", 2)
        self.pid = 0
        #: CPU seconds of the commands that were run.
        self.commands_cpu = 0.0
        #: Called in the process of every command before exec.
        self.before_exec: Callable[[], None] | None = None

    # Commands.

    def command(self, action: str, stdin: bytes = b"", bundle: str = "") -> bytes:
        flags = self.candidate.dialect.flags(self.node.address, self.id, action, bundle)
        process = subprocess.Popen(
            [str(self.candidate.program), *flags], cwd=self.bundle.path, env=self._environment,
            stdin=subprocess.PIPE if stdin else subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if action == "start" else subprocess.PIPE,
            process_group=0, preexec_fn=self.before_exec,
        )  # fmt: skip
        if process.stdin is not None:
            write_input(process.stdin, stdin)  # fits into a pipe
        output, errors = read_output(process)
        self.commands_cpu += reap(process)
        if process.returncode:
            text = (output + errors).decode(errors="replace").strip()
            raise RuntimeError(f"{self.candidate.name}: {action} failed with {process.returncode}: {text}")
        return output

    def start(self, stdin: bytes | None = None) -> None:
        """`stdin`: instead of that of the candidate's dialect."""
        dialect = self.candidate.dialect
        if stdin is None:
            stdin = dialect.stdin(self.candidate.program, self.node.address, self.id, self._options)
        output = self.command("start", stdin)
        try:
            self.endpoint = dialect.endpoint(output)
        except ValueError as error:
            raise RuntimeError(f"{self.candidate.name}: {error}") from error
        self.node.addresses.setdefault(self.candidate.name, set()).add(self.endpoint.path)

    def delete(self) -> None:
        self.command("delete", bundle=str(self.bundle.path))

    # Calls.

    def connect(self) -> None:
        """Connects and calls Connect, which returns the pid of the daemon."""
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(TIMEOUT)
        connection.connect(self.endpoint.path)
        connection.settimeout(None)
        self._client = Client(connection)
        response = self.call("Connect", api.ConnectRequest(id=self.id))
        if not self.is_member:
            self.pid = api.ConnectResponse.decode(response).shim_pid
            self._daemon = os.pidfd_open(self.pid)

    def call(self, method: str, request: Any) -> bytes:
        assert self._client is not None
        return self._client.call(self.endpoint.service, method, request.encode(), timeout=TIMEOUT)

    def create_request(self, stdout: str = "", stderr: str = "") -> api.CreateTaskRequest:
        return api.CreateTaskRequest(
            id=self.id, bundle=str(self.bundle.path), rootfs=self.bundle.rootfs, stdout=stdout, stderr=stderr,
            options=self._options,
        )  # fmt: skip

    def create(self, stdout: str = "", stderr: str = "") -> None:
        self.call("Create", self.create_request(stdout, stderr))

    def start_task(self, exec_id: str = "") -> int:
        return api.StartResponse.decode(self.call("Start", api.StartRequest(id=self.id, exec_id=exec_id))).pid

    def exec(self, exec_id: str, args: list[str]) -> None:
        process = bundles.process(self.id, args, windows=self.candidate.is_ours)
        spec = PackedAny(type_url=PROCESS_TYPE, value=json.dumps(process).encode())
        self.call("Exec", api.ExecProcessRequest(id=self.id, exec_id=exec_id, spec=spec))

    def kill(self, exec_id: str = "") -> None:
        self.call("Kill", api.KillRequest(id=self.id, exec_id=exec_id, signal=signal.SIGKILL))

    def wait(self, exec_id: str = "") -> int:
        response = self.call("Wait", api.WaitRequest(id=self.id, exec_id=exec_id))
        return api.WaitResponse.decode(response).exit_status

    def delete_task(self, exec_id: str = "") -> None:
        self.call("Delete", api.DeleteRequest(id=self.id, exec_id=exec_id))

    def run(self) -> int:
        """start, Connect, Create, Start; returns the pid of the container's process."""
        self.start()
        self.connect()
        self.create()
        return self.start_task()

    def stop(self) -> None:
        """Kill, Wait, Delete, Shutdown, delete."""
        self.kill()
        self.wait()
        self.delete_task()
        self.wait_delete_event()
        if self.is_member:
            self.disconnect()
        else:
            self.shut_down()
            self.wait_exit()
        self.delete()

    # CPU time and exit.

    def wait_delete_event(self) -> None:
        """Go shims may drop unsent events on Shutdown. A missing event is reported by the event check."""
        try:
            self.node.events.wait(self.id, "delete", timeout=EVENT_TIMEOUT)
        except RuntimeError:
            pass

    def cpu(self) -> float:
        """CPU seconds of the daemon so far."""
        return time.clock_gettime(~self.pid << 3 | 2)

    def shut_down(self) -> None:
        try:
            self.call("Shutdown", api.ShutdownRequest(id=self.id))
        except ClosedError:
            pass  # it may exit before it responds
        self.disconnect()

    def disconnect(self) -> None:
        """containerd closes the connection when it has deleted a task, and a shim may wait for that."""
        assert self._client is not None
        self._client.close()

    def wait_exit(self) -> None:
        """Of the process; if it may serve other pods, the end of this one."""
        if self.candidate.scope:
            deadline = time.monotonic() + SHUTDOWN_TIMEOUT
            while os.path.exists(self.endpoint.path):
                if time.monotonic() >= deadline:
                    raise RuntimeError(f"{self.candidate.name}: no end of the pod within {SHUTDOWN_TIMEOUT:.0f} s")
                time.sleep(0.001)
            return
        poller = select.poll()
        poller.register(self._daemon, select.POLLIN)
        if not poller.poll(SHUTDOWN_TIMEOUT * 1e3):
            signal.pidfd_send_signal(self._daemon, signal.SIGKILL)
            raise RuntimeError(f"{self.candidate.name}: no exit within {SHUTDOWN_TIMEOUT:.0f} s of Shutdown")

    def __enter__(self) -> Shim:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and self._client is not None and not self.is_member:
            self._clean_up()
        if self._client is not None:
            self._client.close()
        if self._daemon >= 0:
            try:
                if kind is not None or not self.candidate.scope:
                    signal.pidfd_send_signal(self._daemon, signal.SIGKILL)
            except ProcessLookupError:
                pass
            os.close(self._daemon)
        if kind is not None:
            try:
                self.delete()
            except (RuntimeError, OSError):
                pass  # the leak check reports what remains
        os.close(self._log)
        if not leaks.mounts(self.bundle.path):  # never delete through a mount
            shutil.rmtree(self.bundle.path, ignore_errors=True)

    def _clean_up(self) -> None:
        """After a failure: Kill, Delete and Shutdown as containerd does; their errors are ignored."""
        assert self._client is not None
        for method, request in (
            ("Kill", api.KillRequest(id=self.id, signal=signal.SIGKILL)),
            ("Delete", api.DeleteRequest(id=self.id)),
            ("Shutdown", api.ShutdownRequest(id=self.id)),
        ):
            try:
                self._client.call(self.endpoint.service, method, request.encode(), timeout=CLEANUP_TIMEOUT)
            except (StatusError, ClosedError, OSError):
                pass
        if self._daemon >= 0:
            poller = select.poll()
            poller.register(self._daemon, select.POLLIN)
            poller.poll(CLEANUP_TIMEOUT * 1e3)


def new_id() -> str:
    return f"bench-{uuid.uuid4().hex[:12]}"


def write_input(pipe: IO[bytes], data: bytes) -> None:
    """A shim may exit without reading its stdin: as with containerd (os/exec of Go), that is no error."""
    try:
        with pipe:
            pipe.write(data)
    except BrokenPipeError:
        pass


def read_output(process: subprocess.Popen[bytes]) -> tuple[bytes, bytes]:
    """stdout and stderr until every holder has closed them, as containerd reads them."""
    pipes = {pipe.fileno(): pipe for pipe in (process.stdout, process.stderr) if pipe is not None}
    received: dict[int, bytes] = dict.fromkeys(pipes, b"")
    poller = select.poll()
    for descriptor in pipes:
        poller.register(descriptor, select.POLLIN)
    deadline = time.monotonic() + TIMEOUT
    waiting = set(pipes)
    while waiting:
        ready = poller.poll(max(deadline - time.monotonic(), 0) * 1e3)
        if not ready:
            process.kill()
            process.wait()
            raise RuntimeError(f"{process.args!r} did not close its output within {TIMEOUT:.0f} s")
        for descriptor, _ in ready:
            chunk = os.read(descriptor, 1 << 16)
            received[descriptor] += chunk
            if not chunk:
                poller.unregister(descriptor)
                pipes[descriptor].close()
                waiting.discard(descriptor)
    output, errors = [*received.values(), b""][:2]
    return output, errors


def reap(process: subprocess.Popen[bytes]) -> float:
    """CPU seconds of a command that has closed its output."""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime + usage.ru_stime

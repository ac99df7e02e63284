"""A shim, started and called as containerd does it, on Linux and on Windows.

containerd writes a bundle, runs `containerd-shim-runhcs-v1 … start` in it, reads the address of the daemon from its
stdout, and calls the task API over ttrpc. The daemon publishes events on containerd's ttrpc endpoint. At the end
containerd runs `… delete` and removes the bundle.

The demo, the selftest and the tests under Wine build on this module. It needs no package besides this project's.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from runhcs.task_client import TaskClient
from runhcs.task_events import SERVICE, TASKS
from shim.api.events_ttrpc import ForwardRequest
from shim.platform import daemon, endpoint, host
from shim.ttrpc.client import Client
from shim.ttrpc.server import Call, Method, Server

COMMAND_TIMEOUT = 60.0
EXIT_TIMEOUT = 30.0
REMOVE_SECONDS = 5.0
SIGKILL = 9
_POLL_SECONDS = 0.005


class ShimError(Exception):
    """A command of the shim failed; the message is what it printed."""


def wait_until(condition: Callable[[], object], timeout: float) -> bool:
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def remove_tree(directory: Path) -> bool:
    """Whether it is gone. On Windows a program that reads one of its directories at that moment (a virus scanner, or a
    soak that counts files) delays the removal."""

    def is_removed() -> bool:
        shutil.rmtree(directory, ignore_errors=True)
        return not directory.exists()

    return wait_until(is_removed, REMOVE_SECONDS)


class EventEndpoint:
    """containerd's ttrpc endpoint, on which shims publish their events; it records the topics."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.topics: list[str] = []
        self._server = self._serve()

    def _serve(self) -> Server:
        listener = endpoint.listen(f"unix://{self.address}" if host.IS_EMULATED else self.address)
        server = Server({SERVICE: {"Forward": Method.inline(self._forward)}})
        threading.Thread(target=server.serve, args=(endpoint.Listener(listener),), daemon=True).start()
        return server

    def _forward(self, call: Call) -> bytes:
        envelope = ForwardRequest.decode(call.payload).envelope
        self.topics.append(envelope.topic if envelope is not None else "")
        return b""

    @property
    def kinds(self) -> list[str]:
        """The topics without their common prefix."""
        return [topic.removeprefix(TASKS) for topic in self.topics]

    @property
    def is_connected(self) -> bool:
        """Whether some shim is connected; otherwise all events that were sent have been received."""
        return bool(self._server.connections())

    def expect(self, count: int, timeout: float) -> list[str]:
        """The kinds, once there are so many, or after a timeout."""
        wait_until(lambda: len(self.topics) >= count, timeout)
        return self.kinds

    def restart(self, outage: float = 0.0) -> None:
        """As containerd does: shims keep their events and send them when it is back, after so many seconds."""
        self.close()
        # On Windows the name is free when the last thread has closed its handle.
        wait_until(lambda: not endpoint.exists(self.address), EXIT_TIMEOUT)
        time.sleep(outage)
        self._server = self._serve()

    def close(self) -> None:
        self._server.shutdown(2)
        if host.IS_EMULATED:
            endpoint.remove(f"unix://{self.address}")


class ShimCommands:
    """The commands of one shim, and its daemon. `flags` and `environment` may be changed before a command."""

    def __init__(
        self, program: str, id: str, bundle: str, *, namespace: str, address: str, environment: Mapping[str, str],
        publish_binary: str = "containerd", timeout: float = COMMAND_TIMEOUT,
    ) -> None:  # fmt: skip
        """`address` is containerd's."""
        self.program = program
        self.id = id
        self.bundle = bundle
        self.flags = ["-namespace", namespace, "-address", address, "-publish-binary", publish_binary, "-id", id]
        self.environment = dict(environment)
        self.timeout = timeout
        #: Where the daemon listens, as `start` has printed it.
        self.address = ""
        self._pid = 0

    def command(self, action: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        """Run `start` in the bundle, or `delete` of it. In a session of its own: Ctrl-C is for its caller."""
        where = ["-bundle", self.bundle] if action == "delete" else []
        directory = self.bundle if action == "start" else None
        return subprocess.run(
            [self.program, *self.flags, *where, action], cwd=directory, env=self.environment, input=stdin,
            capture_output=True, timeout=self.timeout, check=False, start_new_session=True,
        )  # fmt: skip

    def start(self, stdin: bytes = b"") -> TaskClient:
        """`start`, and a connection to the daemon. Raises ShimError."""
        printed = self._output("start", stdin).decode().strip()
        # Of a sandbox of the Sandbox service it prints more.
        self.address = str(json.loads(printed)["address"]) if printed.startswith("{") else printed
        return TaskClient(self.connect(), self.id, self.bundle)

    def delete(self) -> bytes:
        """The encoded response of `delete`. Raises ShimError."""
        return self._output("delete")

    def _output(self, action: str, stdin: bytes = b"") -> bytes:
        done = self.command(action, stdin)
        if done.returncode:
            raise ShimError((done.stderr + done.stdout).decode(errors="replace").strip())
        return done.stdout

    def connect(self) -> Client:
        stream = endpoint.connect(endpoint.path_of(self.address), EXIT_TIMEOUT)
        stream.settimeout(None)
        return Client(stream)

    @property
    def pid(self) -> int:
        """The daemon's, from its file in the bundle; 0 if there is none."""
        if not self._pid:
            try:
                with open(os.path.join(self.bundle, "shim.pid"), encoding="ascii") as file:
                    self._pid = int(file.read())
            except (OSError, ValueError):
                return 0
        return self._pid

    @property
    def is_running(self) -> bool:
        return self.pid != 0 and daemon.is_running(self.pid)

    def wait_exited(self, timeout: float = EXIT_TIMEOUT) -> bool:
        """Whether the daemon exits in time."""
        return wait_until(lambda: not self.is_running, timeout)

    def kill(self) -> None:
        """SIGKILL, or TerminateProcess on Windows."""
        if pid := self.pid:
            try:
                os.kill(pid, SIGKILL)
            except OSError:
                pass  # it has exited
            self.wait_exited()

"""The Sandbox service, called directly: the order of calls, invalid calls, and cleanup after the shim has died."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from runhcs.task_client import TASK_V3
from shim.api import sandbox as api
from shim.api.packing import pack
from shim.api.runhcs_options import Options
from shim.api.wellknown import Any as PackedAny
from shim.api.wire import Message
from shim.task.sandbox_service import NOT_READY, READY, SANDBOX
from shim.ttrpc import status
from tests.support.emulator import Emulator
from tests.support.eventually import eventually
from tests.support.log_fifo import LogFifo
from tests.support.shims import NAMESPACE, Shim, Shims, refused

FOREVER = ("/bin/sleep", "1000")
# Pods on this system have Linux containers unless the options say otherwise.
WINDOWS = pack(Options(sandbox_platform="windows/amd64"))


class Sandbox(Shim):
    """A shim started by containerd's shim sandboxer, and a client of its Sandbox service."""

    @classmethod
    def begin(cls, shims: Shims, id: str = "pod", *, options: PackedAny = WINDOWS) -> Sandbox:
        bundle = shims.directory / "io.containerd.sandbox.controller.v1.shim" / NAMESPACE / id
        bundle.mkdir(parents=True)
        log = LogFifo(bundle)
        shims.logs.append(log)
        result = shims.command(id, "start", bundle, stdin=options.encode())
        assert result.returncode == 0 and not result.stderr, result.stderr
        answer = json.loads(result.stdout)
        assert answer["version"] == 3 and answer["protocol"] == "ttrpc"
        sandbox = cls(shims, id, bundle, answer["address"], TASK_V3)
        sandbox.log = log
        shims.shims.append(sandbox)
        return sandbox

    def ask(self, method: str, request: Message, timeout: float = 30.0) -> bytes:
        return self.client.call(SANDBOX, method, request.encode(), timeout=timeout)

    def create_sandbox(self, **fields: Any) -> None:
        self.ask("CreateSandbox", api.CreateSandboxRequest(sandbox_id=self.id, bundle_path=self.bundle, **fields))

    def start_sandbox(self) -> None:
        self.ask("StartSandbox", api.StartSandboxRequest(sandbox_id=self.id))

    def stop_sandbox(self) -> None:
        self.ask("StopSandbox", api.StopSandboxRequest(sandbox_id=self.id, timeout_secs=20))

    def shutdown_sandbox(self) -> None:
        self.ask("ShutdownSandbox", api.ShutdownSandboxRequest(sandbox_id=self.id))

    def wait_sandbox(self, timeout: float = 30.0) -> api.WaitSandboxResponse:
        answer = self.ask("WaitSandbox", api.WaitSandboxRequest(sandbox_id=self.id), timeout)
        return api.WaitSandboxResponse.decode(answer)

    def sandbox_state(self) -> str:
        answer = self.ask("SandboxStatus", api.SandboxStatusRequest(sandbox_id=self.id))
        return api.SandboxStatusResponse.decode(answer).state

    def join(self, id: str, *args: str) -> None:
        """Create a workload, in a bundle of its own, as containerd does without `start`."""
        bundle = self.owner.bundle(id, self.owner.spec(*(args or FOREVER)))
        self.create(id=id, bundle=str(bundle), rootfs=self.owner.rootfs())


@pytest.fixture
def shims() -> Iterator[Shims]:
    emulator = Emulator()
    shims = Shims(emulator.env)
    shims.emulator = emulator  # type: ignore[attr-defined]
    yield shims
    try:
        shims.close()
        systems = emulator.control("status")["systems"]
    finally:
        emulator.stop()
    assert not systems


@pytest.fixture
def sandbox(shims: Shims) -> Sandbox:
    return Sandbox.begin(shims)


def test_calls_are_logged_at_debug(shims: Shims) -> None:
    sandbox = Sandbox.begin(shims, options=pack(Options(log_level="debug", sandbox_platform="windows/amd64")))
    sandbox.create_sandbox()
    refused(status.ALREADY_EXISTS, sandbox.create_sandbox)
    sandbox.start_sandbox()
    sandbox.log.wait_for("sandbox created", tid="pod", bundle=sandbox.bundle)
    for method, code in (("CreateSandbox", "OK"), ("CreateSandbox", "AlreadyExists"), ("StartSandbox", "OK")):
        line = sandbox.log.wait_for("rpc", service=SANDBOX, method=method, code=code)
        assert (line.level, line.fields["tid"]) == ("debug", "pod")


def test_calls_in_wrong_order_are_refused(sandbox: Sandbox) -> None:
    for early in (sandbox.start_sandbox, sandbox.stop_sandbox, sandbox.wait_sandbox, sandbox.sandbox_state):
        refused(status.NOT_FOUND, early)
    refused(status.FAILED_PRECONDITION, sandbox.join, "early")
    sandbox.create_sandbox()
    refused(status.ALREADY_EXISTS, sandbox.create_sandbox)
    assert sandbox.sandbox_state() == NOT_READY
    refused(status.FAILED_PRECONDITION, sandbox.join, "soon")
    sandbox.start_sandbox()
    assert sandbox.sandbox_state() == READY
    refused(status.FAILED_PRECONDITION, sandbox.start_sandbox)
    sandbox.stop_sandbox()
    sandbox.stop_sandbox()
    assert sandbox.sandbox_state() == NOT_READY
    assert sandbox.wait_sandbox().exit_status == 0
    sandbox.shutdown_sandbox()
    sandbox.wait_exited()


def test_shutdown_before_create(sandbox: Sandbox) -> None:
    """containerd calls it when CreateSandbox has failed."""
    sandbox.shutdown_sandbox()
    sandbox.wait_exited()


def test_other_sandbox_id_is_not_found(sandbox: Sandbox) -> None:
    for method, request in (
        ("CreateSandbox", api.CreateSandboxRequest(sandbox_id="other")),
        ("PingSandbox", api.PingRequest(sandbox_id="other")),
        ("ShutdownSandbox", api.ShutdownSandboxRequest(sandbox_id="other")),
    ):
        refused(status.NOT_FOUND, sandbox.ask, method, request)
    assert sandbox.alive


def test_shim_without_sandbox_api_has_no_sandbox_service(shims: Shims) -> None:
    shim = shims.start("plain", shims.spec(*FOREVER))
    refused(status.UNIMPLEMENTED, shim.client.call, SANDBOX, "PingSandbox", b"", timeout=30)


def test_many_waits_and_closed_connection(sandbox: Sandbox) -> None:
    sandbox.create_sandbox()
    sandbox.start_sandbox()
    refused(status.DEADLINE_EXCEEDED, sandbox.wait_sandbox, timeout=0.1)
    answers: list[api.WaitSandboxResponse] = []
    threads = [threading.Thread(target=lambda: answers.append(sandbox.wait_sandbox())) for _ in range(5)]
    for thread in threads:
        thread.start()
    sandbox.stop_sandbox()
    for thread in threads:
        thread.join(60)
    assert len(answers) == 5 and all(answer == answers[0] for answer in answers)


def test_task_shutdown_does_not_stop_the_shim(sandbox: Sandbox) -> None:
    sandbox.create_sandbox()
    sandbox.start_sandbox()
    sandbox.join("c1", "/bin/true")
    sandbox.start(id="c1")
    sandbox.wait(id="c1")
    sandbox.delete(id="c1")
    for name in ("c1", sandbox.id, "other"):
        sandbox.shutdown(id=name, now=True)
    assert sandbox.sandbox_state() == READY and sandbox.alive


def test_failed_create_leaves_no_member_record(sandbox: Sandbox) -> None:
    sandbox.create_sandbox()
    sandbox.start_sandbox()
    bundle = sandbox.owner.bundle("bad", {**sandbox.owner.spec(*FOREVER), "windows": 5})
    refused(status.UNKNOWN, sandbox.create, id="bad", bundle=str(bundle))
    assert list((sandbox.path / "members").iterdir()) == []


@pytest.mark.parametrize("started", [False, True], ids=["created", "started"])
def test_delete_after_sigkill_releases_workloads(sandbox: Sandbox, started: bool) -> None:
    """containerd runs `delete` for the sandbox only."""
    sandbox.create_sandbox()
    sandbox.start_sandbox()
    for name in ("c1", "c2"):
        sandbox.join(name)
        if started:
            sandbox.start(id=name)
    emulator: Emulator = sandbox.owner.emulator  # type: ignore[attr-defined]
    assert len(emulator.control("status")["systems"]) == 2
    sandbox.kill_daemon()
    sandbox.delete_command()
    assert not emulator.control("status")["systems"]
    eventually(lambda: not sandbox.owner.mounts(), f"no mounts left: {sandbox.owner.mounts()}")

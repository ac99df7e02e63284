"""The containers of a soak: each with a shim of its own, or as a member of a pod; every exit and event is checked."""

from __future__ import annotations

import json
import os
import subprocess

from attrs import define, field

from runhcs.selftest.node import Node
from runhcs.selftest.scenarios import process, windows_spec
from runhcs.shim_driver import EXIT_TIMEOUT, ShimCommands, ShimError, remove_tree
from runhcs.soak.events import AccountError, EventAccounts, exec_events, task_events
from runhcs.task_client import TaskClient
from shim.api.runhcs_options import Options
from shim.api.task import DeleteResponse
from shim.api.wellknown import Any as PackedAny
from shim.platform import host
from shim.ttrpc.status import ClosedError

ROLE, SANDBOX = "io.kubernetes.cri.container-type", "io.kubernetes.cri.sandbox-id"
SIGKILL = 9
# Sixty days, longer than any soak.
FOREVER = "ping -n 5184000 127.0.0.1 > nul"


@define
class SoakHost:
    node: Node
    events: EventAccounts
    has_vms: bool
    #: What is left to clean up, oldest first.
    live: dict[str, SoakContainer] = field(factory=dict)

    def clean_up(self) -> list[str]:
        """End whatever still runs; returns what could not be released.

        A pod comes before its members: its shim is killed first, then `delete` runs for each, as with containerd.
        """
        found = []
        for one in sorted(self.live.values(), key=lambda one: one.is_member):
            try:
                one.abandon()
            except (AccountError, OSError, ShimError, subprocess.SubprocessError) as error:
                found.append(str(error))
        return found


class SoakContainer:
    """`pod` is the sandbox of which this is a member."""

    def __init__(
        self, host: SoakHost, kind: str, command: str, *,
        in_vm: bool = False, is_sandbox: bool = False, pod: SoakContainer | None = None,
    ) -> None:  # fmt: skip
        node = host.node
        self.id = node.new_id(kind)
        self._host = host
        self._pod = pod
        self._in_vm = in_vm
        self._bundle = node.directory / "bundles" / self.id
        self._bundle.mkdir(parents=True)
        spec = windows_spec(command, annotations={})
        if in_vm:
            spec["windows"]["hyperv"] = {}
        if is_sandbox or pod is not None:
            role = "sandbox" if is_sandbox else "container"
            spec["annotations"] = {ROLE: role, SANDBOX: self.id if pod is None else pod.id}
        (self._bundle / "config.json").write_text(json.dumps(spec), encoding="utf-8")
        self._commands = ShimCommands(
            node.program, self.id, str(self._bundle), namespace=node.prefix, address=_containerd(node),
            environment=node.env | {"TTRPC_ADDRESS": host.events.address, "MAX_SHIM_VERSION": "2"},
        )  # fmt: skip
        self.task: TaskClient | None = None
        host.live[self.id] = self

    @property
    def is_member(self) -> bool:
        return self._pod is not None

    @property
    def pid(self) -> int:
        return self._commands.pid

    @property
    def client(self) -> TaskClient:
        assert self.task is not None
        return self.task

    # The lifecycle, as containerd drives it.

    def start_shim(self) -> TaskClient:
        self.task = self._commands.start()
        return self.task

    def create(self) -> None:
        options = None
        if self._in_vm:
            values = Options(sandbox_isolation=Options.SandboxIsolation.HYPERVISOR, sandbox_platform="windows/amd64")
            options = PackedAny(type_url=Options.FULL_NAME, value=values.encode())
        self.client.create(rootfs=[self._host.node.layer_mount(self.id)], options=options)

    def run(self) -> SoakContainer:
        self.start_shim()
        self.create()
        self.client.start()
        return self

    def reconnect(self) -> None:
        """As a containerd that has restarted."""
        self.client.client.close()
        self.client.client = self._commands.connect()

    def probe(self, name: str, code: int) -> None:
        """An exec with its exit status and its events. Raises AccountError."""
        task = self.client
        task.exec(name, process(f"exit {code}"))
        task.start(name)
        statuses = [task.wait(name).exit_status, task.delete(name).exit_status]
        if statuses != [code, code]:
            raise AccountError(f"exec {name} of {self.id} exits with {code}; Wait and Delete return {statuses}")
        self._host.events.settle(self.id, exec_events(code), name)

    def kill(self, signal: int = SIGKILL) -> None:
        """Kill the container, and check its exit."""
        self.client.kill(signal)
        self.expect_exit(None)

    def expect_exit(self, code: int | None) -> None:
        """Its exit with this status (None: any but 0), Delete, and the events. Raises AccountError."""
        status = self.client.wait().exit_status
        deleted = self.client.delete().exit_status
        if status != deleted or (status == 0 if code is None else status != code):
            wanted = "not 0" if code is None else str(code)
            raise AccountError(
                f"the exit status of {self.id} is {status} and after Delete {deleted}; expected {wanted}"
            )
        self._host.events.settle(self.id, task_events(status))

    def close(self) -> None:
        """After the exit: Shutdown, `delete`, and nothing is left. Raises AccountError."""
        try:
            self.client.shutdown()
        except (ClosedError, OSError):
            pass  # the connection may close first
        if self._pod is None:
            if not self._commands.wait_exited():
                raise AccountError(f"the shim of {self.id} did not exit within {EXIT_TIMEOUT:.0f} s after Shutdown")
            self._commands.delete()
        self.client.client.close()
        self._forget()

    def crash(self) -> None:
        """SIGKILL to the shim; `delete` reports an exit and releases everything. Raises AccountError."""
        self._commands.kill()
        response = DeleteResponse.decode(self._commands.delete())
        if self.task is not None:
            self.task.client.close()
        if response.exit_status == 0 or response.exited_at is None:
            raise AccountError(f"`delete` after a crash of the shim of {self.id} reports no exit")
        received = [kind for kind, _ in self._host.events.forget(self.id)]
        if received != ["create", "start", "exit", "delete"][: len(received)]:
            raise AccountError(f"a shim that was killed has sent {', '.join(received)}")
        self._forget()

    def _forget(self) -> None:
        leaked = [] if remove_tree(self._bundle) else [f"{self._bundle} cannot be removed"]
        del self._host.live[self.id]
        leaked += self._host.node.leaks(self.id)
        if leaked:
            raise AccountError(f"leaked after delete: {', '.join(leaked)}")

    def abandon(self) -> None:
        """End it whatever its state is. Raises AccountError."""
        if self.task is not None:
            self.task.client.close()
        if self._pod is None and self._commands.is_running:
            self._commands.kill()
        self._commands.command("delete")
        self._host.events.forget(self.id)
        self._forget()


def _containerd(node: Node) -> str:
    return str(node.directory / "c.sock") if host.IS_EMULATED else rf"\\.\pipe\{node.prefix}-none"


def event_address(node: Node) -> str:
    if not host.IS_EMULATED:
        return rf"\\.\pipe\{node.prefix}-{os.getpid()}-events"
    return str(node.directory / "e")

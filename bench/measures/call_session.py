"""A shim that serves a pod, and rounds of calls to it: each call of the task API that can be repeated, once or more.

This module is no measure of its own: `later_calls` runs rounds of it.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterable
from contextlib import ExitStack

from attrs import frozen

from bench.harness import bundles
from bench.harness.bundles import Role
from bench.harness.candidates import Candidate
from bench.harness.direct_client import DirectClient
from bench.harness.driver import PROCESS_TYPE, Shim, new_id
from bench.harness.node import Node
from bench.harness.spans import Span, rpcs
from shim.api import task as api
from shim.api.wellknown import Any as PackedAny
from shim.api.wire import Message
from shim.ttrpc.status import UNIMPLEMENTED, StatusError

# Calls of a round, in this order. The calls that a shim answers from memory are short: each is repeated.
REPEATED = ("State", "Connect")
REPEATS = 5
CALLS = (
    *REPEATED,
    "Pids",
    "Stats",
    "Update",
    "Pause",
    "Resume",
    "ResizePty",
    "Exec",
    "Start of an exec",
    "State of an exec",
    "CloseIO",
    "Kill of an exec",
    "Kill of an exec to Wait",
    "Wait for an exited exec",
    "Delete of an exec",
    "Create",
    "Start",
    "Kill",
    "Kill to Wait",
    "Wait for an exited container",
    "Delete",
)
TERMINAL = "terminal"
RESOURCES = "types.containerd.io/opencontainers/runtime-spec/1/{}Resources"
MEMORY_LIMITS = (512 << 20, 768 << 20)
SIZES = ((80, 24), (120, 40))
KILL = signal.SIGKILL


@frozen
class Sample:
    """A call: its name in CALLS, its begin and end in seconds of perf_counter."""

    name: str
    begin: float
    end: float

    @property
    def milliseconds(self) -> float:
        return (self.end - self.begin) * 1e3


class Session:
    """The shim of a sandbox, with an exec that has a terminal. The stack closes what is opened."""

    def __init__(self, candidate: Candidate, node: Node, stack: ExitStack, variables: dict[str, str] | None = None):
        self.candidate = candidate
        self.samples: list[Sample] = []
        #: Of the container of the last round.
        self.event_errors: list[str] = []
        self._node = node
        self._pod = new_id()
        self._stack = stack
        self._number = 0
        self.shim = stack.enter_context(
            Shim(candidate, node, role=Role("sandbox", self._pod), variables=variables, terminals=True)
        )

    def start(self) -> bool:
        """Two connections: a call to Wait blocks its own."""
        self.shim.run()
        self._fifos = [self._fifo(name) for name in ("stdin", "stdout", "stderr")]
        self._client, self._waiter = self._connect(), self._connect()
        stdin, stdout, _ = self._fifos
        spec = self._process(bundles.EXEC_WAIT, terminal=True)
        request = api.ExecProcessRequest(
            id=self.shim.id, exec_id=TERMINAL, terminal=True, stdin=stdin, stdout=stdout, spec=spec
        )
        self.shim.call("Exec", request)
        self.shim.start_task(TERMINAL)
        return True

    def stop(self) -> bool:
        self._client.close()
        self._waiter.close()
        self.shim.kill(TERMINAL)
        self.shim.wait(TERMINAL)
        self.shim.delete_task(TERMINAL)
        self.shim.stop()
        return True

    def round(self) -> list[Sample]:
        """One round of all calls that this shim implements."""
        self._number += 1
        self.samples = []
        task = self.shim.id
        for _ in range(REPEATS):
            self._call("State", api.StateRequest(id=task))
            self._call("Connect", api.ConnectRequest(id=task))
        self._call("Pids", api.PidsRequest(id=task))
        self._optional("Stats", api.StatsRequest(id=task))
        self._optional("Update", api.UpdateTaskRequest(id=task, resources=self._resources()))
        if self._optional("Pause", api.PauseRequest(id=task)):
            self._call("Resume", api.ResumeRequest(id=task))
        width, height = SIZES[self._number % len(SIZES)]
        self._call("ResizePty", api.ResizePtyRequest(id=task, exec_id=TERMINAL, width=width, height=height))
        self._exec(f"exec-{self._number}")
        self._container()
        return self.samples

    def _exec(self, exec_id: str) -> None:
        task = self.shim.id
        stdin, stdout, stderr = self._fifos
        spec = self._process(bundles.EXEC_WAIT)
        request = api.ExecProcessRequest(
            id=task, exec_id=exec_id, stdin=stdin, stdout=stdout, stderr=stderr, spec=spec
        )
        self._call("Exec", request)
        self._call("Start of an exec", api.StartRequest(id=task, exec_id=exec_id))
        self._call("State of an exec", api.StateRequest(id=task, exec_id=exec_id))
        self._call("CloseIO", api.CloseIORequest(id=task, exec_id=exec_id, stdin=True))
        wait = api.WaitRequest(id=task, exec_id=exec_id)
        self._kill("Kill of an exec", api.KillRequest(id=task, exec_id=exec_id, signal=KILL), wait)
        self._call("Wait for an exited exec", wait)
        self._call("Delete of an exec", api.DeleteRequest(id=task, exec_id=exec_id))

    def _container(self) -> None:
        """Another container of the pod, served by this shim."""
        with Shim(self.candidate, self._node, role=Role("container", self._pod)) as member:
            member.start()
            member.connect()
            self._call("Create", member.create_request())
            self._call("Start", api.StartRequest(id=member.id))
            wait = api.WaitRequest(id=member.id)
            self._kill("Kill", api.KillRequest(id=member.id, signal=KILL), wait)
            self._call("Wait for an exited container", wait)
            self._call("Delete", api.DeleteRequest(id=member.id))
            member.wait_delete_event()
            member.disconnect()
            member.delete()
        self.event_errors = self._node.events.finish(member.id)

    def _kill(self, name: str, kill: api.KillRequest, wait: api.WaitRequest) -> None:
        """Kill, and the response to a Wait that was sent before. The call between them, which does not count, gives the
        shim the time to read the Wait."""
        self._waiter.send(self.shim.endpoint.service, "Wait", wait.encode())
        self._client.call(self.shim.endpoint.service, "State", api.StateRequest(id=wait.id).encode())
        begin = self._call(name, kill)
        end = self._waiter.receive(begin).end
        self.samples.append(Sample(f"{name} to Wait", begin, end))

    def _call(self, name: str, request: Message) -> float:
        """The time of its begin."""
        done = self._client.call(self.shim.endpoint.service, name.split()[0], request.encode())
        self.samples.append(Sample(name, done.begin, done.end))
        return done.begin

    def _optional(self, name: str, request: Message) -> bool:
        """A call that a shim may not implement."""
        try:
            self._call(name, request)
        except StatusError as error:
            if error.code != UNIMPLEMENTED:
                raise
            return False
        return True

    def _process(self, args: list[str], terminal: bool = False) -> PackedAny:
        process = bundles.process(self.shim.id, args, windows=self.candidate.is_ours)
        return PackedAny(type_url=PROCESS_TYPE, value=json.dumps({**process, "terminal": terminal}).encode())

    def _resources(self) -> PackedAny:
        """A memory limit, another one in each round."""
        limit = {"memory": {"limit": MEMORY_LIMITS[self._number % len(MEMORY_LIMITS)]}}
        kind = "Windows" if self.candidate.is_ours else "Linux"
        return PackedAny(type_url=RESOURCES.format(kind), value=json.dumps(limit).encode())

    def _connect(self) -> DirectClient:
        client = DirectClient(self.shim.endpoint.path)
        self._stack.callback(client.close)
        return client

    def _fifo(self, name: str) -> str:
        """Opened for reading and writing, so that neither the shim nor this process waits for the other."""
        path = self.shim.bundle.path / f"exec-{name}"
        os.mkfifo(path)
        self._stack.callback(os.close, os.open(path, os.O_RDWR | os.O_NONBLOCK))
        return str(path)


def hcs_milliseconds(samples: Iterable[Sample], recorded: Iterable[Span]) -> list[tuple[Sample, float]]:
    """The calls, each with the time that the shim waited for HCS in it. Spans have the clock of the samples; a call
    whose span is not found is left out, and so is what takes more than a call."""
    calls = rpcs(recorded)
    found = []
    for one in samples:
        if one.name.endswith(" to Wait"):
            continue
        method = one.name.split()[0]
        begin, end = one.begin * 1e9, one.end * 1e9
        for call in calls:
            if call.method == method and begin <= call.whole.begin and call.whole.end <= end:
                found.append((one, call.outside_ms))
                break
    return found

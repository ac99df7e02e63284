"""One lifecycle of one container, with the duration of each step: from the start command to the delete command.

This module is no measure of its own: `lifecycles` and `phases` run rounds of it.
"""

from __future__ import annotations

import os
import select
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.harness import bundles, spans
from bench.harness.bundles import HYPERVISOR, PROCESS
from bench.harness.candidates import Candidate
from bench.harness.driver import TIMEOUT, Shim
from bench.harness.node import Node
from bench.harness.spans import Span
from shim.api import task as api
from shim.ttrpc.status import UNIMPLEMENTED, StatusError

# The measures in display order, all in milliseconds.
MEASURES = (
    "start",
    "start to Connect",
    "start to running",
    "Connect",
    "Create",
    "Start",
    "Start to first output",
    "State",
    "Pids",
    "Stats",
    "Exec",
    "Start of an exec",
    "exec exit to event",
    "Wait for an exec",
    "Delete of an exec",
    "CloseIO",
    "Pause",
    "Resume",
    "Kill",
    "Kill to exit event",
    "exit to event",
    "Wait",
    "Delete",
    "Shutdown",
    "delete",
)
EXEC = "probe"


class Lifecycle:
    """Results of one lifecycle: times in milliseconds, the shim's spans if recorded, errors in the event order."""

    def __init__(self) -> None:
        self.times: dict[str, float] = {}
        self.spans: list[Span] = []
        self.event_errors: list[str] = []

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        begin = time.perf_counter()
        yield
        self.times[name] = (time.perf_counter() - begin) * 1e3


class FirstByte:
    """Reads a FIFO and records the time of its first byte. Opened before the shim opens it."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.path = str(path)
        self._descriptor = os.open(path, os.O_RDWR | os.O_NONBLOCK)
        self._stop = os.eventfd(0)
        self.at = 0.0
        self.data = b""
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        poller = select.poll()
        poller.register(self._descriptor, select.POLLIN)
        poller.register(self._stop, select.POLLIN)
        ready = dict(poller.poll(TIMEOUT * 1e3))
        if self._descriptor in ready:
            self.at = time.perf_counter()
            self.data = os.read(self._descriptor, 4096)

    def wait(self) -> float:
        self._thread.join(TIMEOUT + 1)
        if not self.data:
            raise RuntimeError("no output of the container")
        return self.at

    def close(self) -> None:
        os.eventfd_write(self._stop, 1)
        self._thread.join()
        os.close(self._stop)
        os.close(self._descriptor)


def run_once(
    candidate: Candidate, node: Node, profile: str = PROCESS, *, exits_itself: bool = False, with_spans: bool = False
) -> Lifecycle:
    """`exits_itself`: the process exits without Kill. `with_spans`: our shim records spans."""
    result = Lifecycle()
    variables = {"RUNHCS_SPANS": str(node.spans)} if with_spans and candidate.is_ours else {}
    with Shim(candidate, node, profile=profile, variables=variables) as shim:
        output, errors = FirstByte(shim.bundle.path / "out"), shim.bundle.path / "err"
        os.mkfifo(errors)
        reader = os.open(errors, os.O_RDWR)  # the runc shim waits for a reader
        try:
            _steps(result, shim, output, str(errors), exits_itself)
        finally:
            os.close(reader)
            output.close()
        if variables:
            result.spans = spans.take(node.spans, shim.id)
        result.event_errors += node.events.finish(shim.id)
    return result


def _steps(result: Lifecycle, shim: Shim, output: FirstByte, errors: str, exits_itself: bool) -> None:
    with result.step("start to running"):
        with result.step("start to Connect"):
            with result.step("start"):
                shim.start()
            shim.connect()
        with result.step("Create"):
            shim.create(output.path, errors)
        requested = time.perf_counter()
        with result.step("Start"):
            pid = shim.start_task()
    result.times["Start to first output"] = (output.wait() - requested) * 1e3
    with result.step("Connect"):
        shim.call("Connect", api.ConnectRequest(id=shim.id))
    with result.step("State"):
        shim.call("State", api.StateRequest(id=shim.id))
    with result.step("Pids"):
        shim.call("Pids", api.PidsRequest(id=shim.id))
    _optional(result, shim, "Stats", api.StatsRequest(id=shim.id))
    if shim.bundle.profile != HYPERVISOR:
        _exec(result, shim)
        _optional(result, shim, "Pause", api.PauseRequest(id=shim.id))
        if "Pause" in result.times:
            _optional(result, shim, "Resume", api.ResumeRequest(id=shim.id))
    killed = time.perf_counter()
    if exits_itself and kill_process(pid, shim.id):
        result.times["exit to event"] = (shim.node.events.wait(shim.id, "exit") - killed) * 1e3
        shim.wait()
    else:
        with result.step("Kill"):
            shim.kill()
        with result.step("Wait"):
            shim.wait()
        result.times["Kill to exit event"] = (shim.node.events.wait(shim.id, "exit") - killed) * 1e3
    with result.step("Delete"):
        shim.delete_task()
    shim.wait_delete_event()
    with result.step("Shutdown"):
        shim.shut_down()
    shim.wait_exit()
    with result.step("delete"):
        shim.delete()


def _exec(result: Lifecycle, shim: Shim) -> None:
    with result.step("Exec"):
        shim.exec(EXEC, bundles.EXEC_WAIT)
    with result.step("Start of an exec"):
        pid = shim.start_task(EXEC)
    _optional(result, shim, "CloseIO", api.CloseIORequest(id=shim.id, exec_id=EXEC, stdin=True))
    killed = time.perf_counter()
    if not kill_process(pid, shim.id):
        shim.kill(EXEC)
    with result.step("Wait for an exec"):
        shim.wait(EXEC)
    result.times["exec exit to event"] = (shim.node.events.wait(shim.id, "exit", EXEC) - killed) * 1e3
    with result.step("Delete of an exec"):
        shim.delete_task(EXEC)


def _optional(result: Lifecycle, shim: Shim, method: str, request: object) -> None:
    """A call that a shim may not implement."""
    try:
        with result.step(method):
            shim.call(method, request)
    except StatusError as error:
        result.times.pop(method, None)
        if error.code != UNIMPLEMENTED:
            raise


def kill_process(pid: int, id: str) -> bool:
    """Kills a process of a container from outside, as if it had exited by itself. False if the pid is not one of this
    container's processes, but one in a guest, for example."""
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        if f"{bundles.MARK}={id}".encode() not in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
            return False
        signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)

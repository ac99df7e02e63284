"""One container's whole life, each step by the clock: from the start command to the delete command."""

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
from bench.harness.driver import TIMEOUT, Node, Shim
from bench.harness.spans import Span
from shim.api import task as api
from shim.ttrpc.status import UNIMPLEMENTED, StatusError

# Each measure in the order they are shown; all are milliseconds.
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


class Life:
    """What one life told: times in milliseconds, and the shim's spans where it has left some."""

    def __init__(self) -> None:
        self.times: dict[str, float] = {}
        self.spans: list[Span] = []
        self.wrong: list[str] = []

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        begin = time.perf_counter()
        yield
        self.times[name] = (time.perf_counter() - begin) * 1e3


class FirstByte:
    """Reads a FIFO and notes when the first byte of it came. Open before the shim is asked to open it."""

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
            raise RuntimeError("the container has said nothing")
        return self.at

    def close(self) -> None:
        os.eventfd_write(self._stop, 1)
        self._thread.join()
        os.close(self._stop)
        os.close(self._descriptor)


def run_once(
    candidate: Candidate, node: Node, profile: str = PROCESS, *, by_itself: bool = False, with_spans: bool = False
) -> Life:
    """`by_itself`: its process ends without a call of Kill. `with_spans`: have our shim keep its spans."""
    life = Life()
    variables = {"RUNHCS_SPANS": str(node.spans)} if with_spans and candidate.is_ours else {}
    with Shim(candidate, node, profile=profile, variables=variables) as shim:
        output, errors = FirstByte(shim.bundle.path / "out"), shim.bundle.path / "err"
        os.mkfifo(errors)
        held = os.open(errors, os.O_RDWR)  # the runc shim waits for a reader
        try:
            _live(life, shim, output, str(errors), by_itself)
        finally:
            os.close(held)
            output.close()
        if variables:
            life.spans = spans.take(node.spans, shim.id)
        life.wrong += node.events.settle(shim.id)
    return life


def _live(life: Life, shim: Shim, output: FirstByte, errors: str, by_itself: bool) -> None:
    with life.step("start to running"):
        with life.step("start to Connect"):
            with life.step("start"):
                shim.start()
            shim.connect()
        with life.step("Create"):
            shim.create(output.path, errors)
        asked = time.perf_counter()
        with life.step("Start"):
            pid = shim.start_task()
    life.times["Start to first output"] = (output.wait() - asked) * 1e3
    with life.step("Connect"):
        shim.call("Connect", api.ConnectRequest(id=shim.id))
    with life.step("State"):
        shim.call("State", api.StateRequest(id=shim.id))
    with life.step("Pids"):
        shim.call("Pids", api.PidsRequest(id=shim.id))
    _optional(life, shim, "Stats", api.StatsRequest(id=shim.id))
    if shim.bundle.profile != HYPERVISOR:
        _exec(life, shim)
        _optional(life, shim, "Pause", api.PauseRequest(id=shim.id))
        if "Pause" in life.times:
            _optional(life, shim, "Resume", api.ResumeRequest(id=shim.id))
    ended = time.perf_counter()
    if by_itself and kill_process(pid, shim.id):
        life.times["exit to event"] = (shim.node.events.wait(shim.id, "exit") - ended) * 1e3
        shim.wait()
    else:
        with life.step("Kill"):
            shim.kill()
        with life.step("Wait"):
            shim.wait()
        life.times["Kill to exit event"] = (shim.node.events.wait(shim.id, "exit") - ended) * 1e3
    with life.step("Delete"):
        shim.delete_task()
    shim.await_last_event()
    with life.step("Shutdown"):
        shim.shut_down()
    shim.wait_gone()
    with life.step("delete"):
        shim.delete()


def _exec(life: Life, shim: Shim) -> None:
    with life.step("Exec"):
        shim.exec(EXEC, bundles.EXEC_WAITS)
    with life.step("Start of an exec"):
        pid = shim.start_task(EXEC)
    _optional(life, shim, "CloseIO", api.CloseIORequest(id=shim.id, exec_id=EXEC, stdin=True))
    ended = time.perf_counter()
    if not kill_process(pid, shim.id):
        shim.kill(EXEC)
    with life.step("Wait for an exec"):
        shim.wait(EXEC)
    life.times["exec exit to event"] = (shim.node.events.wait(shim.id, "exit", EXEC) - ended) * 1e3
    with life.step("Delete of an exec"):
        shim.delete_task(EXEC)


def _optional(life: Life, shim: Shim, method: str, request: object) -> None:
    """A call that a shim may not have."""
    try:
        with life.step(method):
            shim.call(method, request)
    except StatusError as error:
        life.times.pop(method, None)
        if error.code != UNIMPLEMENTED:
            raise


def kill_process(pid: int, id: str) -> bool:
    """End a process of a container from outside, as if it had ended by itself. False if the pid is not one of this
    container's: a guest's, say."""
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

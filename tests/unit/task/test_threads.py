"""No work is lost when the system refuses a thread, once or for a while: at each place that starts one."""

from __future__ import annotations

import ast
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from shim import threads
from shim.api.events import TaskExit
from shim.api.types import Status
from shim.container.ledger import Ledger
from shim.hcs_bindings import timers
from shim.logs import Log, NullChannel
from shim.platform.exit_event import ExitEvent
from shim.platform.hvsocket_stream import Stream
from shim.task import process as process_module
from shim.task import task as task_module
from shim.task.events.publisher import Publisher
from shim.ttrpc.client import Client
from shim.ttrpc.deadlines import Deadlines
from shim.ttrpc.outbox import Outbox
from shim.ttrpc.server import Method, Server
from shim.ttrpc.sockets import SocketStream
from shim.ttrpc.status import ClosedError, StatusError
from shim.uvm.gcs import process as gcs_process
from shim.uvm.gcs.bridge import Bridge, BridgeError
from shim.uvm.gcs.process import VmProcess
from tests.support.eventually import eventually
from tests.support.thread_limit import ThreadLimit
from tests.unit.task.fakes import Harness
from tests.unit.task.test_publisher import FakeTransport

ROOT = Path(__file__).resolve().parents[3]

# Functions that start a thread themselves, and what happens if there is none. All others use `run_soon`.
DIRECT = {
    "threads.py": "run_soon itself",
    "commands/serve.py": "the daemon does not start, and `start` reports it; a pod of a shared daemon is given up",
    "commands/shared/daemon.py": "the daemon does not start, and `start` reports it",
    "container/ledger.py": "the step runs in the calling thread",
    "platform/windows/detached_process.py": "`start` fails, or sends in the calling thread",
    "platform/windows/standby_start.py": "there is no standby",
    "ttrpc/client.py": "there is no client; the caller gets the error",
    "ttrpc/server.py": "the connection is closed",
    "ttrpc/workers.py": "the call fails with ResourceExhausted",
    "uvm/gcs/bridge.py": "the boot of the VM fails",
}


@pytest.fixture
def limit(monkeypatch: pytest.MonkeyPatch) -> Iterator[ThreadLimit]:
    limit = ThreadLimit(monkeypatch)
    yield limit
    limit.close()


# One thread is refused, or all for as long as the test says.
TIMES = pytest.mark.parametrize("times", [1, 5])


def test_threads_are_started_by_run_soon() -> None:
    """A new place that starts a thread uses `run_soon`, or is listed here with what happens without a thread."""
    found = set()
    for path in sorted((ROOT / "shim").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            name = node.func if isinstance(node, ast.Call) else None
            called = name.id if isinstance(name, ast.Name) else name.attr if isinstance(name, ast.Attribute) else ""
            if called in ("start_new_thread", "start_thread", "Thread"):
                found.add(str(path.relative_to(ROOT / "shim")))
    assert found == set(DIRECT)


# `run_soon` and `run_parallel`.


def test_run_soon_without_thread_runs_when_there_is_one(limit: ThreadLimit) -> None:
    done: list[int] = []
    finished = threading.Event()
    limit.refuse(7)
    for number in range(3):
        threads.run_soon(done.append, number)
    threads.run_soon(finished.set)
    assert finished.wait(60)
    eventually(lambda: sorted(done) == [0, 1, 2])
    assert limit.refused == 7 and not threads.is_waiting()


def test_run_soon_refused_for_too_long_names_what_waits(limit: ThreadLimit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "GIVE_UP_SECONDS", 0.1)
    limit.refuse()
    finished = threading.Event()
    threads.run_soon(finished.set)
    eventually(lambda: limit.waiting == ["Event.set"])
    limit.allow()
    threads.start_waiting(lambda: False)
    assert finished.wait(60)


def test_run_soon_without_keeper_tries_again_itself(limit: ThreadLimit) -> None:
    threads.set_keeper(None)
    limit.refuse(3)
    finished = threading.Event()
    threads.run_soon(finished.set)
    assert finished.wait(60) and limit.refused == 3


def test_run_soon_without_keeper_raises_in_the_end(limit: ThreadLimit, monkeypatch: pytest.MonkeyPatch) -> None:
    threads.set_keeper(None)
    monkeypatch.setattr(threads, "CALLER_SECONDS", 0.05)
    limit.refuse()
    with pytest.raises(RuntimeError, match="can't start new thread"):
        threads.run_soon(print)


def test_run_parallel_runs_all_calls(limit: ThreadLimit) -> None:
    done: list[int] = []
    calls = [lambda number=number: done.append(number) for number in range(3 * threads.PARALLEL)]
    limit.refuse(10)
    assert threads.run_parallel(calls, 60)
    assert sorted(done) == list(range(3 * threads.PARALLEL))
    assert threads.run_parallel([], 0)


def test_run_parallel_with_hanging_call_returns_after_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "PARALLEL", 2)
    gate, done = threading.Event(), threading.Event()
    late: list[str] = []
    calls = [lambda: gate.wait(60), done.set, lambda: gate.wait(60), lambda: late.append("x")]
    try:
        assert not threads.run_parallel(calls, 0.1)
        assert done.wait(60) and not late
    finally:
        gate.set()


# The task.


@TIMES
def test_exit_without_thread_is_reported(shim: Harness, limit: ThreadLimit, times: int) -> None:
    process = shim.run()
    limit.refuse(times)
    process.exit(7)
    assert shim.state().status == Status.STOPPED
    assert shim.wait(timeout=60).exit_status == 7
    assert shim.delete().exit_status == 7
    assert shim.publisher.published() == ["create c1", "start c1", "exit c1", "delete c1"]
    assert limit.refused == times


@TIMES
def test_container_exit_without_thread_is_reported(
    shim: Harness, limit: ThreadLimit, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_module, "LOST_EXIT_TIMEOUT", 0.05)
    shim.run()
    limit.refuse(times)
    shim.containers["c1"].die()
    assert shim.wait(timeout=60).exit_status == process_module.UNKNOWN_EXIT
    assert "exit c1" in shim.publisher.published() and limit.refused >= times


@TIMES
def test_lost_exit_of_killed_process_without_thread_is_noticed(
    shim: Harness, limit: ThreadLimit, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_module, "LOST_EXIT_TIMEOUT", 0.05)
    shim.run()
    shim.containers["c1"].kill_works = False
    limit.refuse(times)
    shim.kill(9)
    assert shim.wait(timeout=60).exit_status == process_module.UNKNOWN_EXIT


@TIMES
def test_signal_without_thread_is_delivered(shim: Harness, limit: ThreadLimit, times: int) -> None:
    process = shim.run()
    limit.refuse(times)
    shim.kill(15)
    eventually(lambda: {"Signal": "CtrlShutdown"} in process.calls, f"the signal, got {process.calls}")
    process.exit(0)


@TIMES
def test_shutdown_without_thread_stops_tasks(shim: Harness, limit: ThreadLimit, times: int) -> None:
    shim.run()
    limit.refuse(times)
    shim.shutdown()
    assert shim.shutdown_requested.wait(60)
    assert "exit c1" in shim.publisher.published()


@TIMES
def test_kill_of_pod_without_thread_kills_workloads(pod: Harness, limit: ThreadLimit, times: int) -> None:
    pod.run("pod")
    workload = pod.run("w1")
    limit.refuse(times)
    pod.kill(9, id="pod", all=True)
    assert pod.wait(id="w1", timeout=60).exit_status
    assert "terminate" in workload.calls


# Events and ttrpc.


@TIMES
def test_event_without_thread_is_published(limit: ThreadLimit, times: int) -> None:
    transport = FakeTransport()
    publisher = Publisher(transport.connect, Log(NullChannel()))
    limit.refuse(times)
    publisher.publish("/tasks/exit", TaskExit(container_id="c1"))
    eventually(lambda: transport.topics() == ["/tasks/exit"])
    publisher.close()


@TIMES
def test_deadline_without_thread_expires(limit: ThreadLimit, times: int) -> None:
    expired = threading.Event()
    deadlines = Deadlines()
    limit.refuse(times)
    deadlines.watch(SimpleNamespace(deadline=0.0, done=False, expire=expired.set))
    assert expired.wait(60)
    again = threading.Event()
    deadlines.watch(SimpleNamespace(deadline=0.0, done=False, expire=again.set))
    assert again.wait(60)
    deadlines.close()


@TIMES
def test_queued_response_without_thread_is_sent(limit: ThreadLimit, times: int) -> None:
    ours, theirs = socket.socketpair()
    stream = SocketStream(ours)
    outbox = Outbox(stream, stream.close)
    data = b"x" * (4 << 20)  # more than the kernel holds
    limit.refuse(times)
    outbox.write(data)
    outbox.write(b"end")
    received = 0
    theirs.settimeout(60)
    while received < len(data) + 3:
        received += len(theirs.recv(1 << 20))
    assert outbox.flush(60)
    outbox.close()
    stream.close()
    outbox.join()
    theirs.close()


# The system refuses a thread with RuntimeError, the interpreter with MemoryError.
REFUSALS = pytest.mark.parametrize("refusal", [RuntimeError("can't start new thread"), MemoryError()], ids=repr)


@REFUSALS
def test_client_without_thread_closes_its_stream(monkeypatch: pytest.MonkeyPatch, refusal: Exception) -> None:
    def refuse(*_: object) -> None:
        raise type(refusal)(*refusal.args)  # its traceback refers to the call: it must not outlive the test

    monkeypatch.setattr("shim.ttrpc.client.start_thread", refuse)
    ours, theirs = socket.socketpair()
    with theirs:
        with pytest.raises(type(refusal)):
            Client(ours)
        theirs.settimeout(60)
        assert theirs.recv(1) == b"" and ours.fileno() == -1


@REFUSALS
def test_call_without_thread_is_refused_and_the_connection_stays(
    monkeypatch: pytest.MonkeyPatch, refusal: Exception
) -> None:
    def refuse(*_: object) -> None:
        raise type(refusal)(*refusal.args)  # its traceback refers to the call: it must not outlive the test

    server = Server({"s": {"M": Method.worker(lambda call: b"done")}})
    ours, theirs = socket.socketpair()
    assert server.attach(ours) is not None
    with Client(theirs) as client:
        with monkeypatch.context() as patch:
            patch.setattr("shim.ttrpc.workers.start_thread", refuse)
            with pytest.raises(StatusError, match="no thread for this call"):
                client.call("s", "M", timeout=60)
        assert client.call("s", "M", timeout=60) == b"done"
    assert server.shutdown(60)


@REFUSALS
def test_connection_without_thread_is_closed(monkeypatch: pytest.MonkeyPatch, refusal: Exception) -> None:
    def refuse(*_: object) -> None:
        raise type(refusal)(*refusal.args)  # its traceback refers to the call: it must not outlive the test

    server = Server({}, lambda error: None)
    ours, theirs = socket.socketpair()
    monkeypatch.setattr("shim.ttrpc.server.start_thread", refuse)
    with theirs:
        assert server.attach(ours) is None and server.connections() == []
        theirs.settimeout(60)
        assert theirs.recv(1) == b""


# Threads that serve many calls do not end with one of them, such as by a lack of memory.


def test_deadline_that_raises_does_not_keep_others_from_expiring(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise MemoryError

    monkeypatch.setattr("sys.excepthook", lambda *_: None)
    deadlines = Deadlines()
    for _ in range(2):
        expired = threading.Event()
        deadlines.watch(SimpleNamespace(deadline=0.0, done=False, expire=fail))
        deadlines.watch(SimpleNamespace(deadline=0.0, done=False, expire=expired.set))
        assert expired.wait(60)
    deadlines.close()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_writer_that_raises_closes_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.unraisablehook", lambda *_: None)
    ours, theirs = socket.socketpair()
    stream = SocketStream(ours)
    closed = threading.Event()

    class Failing:
        def send_now(self, data: bytes) -> int:
            return 0

        def sendall(self, data: bytes) -> None:
            raise MemoryError

    outbox = Outbox(Failing(), closed.set)  # type: ignore[arg-type]
    outbox.write(b"response")
    assert closed.wait(60) and not outbox.flush(60)
    with pytest.raises(ClosedError):
        outbox.write(b"next")
    outbox.join()
    stream.close()
    theirs.close()


# HCS, utility VMs, the ledger.


@TIMES
def test_timer_without_thread_fires(limit: ThreadLimit, times: int) -> None:
    fired = threading.Event()
    limit.refuse(times)
    timers.after(0.0, fired.set)
    assert fired.wait(60)


@TIMES
def test_kill_watch_without_thread_ends_vm(
    limit: ThreadLimit, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gcs_process, "KILL_SECONDS", 0.05)
    terminated = threading.Event()
    process = VmProcess.__new__(VmProcess)
    ExitEvent.__init__(process)
    process._exited, process._watched, process.pid, process._container_id = threading.Event(), False, 1, "c1"
    process.is_init = True
    process._vm = SimpleNamespace(terminate_unresponsive=lambda reason: terminated.set())  # type: ignore[assignment]
    limit.refuse(times)
    process._watch_exit_once()
    assert terminated.wait(60)


@REFUSALS
def test_bridge_without_thread_closes_its_stream(monkeypatch: pytest.MonkeyPatch, refusal: Exception) -> None:
    def refuse(*_: object) -> None:
        raise type(refusal)(*refusal.args)  # its traceback refers to the call: it must not outlive the test

    ours, theirs = socket.socketpair()
    ended: list[BridgeError] = []
    bridge = Bridge(Stream(ours), lambda _: None, ended.append)
    monkeypatch.setattr(bridge._reader, "start", refuse)
    with theirs:
        with pytest.raises(type(refusal)):
            bridge.start()
        theirs.settimeout(60)
        assert theirs.recv(1) == b"" and len(ended) == 1


@REFUSALS
def test_release_without_thread_runs_in_the_calling_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refusal: Exception
) -> None:
    def refuse(*_: object) -> None:
        raise type(refusal)(*refusal.args)  # its traceback refers to the call: it must not outlive the test

    monkeypatch.setattr("shim.container.ledger.start_new_thread", refuse)
    monkeypatch.setattr("shim.container.cleanup.release_mount", lambda fields, deadline: None)
    ledger = Ledger(str(tmp_path))
    ledger.enter("mount", path="/nowhere")
    assert ledger.release_all(10) == [] and ledger.entries() == []

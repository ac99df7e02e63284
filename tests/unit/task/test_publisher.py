"""The publisher: order, retries and limits, with a fake transport."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from shim.api.events import TaskCreate, TaskDelete, TaskExit, TaskStart
from shim.logs import Log, NullChannel
from shim.task.events import publisher as module
from shim.task.events.publisher import EventRejectedError, Publisher, QueuedEvent
from tests.support.eventually import eventually


class FakeTransport:
    """A transport to a containerd that is up or down; `connect` returns itself."""

    def __init__(self) -> None:
        self.up = threading.Event()
        self.up.set()
        self.sent: list[QueuedEvent] = []
        self.attempts = 0
        self.connections = 0
        self.closed = 0
        self.rejected: set[str] = set()
        self.broken = False  # the connection, not containerd
        self.answering = threading.Event()
        self.answering.set()

    def connect(self) -> FakeTransport:
        if not self.up.is_set():
            self.attempts += 1
            raise ConnectionRefusedError("down")
        self.connections += 1
        self.broken = False
        return self

    def send(self, item: QueuedEvent) -> None:
        self.attempts += 1
        assert self.answering.wait(60)
        if not self.up.is_set() or self.broken:
            raise ConnectionResetError("went down")
        if item.topic in self.rejected:
            raise EventRejectedError("namespace is invalid")
        self.sent.append(item)

    def close(self) -> None:
        self.closed += 1

    def topics(self) -> list[str]:
        return [item.topic for item in self.sent]


@pytest.fixture
def transport() -> FakeTransport:
    return FakeTransport()


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIRST_PAUSE", 0.005)
    monkeypatch.setattr(module, "LONGEST_PAUSE", 0.02)


def new_publisher(transport: FakeTransport, **arguments: Any) -> Publisher:
    return Publisher(transport.connect, Log(NullChannel()), **arguments)


def test_events_arrive_in_order_over_one_connection(transport: FakeTransport) -> None:
    publisher = new_publisher(transport)
    for number in range(100):
        publisher.publish(f"/tasks/{number}", TaskStart(container_id="c", pid=number))
    publisher.close()
    assert transport.topics() == [f"/tasks/{number}" for number in range(100)]
    assert transport.connections == 1
    assert [TaskStart.decode(item.payload).pid for item in transport.sent] == list(range(100))
    assert {item.type_name for item in transport.sent} == {"containerd.events.TaskStart"}


def test_order_is_kept_while_containerd_is_down(transport: FakeTransport) -> None:
    publisher = new_publisher(transport)
    publisher.publish("/1", TaskCreate())
    eventually(lambda: transport.topics() == ["/1"], "the first event")
    transport.up.clear()
    publisher.publish("/2", TaskStart())
    eventually(lambda: transport.attempts >= 4, "tries")
    publisher.publish("/3", TaskExit())
    publisher.publish("/4", TaskDelete())
    happened = time.time_ns()
    transport.up.set()
    eventually(lambda: len(transport.sent) == 4, "all events")
    publisher.close()
    assert transport.topics() == ["/1", "/2", "/3", "/4"]
    assert transport.sent[3].time_ns <= happened, "the time is the event's, not the delivery's"


def test_stale_connection_is_replaced_without_pause(transport: FakeTransport, monkeypatch: pytest.MonkeyPatch) -> None:
    """containerd was restarted while there were no events: the old connection is broken, a new one works."""
    monkeypatch.setattr(module, "FIRST_PAUSE", 1000.0)
    publisher = new_publisher(transport)
    publisher.publish("/1", TaskCreate())
    eventually(lambda: transport.topics() == ["/1"], "the first event")
    transport.broken = True
    publisher.publish("/2", TaskStart())
    eventually(lambda: transport.topics() == ["/1", "/2"], "the second event")
    publisher.close()
    assert transport.connections == 2


def test_publish_does_not_block_on_containerd(transport: FakeTransport) -> None:
    transport.answering.clear()  # it has accepted the connection and does not answer
    publisher = new_publisher(transport)
    done = threading.Event()

    def publish() -> None:
        for _ in range(50):
            publisher.publish("/tasks/start", TaskStart())
        done.set()

    threading.Thread(target=publish, daemon=True).start()
    assert done.wait(60)
    transport.answering.set()
    publisher.close()
    assert len(transport.sent) == 50


def test_rejected_event_does_not_block_the_queue(transport: FakeTransport) -> None:
    transport.rejected.add("/bad")
    publisher = new_publisher(transport)
    for topic in ("/good", "/bad", "/better"):
        publisher.publish(topic, TaskStart())
    publisher.close()
    assert transport.topics() == ["/good", "/better"]


def test_full_queue_keeps_exits_and_deletes(transport: FakeTransport) -> None:
    transport.up.clear()
    publisher = new_publisher(transport, limit=6)
    for topic in ("head", "create", "start", "exit", "create", "delete", "start", "exit", "delete", "exit"):
        publisher.publish(f"/tasks/{topic}", TaskStart())
    transport.up.set()
    eventually(lambda: len(transport.sent) >= 6, "what was kept")
    publisher.close()
    # The head was in transit and stays; then all exits and deletes, in order.
    assert transport.topics() == [f"/tasks/{topic}" for topic in ("head", "exit", "delete", "exit", "delete", "exit")]


def test_old_events_are_dropped(transport: FakeTransport, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_AGE", 0.05)
    transport.up.clear()
    publisher = new_publisher(transport)
    publisher.publish("/old", TaskStart())
    eventually(lambda: not publisher._queue, "the event to be given up")
    transport.up.set()
    publisher.publish("/new", TaskStart())
    publisher.close()
    assert transport.topics() == ["/new"]


def test_close_times_out_when_containerd_is_down(transport: FakeTransport) -> None:
    transport.up.clear()
    publisher = new_publisher(transport)
    publisher.publish("/x", TaskStart())
    done = threading.Event()
    threading.Thread(target=lambda: (publisher.close(0.1), done.set()), daemon=True).start()
    assert done.wait(60)
    assert transport.sent == []
    assert publisher._idle.wait(60), "its thread ends: the process may serve other pods"


def test_close_flushes_the_queue(transport: FakeTransport, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LONGEST_PAUSE", 60.0)
    monkeypatch.setattr(module, "FIRST_PAUSE", 60.0)
    transport.up.clear()
    publisher = new_publisher(transport)
    publisher.publish("/x", TaskStart())
    eventually(lambda: transport.attempts, "a try, and then a long pause")
    transport.up.set()
    publisher.close(20)  # cuts the pause short
    assert transport.topics() == ["/x"]


def test_no_thread_or_connection_without_events(transport: FakeTransport) -> None:
    before = threading.active_count()
    publisher = new_publisher(transport)
    assert threading.active_count() == before
    publisher.close()
    assert transport.connections == 0


def test_idle_thread_exits_and_restarts(transport: FakeTransport) -> None:
    publisher = new_publisher(transport, idle_timeout=0.01)
    for number in range(3):
        publisher.publish(f"/{number}", TaskStart())
        eventually(lambda: not publisher._running, "it stays although there is nothing to do")
    assert transport.topics() == ["/0", "/1", "/2"] and transport.connections == 1
    publisher.close()
    assert transport.closed == 1


def test_events_after_close_are_dropped(transport: FakeTransport) -> None:
    publisher = new_publisher(transport)
    publisher.close()
    publisher.publish("/late", TaskStart())
    assert transport.sent == [] and not publisher._queue

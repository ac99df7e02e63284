"""The publisher: order, patience, bounds. Its way to containerd is stood in for by one that can be opened and shut."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from shim.api.events import TaskCreate, TaskDelete, TaskExit, TaskStart
from shim.logs import Log, NullChannel
from shim.task.events import publisher as events
from shim.task.events.publisher import EventRejectedError, Publisher, QueuedEvent
from tests.support.eventually import eventually


class Way:
    """To a containerd that is up or down. Also the sender itself."""

    def __init__(self) -> None:
        self.up = threading.Event()
        self.up.set()
        self.got: list[QueuedEvent] = []
        self.tries = 0
        self.connections = 0
        self.closed = 0
        self.refused: set[str] = set()
        self.broken = False  # the connection, not containerd
        self.held = threading.Event()
        self.held.set()

    def connect(self) -> Way:
        if not self.up.is_set():
            self.tries += 1
            raise ConnectionRefusedError("down")
        self.connections += 1
        self.broken = False
        return self

    def send(self, item: QueuedEvent) -> None:
        self.tries += 1
        assert self.held.wait(60)
        if not self.up.is_set() or self.broken:
            raise ConnectionResetError("went down")
        if item.topic in self.refused:
            raise EventRejectedError("namespace is invalid")
        self.got.append(item)

    def close(self) -> None:
        self.closed += 1

    def topics(self) -> list[str]:
        return [item.topic for item in self.got]


@pytest.fixture
def way() -> Way:
    return Way()


@pytest.fixture(autouse=True)
def brisk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "FIRST_PAUSE", 0.005)
    monkeypatch.setattr(events, "LONGEST_PAUSE", 0.02)


def publisher(way: Way, **arguments: Any) -> Publisher:
    return Publisher(way.connect, Log(NullChannel()), **arguments)


def test_events_arrive_in_order_over_one_connection(way: Way) -> None:
    made = publisher(way)
    for number in range(100):
        made.publish(f"/tasks/{number}", TaskStart(container_id="c", pid=number))
    made.close()
    assert way.topics() == [f"/tasks/{number}" for number in range(100)]
    assert way.connections == 1
    assert [TaskStart.decode(item.payload).pid for item in way.got] == list(range(100))
    assert {item.type_name for item in way.got} == {"containerd.events.TaskStart"}


def test_order_is_kept_while_containerd_is_down(way: Way) -> None:
    made = publisher(way)
    made.publish("/1", TaskCreate())
    eventually(lambda: way.topics() == ["/1"], "the first event")
    way.up.clear()
    made.publish("/2", TaskStart())
    eventually(lambda: way.tries >= 4, "tries")
    made.publish("/3", TaskExit())
    made.publish("/4", TaskDelete())
    happened = time.time_ns()
    way.up.set()
    eventually(lambda: len(way.got) == 4, "all events")
    made.close()
    assert way.topics() == ["/1", "/2", "/3", "/4"]
    assert way.got[3].time_ns <= happened, "the time is the event's, not the delivery's"


def test_stale_connection_is_replaced_without_pause(way: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    """containerd was restarted while there was nothing to tell: the old connection is dead, a new one is not."""
    monkeypatch.setattr(events, "FIRST_PAUSE", 1000.0)
    made = publisher(way)
    made.publish("/1", TaskCreate())
    eventually(lambda: way.topics() == ["/1"], "the first event")
    way.broken = True
    made.publish("/2", TaskStart())
    eventually(lambda: way.topics() == ["/1", "/2"], "the second event")
    made.close()
    assert way.connections == 2


def test_publish_does_not_block_on_containerd(way: Way) -> None:
    way.held.clear()  # it has taken the connection and says nothing
    made = publisher(way)
    done = threading.Event()

    def publish() -> None:
        for _ in range(50):
            made.publish("/tasks/start", TaskStart())
        done.set()

    threading.Thread(target=publish, daemon=True).start()
    assert done.wait(60)
    way.held.set()
    made.close()
    assert len(way.got) == 50


def test_rejected_event_does_not_block_the_queue(way: Way) -> None:
    way.refused.add("/bad")
    made = publisher(way)
    for topic in ("/good", "/bad", "/better"):
        made.publish(topic, TaskStart())
    made.close()
    assert way.topics() == ["/good", "/better"]


def test_full_queue_keeps_exits_and_deletes(way: Way) -> None:
    way.up.clear()
    made = publisher(way, limit=6)
    for topic in ("head", "create", "start", "exit", "create", "delete", "start", "exit", "delete", "exit"):
        made.publish(f"/tasks/{topic}", TaskStart())
    way.up.set()
    eventually(lambda: len(way.got) >= 6, "what was kept")
    made.close()
    # The head was being tried all the time and stays; then everything that somebody waits for, in order.
    assert way.topics() == [f"/tasks/{topic}" for topic in ("head", "exit", "delete", "exit", "delete", "exit")]


def test_old_events_are_dropped(way: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "MAX_AGE", 0.05)
    way.up.clear()
    made = publisher(way)
    made.publish("/old", TaskStart())
    eventually(lambda: not made._queue, "the event to be given up")
    way.up.set()
    made.publish("/new", TaskStart())
    made.close()
    assert way.topics() == ["/new"]


def test_close_times_out_when_containerd_is_down(way: Way) -> None:
    way.up.clear()
    made = publisher(way)
    made.publish("/x", TaskStart())
    done = threading.Event()
    threading.Thread(target=lambda: (made.close(0.1), done.set()), daemon=True).start()
    assert done.wait(60)
    assert way.got == []


def test_close_flushes_the_queue(way: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "LONGEST_PAUSE", 60.0)
    monkeypatch.setattr(events, "FIRST_PAUSE", 60.0)
    way.up.clear()
    made = publisher(way)
    made.publish("/x", TaskStart())
    eventually(lambda: way.tries, "a try, and then a long pause")
    way.up.set()
    made.close(20)  # cuts the pause short
    assert way.topics() == ["/x"]


def test_no_thread_or_connection_without_events(way: Way) -> None:
    before = threading.active_count()
    made = publisher(way)
    assert threading.active_count() == before
    made.close()
    assert way.connections == 0


def test_idle_thread_exits_and_restarts(way: Way) -> None:
    made = publisher(way, idle_timeout=0.01)
    for number in range(3):
        made.publish(f"/{number}", TaskStart())
        eventually(lambda: not made._running, "it stays although there is nothing to do")
    assert way.topics() == ["/0", "/1", "/2"] and way.connections == 1
    made.close()
    assert way.closed == 1


def test_events_after_close_are_dropped(way: Way) -> None:
    made = publisher(way)
    made.close()
    made.publish("/late", TaskStart())
    assert way.got == [] and not made._queue

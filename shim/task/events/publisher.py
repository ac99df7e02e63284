"""Publishes events to containerd: in order, with retries, and without blocking the caller.

`publish` appends to a queue and returns. A thread, which runs only while there are events, sends the head of the queue
over containerd's ttrpc endpoint and removes it only when containerd has accepted it: while containerd restarts, the
head is retried with growing pauses and everything behind it waits, so the order is kept. Retrying single events would
let later events overtake them.

The queue is limited in size and age. When it is full, the oldest event that containerd can do without is dropped first;
exits and deletes are dropped only when there is nothing else, since a client that waits for them would wait for ever.
"""

from __future__ import annotations

import time
from _thread import allocate_lock

from shim.threads import run_soon

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    from shim.logs import Log

    class Event(Protocol):
        FULL_NAME: str

        def encode(self) -> bytes: ...

    class EventTransport(Protocol):
        """A connection to containerd. It may block for a few seconds; `send` raises `EventRejectedError` or any other
        error."""

        def send(self, queued: QueuedEvent) -> None: ...

        def close(self) -> None: ...


MAX_QUEUED = 2048
MAX_AGE = 300.0
FIRST_PAUSE = 0.2
LONGEST_PAUSE = 5.0
FLUSH_TIMEOUT = 1.0
CLOSING_PAUSE = 0.05
# How long the thread waits for another event before it exits. The connection stays open.
IDLE_TIMEOUT = 5.0

# Clients wait for these.
_MUST_DELIVER = ("/tasks/exit", "/tasks/delete")


class EventRejectedError(Exception):
    """containerd has rejected the event: sending it again would not help."""


class QueuedEvent:
    """An encoded event, with the time at which it happened."""

    __slots__ = ("payload", "queued_at", "time_ns", "topic", "type_name")

    def __init__(self, topic: str, type_name: str, payload: bytes) -> None:
        self.topic = topic
        self.type_name = type_name
        self.payload = payload
        self.time_ns = time.time_ns()
        self.queued_at = time.monotonic()


class _WakeEvent:
    """Wakes its one waiting thread. Any number of `set` before a `wait` wake it once."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = allocate_lock()
        self._lock.acquire()

    def set(self) -> None:
        try:
            self._lock.release()
        except RuntimeError:
            pass  # set already

    def wait(self, timeout: float) -> bool:
        """Whether it was set in time."""
        return self._lock.acquire(timeout=timeout)


class Publisher:
    """The queue and its thread. `connect` opens an `EventTransport`, and is called again after each failure. The
    `observers` are called with each event; they must not block."""

    def __init__(
        self,
        connect: Callable[[], EventTransport],
        log: Log,
        observe: Callable[[str, Event], object] | None = None,
        *,
        limit: int = MAX_QUEUED,
        idle_timeout: float = IDLE_TIMEOUT,
    ) -> None:
        self._connect = connect
        self._log = log
        self.observers: list[Callable[[str, Event], object]] = [] if observe is None else [observe]
        #: How many events containerd did not get, because the queue was full or they were too old.
        self.dropped = 0
        self._limit = limit
        self._idle_timeout = idle_timeout
        self._lock = allocate_lock()
        # Only the thread removes the head, and only the thread uses the transport.
        self._queue: list[QueuedEvent] = []
        self._running = False
        self._closing = False
        #: `close` has given up: the thread must not try for ever in a process that serves other pods.
        self._abandoned = False
        self._work = _WakeEvent()
        self._idle = _WakeEvent()
        self._transport: EventTransport | None = None

    def publish(self, topic: str, event: Event) -> None:
        """Queue an event. Never blocks on containerd; after `close` the event is dropped."""
        queued = QueuedEvent(topic, event.FULL_NAME, event.encode())
        dropped = None
        with self._lock:
            if self._closing:
                return
            if len(self._queue) >= self._limit:
                dropped = self._drop_one()
                self.dropped += 1
            self._queue.append(queued)
            if not self._running:
                run_soon(self._run)
                self._running = True
        self._work.set()
        for observe in self.observers:
            observe(topic, event)
        if dropped is not None:
            self._log.warning("event queue full, dropping event", topic=dropped.topic)

    def close(self, timeout: float = FLUSH_TIMEOUT) -> None:
        """Send the queued events, for at most this time, then stop. Called once."""
        with self._lock:
            self._closing = True
            running = self._running
        if not running:
            self._disconnect()
            return
        self._work.set()
        self._idle.wait(timeout)
        with self._lock:
            lost = len(self._queue)
            self._abandoned = True
        if lost:
            self._log.warning("shutting down with undelivered events", count=lost)

    @property
    def queued(self) -> int:
        """How many events wait for containerd."""
        return len(self._queue)

    def _drop_one(self) -> QueuedEvent:
        # The head may be in transit: it stays.
        for index in range(1, len(self._queue)):
            if self._queue[index].topic not in _MUST_DELIVER:
                return self._queue.pop(index)
        return self._queue.pop(1)

    def _run(self) -> None:
        pause = FIRST_PAUSE
        while True:
            with self._lock:
                queued = self._queue[0] if self._queue and not self._abandoned else None
                closing = self._closing
            if queued is None:
                if closing:
                    self._disconnect()
                    self._idle.set()
                    return
                if not self._work.wait(self._idle_timeout) and self._exit_if_idle():
                    return
                continue
            was_connected = self._transport is not None
            error = self._send(queued)
            if error is not None and was_connected:
                # The connection may lead to a containerd that has been restarted since.
                error = self._send(queued)
            if error is None:
                pause = FIRST_PAUSE
            elif time.monotonic() - queued.queued_at > MAX_AGE:
                self.dropped += 1
                self._log.warning("event too old, dropping event", topic=queued.topic, error=error)
            else:
                self._log.debug("failed to publish event, retrying", topic=queued.topic, error=error)
                self._wait_to_retry(pause)
                pause = min(pause * 2, LONGEST_PAUSE)
                continue
            with self._lock:
                self._queue.pop(0)

    def _exit_if_idle(self) -> bool:
        with self._lock:
            if self._queue or self._closing:
                return False
            self._running = False
            return True

    def _wait_to_retry(self, seconds: float) -> None:
        """`close` shortens it, since it has little time; new events do not, since they queue behind this one."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if self._closing:
                time.sleep(min(left, CLOSING_PAUSE))
                return
            self._work.wait(left)

    def _send(self, queued: QueuedEvent) -> Exception | None:
        """None when the event must not be sent again."""
        try:
            if self._transport is None:
                self._transport = self._connect()
            self._transport.send(queued)
        except EventRejectedError as error:
            self._log.error("containerd rejected event", topic=queued.topic, error=error)
        except Exception as error:
            self._disconnect()
            return error
        return None

    def _disconnect(self) -> None:
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.close()

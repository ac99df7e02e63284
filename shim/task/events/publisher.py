"""Events to containerd: in order, patiently, and never in anybody's way.

`publish` appends to a queue and returns. One thread, there while there are events, sends the head of the queue over
containerd's ttrpc endpoint and takes it off only when containerd has it: while containerd restarts, the head is
tried again with growing pauses and everything behind it waits, so the order holds. A publisher that retried events
one by one would let later ones overtake them.

Bounded in number and in age. When the queue is full the oldest event that containerd can do without goes first;
exits and deletes go only when there is nothing else, since whoever waits for them would wait for ever.
"""

from __future__ import annotations

import time
from _thread import allocate_lock, start_new_thread

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    from shim.logs import Log

    class Event(Protocol):
        FULL_NAME: str

        def encode(self) -> bytes: ...

    class Sender(Protocol):
        """One way to containerd. It may block for a few seconds; `send` raises `RefusedError` or any other error."""

        def send(self, item: Queued) -> None: ...

        def close(self) -> None: ...


MAX_QUEUED = 2048
MAX_AGE = 300.0
FIRST_PAUSE = 0.2
LONGEST_PAUSE = 5.0
FLUSH_TIME = 1.0
CLOSING_PAUSE = 0.05
# How long the thread waits for another event before it ends. The connection stays.
IDLE_TIME = 5.0

# What somebody waits for.
_PRECIOUS = ("/tasks/exit", "/tasks/delete")


class RefusedError(Exception):
    """containerd has seen the event and does not want it: sending it again would not help."""


class Queued:
    """An event on its way, with the time at which it happened."""

    __slots__ = ("payload", "queued_at", "time_ns", "topic", "type_name")

    def __init__(self, topic: str, type_name: str, payload: bytes) -> None:
        self.topic = topic
        self.type_name = type_name
        self.payload = payload
        self.time_ns = time.time_ns()
        self.queued_at = time.monotonic()


class _Bell:
    """Wakes its one listener. Rung once or many times before somebody listens, it is heard once."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = allocate_lock()
        self._lock.acquire()

    def ring(self) -> None:
        try:
            self._lock.release()
        except RuntimeError:
            pass  # rung already

    def wait(self, timeout: float) -> bool:
        """Whether it has rung."""
        return self._lock.acquire(timeout=timeout)


class Publisher:
    """The queue and its thread. `connect` makes a `Sender`, and is asked again after each failure."""

    def __init__(
        self, connect: Callable[[], Sender], log: Log, *, limit: int = MAX_QUEUED, idle_time: float = IDLE_TIME
    ) -> None:
        self._connect = connect
        self._log = log
        self._limit = limit
        self._idle_time = idle_time
        self._lock = allocate_lock()
        # Only the thread takes the head off, and only the thread touches the sender.
        self._queue: list[Queued] = []
        self._running = False
        self._closing = False
        self._work = _Bell()
        self._idle = _Bell()
        self._sender: Sender | None = None

    def publish(self, topic: str, event: Event) -> None:
        """Queue an event. Never blocks on containerd; after `close` the event is dropped."""
        item = Queued(topic, event.FULL_NAME, event.encode())
        dropped = None
        with self._lock:
            if self._closing:
                return
            if len(self._queue) >= self._limit:
                dropped = self._drop_one()
            self._queue.append(item)
            if not self._running:
                start_new_thread(self._run, ())
                self._running = True
        self._work.ring()
        if dropped is not None:
            self._log.warning("event dropped: containerd has taken none for too long", topic=dropped.topic)

    def close(self, timeout: float = FLUSH_TIME) -> None:
        """Send what is queued, for at most this long; then stop. Called once."""
        with self._lock:
            self._closing = True
            running = self._running
        if not running:
            self._disconnect()
            return
        self._work.ring()
        self._idle.wait(timeout)
        with self._lock:
            lost = len(self._queue)
        if lost:
            self._log.warning("shutting down with events that containerd has not taken", count=lost)

    def _drop_one(self) -> Queued:
        # The head may be on the wire right now: it stays.
        for index in range(1, len(self._queue)):
            if self._queue[index].topic not in _PRECIOUS:
                return self._queue.pop(index)
        return self._queue.pop(1)

    def _run(self) -> None:
        pause = FIRST_PAUSE
        while True:
            with self._lock:
                item = self._queue[0] if self._queue else None
                closing = self._closing
            if item is None:
                if closing:
                    self._disconnect()
                    self._idle.ring()
                    return
                if not self._work.wait(self._idle_time) and self._may_end():
                    return
                continue
            was_connected = self._sender is not None
            error = self._try(item)
            if error is not None and was_connected:
                # The connection may have been to a containerd that has long been followed by another.
                error = self._try(item)
            if error is None:
                pause = FIRST_PAUSE
            elif time.monotonic() - item.queued_at > MAX_AGE:
                self._log.warning("event dropped: containerd has not taken it in time", topic=item.topic, error=error)
            else:
                self._log.debug("event not taken yet", topic=item.topic, error=error)
                self._pause(pause)
                pause = min(pause * 2, LONGEST_PAUSE)
                continue
            with self._lock:
                self._queue.pop(0)

    def _may_end(self) -> bool:
        with self._lock:
            if self._queue or self._closing:
                return False
            self._running = False
            return True

    def _pause(self, seconds: float) -> None:
        """Cut short by `close`, which leaves little time, but not by new events, which have to wait their turn."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if self._closing:
                time.sleep(min(left, CLOSING_PAUSE))
                return
            self._work.wait(left)

    def _try(self, item: Queued) -> Exception | None:
        """None when the event needs no further try."""
        try:
            if self._sender is None:
                self._sender = self._connect()
            self._sender.send(item)
        except RefusedError as error:
            self._log.error("event refused by containerd", topic=item.topic, error=error)
        except Exception as error:
            self._disconnect()
            return error
        return None

    def _disconnect(self) -> None:
        sender, self._sender = self._sender, None
        if sender is not None:
            sender.close()

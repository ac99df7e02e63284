"""The queue of received messages of a stream, for server and client streams.

ttrpc has no flow control, and the reading thread must not wait for one slow consumer. So the queue is bounded, and only
the stream whose messages are not consumed fails.
"""

from __future__ import annotations

from _queue import Empty, SimpleQueue
from _thread import allocate_lock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

LIMIT = 16 << 20
PER_MESSAGE = 64  # added for each message, so that empty ones count


class Messages:
    __slots__ = ("_closed", "_end", "_lock", "_queue", "_size")

    def __init__(self) -> None:
        self._queue: SimpleQueue[bytes | None] = SimpleQueue()
        self._lock = allocate_lock()
        self._size = 0
        self._closed = False
        self._end: BaseException | None = None

    def put(self, data: bytes) -> bool:
        """False if the queue is full."""
        size = len(data) + PER_MESSAGE
        with self._lock:
            if self._closed:
                return True
            if self._size + size > LIMIT:
                return False
            self._size += size
        self._queue.put(data)
        return True

    def close(self, error: BaseException | None = None) -> None:
        """No more messages follow: the peer has closed the stream, or an error occurred. The first reason counts."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._end = error
        self._queue.put(None)

    def get(self, timeout: float | None = None) -> bytes | None:
        """The next message; None when the peer has no more. Raises TimeoutError, or what ended the stream."""
        try:
            data = self._queue.get(True, timeout)
        except Empty:
            raise TimeoutError("no message came in time") from None
        if data is None:
            self._queue.put(None)  # for the next call
            if self._end is not None:
                raise self._end
            return None
        with self._lock:
            self._size -= len(data) + PER_MESSAGE
        return data

    def __iter__(self) -> Iterator[bytes]:
        while (data := self.get()) is not None:
            yield data

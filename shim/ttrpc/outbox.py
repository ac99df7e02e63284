"""The send queue of a connection: sends in order, from any thread, without waiting for the peer.

A write goes directly to the kernel if there is space. If not (the peer does not read), the rest is queued, and a writer
thread, started only then, sends it. So a response to a slow peer never delays the thread that sends it, nor another
connection. The queue is bounded twice:

- above HIGH_WATER the connection stops reading requests and streams stop sending (`wait_for_space`), so a peer that
  does not read cannot request more;
- above LIMIT, which only responses to earlier calls can reach, the connection is closed.

On Windows the system cancels writes that are pending when the thread that started them exits. Such a stream
(`WRITES_BELONG_TO_THREAD`) is written to directly by the thread that owns the connection only (`own`); for all other
threads the writer thread writes, which waits for the end of each write.

There is no timeout: a peer that was stopped for an hour and then reads gets every response. containerd takes a shim for
dead if its connection is closed.
"""

from __future__ import annotations

from _thread import allocate_lock, get_ident
from time import monotonic

from shim.threads import run_soon
from shim.ttrpc.status import ClosedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _thread import LockType
    from collections.abc import Callable

    from shim.ttrpc.transport import Stream

HIGH_WATER = 1 << 20
LIMIT = 32 << 20
PIECE = 256 << 10
LINGER = 5.0  # how long an idle writer thread stays


class Outbox:
    __slots__ = (
        "_broken", "_closed", "_lock", "_owner", "_queue", "_send_now", "_stream", "_waiting", "_writer",
        "_writer_done", "size",
    )  # fmt: skip

    def __init__(self, stream: Stream, broken: Callable[[], None]) -> None:
        self._stream = stream
        self._send_now: Callable[[bytes], int] | None = getattr(stream, "send_now", None)
        # The only thread that may call send_now; None: any may, 0: there is none yet.
        self._owner: int | None = 0 if getattr(stream, "WRITES_BELONG_TO_THREAD", False) else None
        self._broken = broken  # called, possibly more than once, when nothing can be sent any more
        self._lock = allocate_lock()
        self._queue: list[bytes] = []
        self._writer: LockType | None = None  # released to wake the writer thread; None: there is none
        self._writer_done = allocate_lock()  # held by the writer thread while it runs
        self._waiting: list[LockType] = []
        self._closed = False
        self.size = 0  # bytes that the kernel has not accepted yet

    def own(self) -> None:
        """The calling thread lives as long as the connection: it may leave a write pending."""
        if self._owner is not None:
            self._owner = get_ident()

    def write(self, data: bytes) -> None:
        """Send or queue. Raises ClosedError if the connection is closed."""
        with self._lock:
            if self._closed:
                raise ClosedError
            if not self.size:
                if self._send_now is not None and (self._owner is None or self._owner == get_ident()):
                    try:
                        sent = self._send_now(data)
                    except OSError:
                        sent = -1
                    if sent == len(data):
                        return
                    if sent:
                        data = data[sent:] if sent > 0 else b""
                if data:
                    self._queue.append(data)
                    self.size = len(data)
                    self._wake_writer()
                    return
            elif self.size + len(data) <= LIMIT:
                self._queue.append(data)
                self.size += len(data)
                if self._writer is None:
                    self._wake_writer()  # the last attempt to start it has failed
                return
            self._end()
        self._broken()
        raise ClosedError

    def wait_for_space(self, timeout: float | None = None) -> bool:
        """Wait until the queue is below HIGH_WATER. False after the timeout or if the connection is closed."""
        return self._wait(HIGH_WATER, timeout)

    def flush(self, timeout: float) -> bool:
        """Wait until the kernel has accepted everything."""
        return self._wait(0, timeout)

    def _wait(self, mark: int, timeout: float | None) -> bool:
        deadline = None if timeout is None else monotonic() + timeout
        while True:
            with self._lock:
                if self._closed:
                    return False
                if self.size <= mark:
                    return True
                woken = allocate_lock()
                woken.acquire()
                self._waiting.append(woken)
            left = -1.0 if deadline is None else deadline - monotonic()
            if (deadline is not None and left <= 0) or not woken.acquire(True, left):
                with self._lock:
                    if woken in self._waiting:
                        self._waiting.remove(woken)
                    return not self._closed and self.size <= mark

    def close(self) -> None:
        """Drop the queue and wake all waiters. The owner closes the stream itself."""
        with self._lock:
            self._end()

    def join(self, timeout: float = 5.0) -> None:
        """After both the outbox and the stream were closed: wait until no thread uses the stream."""
        if self._writer_done.acquire(True, timeout):
            self._writer_done.release()

    def _end(self) -> None:
        self._closed = True
        self._queue.clear()
        self.size = 0
        self._wake_waiting()
        if self._writer is not None and self._writer.locked():
            self._writer.release()

    def _wake_waiting(self) -> None:
        for woken in self._waiting:
            woken.release()
        self._waiting.clear()

    # -- the writer thread

    def _wake_writer(self) -> None:
        if self._writer is None:
            writer = allocate_lock()
            writer.acquire()
            run_soon(self._write_queued, writer)
            self._writer = writer
        elif self._writer.locked():
            self._writer.release()

    def _write_queued(self, wake: LockType) -> None:
        with self._writer_done:
            try:
                while self._write_some(wake):
                    pass
            except BaseException:  # such as a lack of memory: without its writer the connection must not count as open
                self.close()
                self._broken()
                raise

    def _write_some(self, wake: LockType) -> bool:
        """Send what is queued, or wait for more; False when the thread should end."""
        with self._lock:
            if self._closed:
                self._writer = None
                return False
            data = b"".join(self._queue)
            self._queue.clear()
        if not data:
            if wake.acquire(True, LINGER):
                return True
            with self._lock:
                if self._queue:
                    return True
                self._writer = None
                return False
        try:
            for start in range(0, len(data), PIECE):
                piece = data[start : start + PIECE]
                self._stream.sendall(piece)
                with self._lock:
                    if self._closed:
                        break
                    self.size -= len(piece)
                    if self._waiting and (not self.size or self.size <= HIGH_WATER < self.size + len(piece)):
                        self._wake_waiting()
        except OSError:
            self.close()
            self._broken()
        return True

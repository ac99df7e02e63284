"""Everything that leaves a connection, in order, from any thread, without ever waiting for the peer.

A write goes straight to the kernel if it takes it. If not (the peer does not read), the rest is kept and a thread,
started only then, carries it after. So an answer given to one slow peer never holds up the thread that gives it, nor
another connection. What is kept is bounded twice:

- above HIGH_WATER the connection stops reading requests and streams stop sending (`wait_for_room`), so a peer that does
  not read cannot ask for more;
- above LIMIT, which only answers to calls made before can reach, the connection is given up.

There is no time limit: a peer that was stopped for an hour and goes on reading gets every answer. A containerd that
finds its connection closed takes the shim for dead.
"""

from __future__ import annotations

from _thread import allocate_lock, start_new_thread
from time import monotonic

from shim.ttrpc.status import ClosedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _thread import LockType
    from collections.abc import Callable

    from shim.ttrpc.transport import Stream

HIGH_WATER = 1 << 20
LIMIT = 32 << 20
PIECE = 256 << 10
LINGER = 5.0  # how long the carrying thread stays when it has nothing left to carry


class Outbox:
    __slots__ = (
        "_backlog", "_broken", "_carrier", "_closed", "_gone", "_lock", "_send_now", "_stream", "_waiting", "size",
    )  # fmt: skip

    def __init__(self, stream: Stream, broken: Callable[[], None]) -> None:
        self._stream = stream
        self._send_now: Callable[[bytes], int] | None = getattr(stream, "send_now", None)
        self._broken = broken  # called, perhaps more than once, when nothing can be sent any more
        self._lock = allocate_lock()
        self._backlog: list[bytes] = []
        self._carrier: LockType | None = None  # released to wake the carrying thread; None: there is none
        self._gone = allocate_lock()  # held by the carrying thread as long as it lives
        self._waiting: list[LockType] = []
        self._closed = False
        self.size = 0  # bytes that the kernel has not taken yet, those being carried included

    def write(self, data: bytes) -> None:
        """Send, or keep for sending. Raises ClosedError if the connection is over."""
        with self._lock:
            if self._closed:
                raise ClosedError
            if not self.size:
                if self._send_now is not None:
                    try:
                        sent = self._send_now(data)
                    except OSError:
                        sent = -1
                    if sent == len(data):
                        return
                    if sent:
                        data = data[sent:] if sent > 0 else b""
                if data:
                    self._backlog.append(data)
                    self.size = len(data)
                    self._wake_carrier()
                    return
            elif self.size + len(data) <= LIMIT:
                self._backlog.append(data)
                self.size += len(data)
                return
            self._end()
        self._broken()
        raise ClosedError

    def wait_for_room(self, timeout: float | None = None) -> bool:
        """Wait until the peer has read most of what is kept. True if there is room, False if time is up or all is
        over."""
        return self._wait(HIGH_WATER, timeout)

    def flush(self, timeout: float) -> bool:
        """Wait until the kernel has taken everything."""
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
        """Forget what is kept and wake everybody. The stream itself is closed by its owner."""
        with self._lock:
            self._end()

    def join(self, timeout: float = 5.0) -> None:
        """After both the outbox and the stream were closed: wait until no thread uses the stream."""
        if self._gone.acquire(True, timeout):
            self._gone.release()

    def _end(self) -> None:
        self._closed = True
        self._backlog.clear()
        self.size = 0
        self._wake_waiting()
        if self._carrier is not None and self._carrier.locked():
            self._carrier.release()

    def _wake_waiting(self) -> None:
        for woken in self._waiting:
            woken.release()
        self._waiting.clear()

    # -- the carrying thread

    def _wake_carrier(self) -> None:
        if self._carrier is None:
            self._carrier = allocate_lock()
            self._carrier.acquire()
            start_new_thread(self._carry, (self._carrier,))
        elif self._carrier.locked():
            self._carrier.release()

    def _carry(self, wake: LockType) -> None:
        with self._gone:
            while self._carry_some(wake):
                pass

    def _carry_some(self, wake: LockType) -> bool:
        """Carry what there is, or wait for more; False when it is time to go."""
        with self._lock:
            if self._closed:
                self._carrier = None
                return False
            data = b"".join(self._backlog)
            self._backlog.clear()
        if not data:
            if wake.acquire(True, LINGER):
                return True
            with self._lock:
                if self._backlog:
                    return True
                self._carrier = None
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

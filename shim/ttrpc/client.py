"""The client: any number of threads share one connection; one thread reads the responses.

Each caller waits on a lock of its own. After its timeout it returns without a message to the server (the protocol has
none for that), and the late response is dropped. When the connection ends, every caller is woken.
"""

from __future__ import annotations

from _thread import allocate_lock
from time import monotonic

from shim.threads import start_thread
from shim.ttrpc.core import DATA, MAX_DATA, NO_DATA, REMOTE_CLOSED, REMOTE_OPEN, REQUEST, encode_frame
from shim.ttrpc.envelope import encode_request, encode_route
from shim.ttrpc.outbox import HIGH_WATER, Outbox
from shim.ttrpc.status import CANCELLED, DEADLINE_EXCEEDED, OK, RESOURCE_EXHAUSTED, ClosedError, StatusError
from shim.ttrpc.streams import ANSWERED, ClientStreams
from shim.ttrpc.transport import as_stream, release

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket
    from collections.abc import Callable, Iterable, Iterator

    from shim.ttrpc.messages import Messages
    from shim.ttrpc.transport import Stream

READ_SIZE = 8 << 10


class _Pending:
    """A unary call that waits for its response."""

    __slots__ = ("error", "payload", "wake")

    def __init__(self) -> None:
        self.payload = b""
        self.error: Exception | None = None
        self.wake = allocate_lock()
        self.wake.acquire()

    def answered(self, code: int, text: str, payload: bytes) -> None:
        if code == OK:
            self.payload = payload
        else:
            self.error = StatusError(code, text)
        self.wake.release()

    def ended(self, error: Exception) -> None:
        self.error = error
        self.wake.release()


class ClientStream:
    """A streaming call. `recv` returns the server's messages, or the single response of a client-streaming call."""

    __slots__ = ("_client", "_id", "_messages", "_open")

    def __init__(self, client: Client, messages: Messages, opened: bool) -> None:
        self._client = client
        self._messages = messages
        self._id = 0
        self._open = opened

    def send(self, data: bytes) -> None:
        if not self._open:
            raise ValueError("this stream's sending side is closed")
        self._client.send_message(self._id, 0, data)

    def close_send(self) -> None:
        """Close the sending side. May be repeated."""
        if self._open:
            self._open = False
            self._client.send_message(self._id, REMOTE_CLOSED | NO_DATA, b"")

    def recv(self, timeout: float | None = None) -> bytes | None:
        """The next message; None when the server has no more. Raises TimeoutError, StatusError and ClosedError."""
        return self._messages.get(timeout)

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._messages)

    def cancel(self) -> None:
        """Drop the stream. The server is not notified: the protocol has no message for that."""
        self._client.forget(self._id)
        self._messages.close(StatusError(CANCELLED, "context canceled"))

    def answered(self, code: int, text: str, payload: bytes) -> None:
        if code != OK:
            self._messages.close(StatusError(code, text))
            return
        self._messages.put(payload)
        self._messages.close()

    def message(self, data: bytes | None, closes: bool) -> None:
        if data is not None and not self._messages.put(data):
            self._client.forget(self._id)
            self._messages.close(StatusError(RESOURCE_EXHAUSTED, "messages come faster than they are taken"))
        elif closes:
            self._messages.close()

    def ended(self, error: Exception) -> None:
        self._messages.close(error)


class Client:
    def __init__(self, stream: Stream | _socket.socket, on_close: Callable[[], None] | None = None) -> None:
        """Owns the connected stream. `on_close` is called once, in the reading thread, when the connection has
        ended."""
        self._stream = as_stream(stream)
        self._on_close = on_close
        self._lock = allocate_lock()
        self._streams = ClientStreams()
        self._waiting: dict[int, _Pending | ClientStream] = {}
        self._outbox = Outbox(self._stream, self._stream.close)
        self._closed = False
        try:
            start_thread(self._read, ())
        except (RuntimeError, MemoryError):
            self._outbox.close()
            self._stream.close()
            release(self._stream)
            raise

    @property
    def closed(self) -> bool:
        return self._closed

    def call(
        self,
        service: str,
        method: str,
        payload: bytes = b"",
        timeout: float | None = None,
        metadata: Iterable[tuple[str, str]] = (),
    ) -> bytes:
        """The response's payload. Raises StatusError (DEADLINE_EXCEEDED after the timeout, in seconds) or
        ClosedError."""
        deadline = None if timeout is None else monotonic() + timeout
        if timeout is not None and timeout <= 0:
            raise StatusError(DEADLINE_EXCEEDED, "context deadline exceeded")
        nano = 0 if timeout is None else min(max(int(timeout * 1e9), 1), 2**63 - 1)
        pending = _Pending()
        stream = self._open(pending, 0, encode_request(encode_route(service, method), payload, nano, metadata))
        # A lock's timeout has an upper bound, so a long wait is split.
        while not pending.wake.acquire(True, 60.0 if deadline is None else min(max(deadline - monotonic(), 0.0), 60.0)):
            if deadline is not None and monotonic() >= deadline:
                self.forget(stream)
                raise StatusError(DEADLINE_EXCEEDED, f"no answer to {method} within {timeout} s")
        if pending.error is not None:
            raise pending.error
        return pending.payload

    def stream(
        self, service: str, method: str, payload: bytes = b"", *, sends: bool, metadata: Iterable[tuple[str, str]] = ()
    ) -> ClientStream:
        """Open a streaming call: `sends` for client-streaming and bidirectional ones, otherwise the payload is the
        only message."""
        from shim.ttrpc.messages import Messages

        opened = ClientStream(self, Messages(), sends)
        request = encode_request(encode_route(service, method), payload, 0, metadata)
        self._open(opened, REMOTE_OPEN if sends else REMOTE_CLOSED, request)
        return opened

    def close(self) -> None:
        """End the connection; every waiting call fails with ClosedError."""
        self._outbox.close()
        self._stream.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open(self, waiting: _Pending | ClientStream, flags: int, request: bytes) -> int:
        if len(request) > MAX_DATA:
            raise StatusError(RESOURCE_EXHAUSTED, f"the request is {len(request)} bytes long, the most is {MAX_DATA}")
        with self._lock:
            if self._closed:
                raise ClosedError
            # The write, which does not block, is inside the lock because ids must reach the server in ascending order.
            stream = self._streams.open(flags != 0)
            self._waiting[stream] = waiting
            if isinstance(waiting, ClientStream):
                waiting._id = stream
            try:
                self._outbox.write(encode_frame(stream, REQUEST, flags, request))
            except ClosedError:
                self._waiting.pop(stream, None)
                raise
        return stream

    def send_message(self, stream: int, flags: int, data: bytes) -> None:
        if len(data) > MAX_DATA:
            raise StatusError(RESOURCE_EXHAUSTED, f"the message is {len(data)} bytes long, the most is {MAX_DATA}")
        while self._outbox.size > HIGH_WATER and self._outbox.wait_for_space(1.0) is False and not self._closed:
            pass
        if stream not in self._waiting:
            raise StatusError(CANCELLED, "the stream has ended: receive to learn why")
        self._outbox.write(encode_frame(stream, DATA, flags, data))

    def forget(self, stream: int) -> None:
        with self._lock:
            self._streams.end(stream)
            self._waiting.pop(stream, None)

    def _read(self) -> None:
        recv = self._stream.recv
        try:
            while data := recv(READ_SIZE):
                for event in self._streams.receive(data):
                    kind, stream = event[0], event[1]
                    if kind == ANSWERED:
                        waiting = self._waiting.pop(stream, None)
                        if waiting is not None:
                            waiting.answered(event[2], event[3], event[4])
                    else:
                        waiting = self._waiting.pop(stream, None) if event[2] else self._waiting.get(stream)
                        if isinstance(waiting, ClientStream):
                            waiting.message(event[3], event[2])
        except OSError:
            pass
        finally:
            self._end()

    def _end(self) -> None:
        with self._lock:
            self._closed = True
            waiting = list(self._waiting.values())
            self._waiting.clear()
        self.close()
        for one in waiting:
            one.ended(ClosedError())
        self._outbox.join()
        release(self._stream)
        if self._on_close is not None:
            self._on_close()

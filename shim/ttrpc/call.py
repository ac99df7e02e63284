"""A call as its handler sees it, and the frames that end it.

A call ends once: with a response, at its deadline, or with its connection. The first thread that claims it
(`Call._claim`) ends it; a later response is dropped, which is harmless, since the peer has closed the stream as well.
"""

from __future__ import annotations

from shim.ttrpc.core import (
    DATA,
    MAX_DATA,
    NO_DATA,
    REMOTE_CLOSED,
    RESPONSE,
    encode_frame,
    encode_response_frame,
)
from shim.ttrpc.envelope import encode_error, encode_response, route_names
from shim.ttrpc.outbox import HIGH_WATER
from shim.ttrpc.status import CANCELLED, DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED, StatusError, status_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from shim.ttrpc.connection import Connection
    from shim.ttrpc.envelope import Request


class _Deferred(bytes):
    """Returned by a handler that responds later."""


DEFERRED = _Deferred()


MAX_TEXT = 64 << 10


def error_frame(stream: int, code: int, message: str) -> bytes:
    return encode_frame(stream, RESPONSE, 0, encode_error(code, message[:MAX_TEXT]))


def answer_frame(stream: int, payload: bytes) -> bytes:
    data = encode_response(payload)
    if len(data) > MAX_DATA:
        return error_frame(stream, RESOURCE_EXHAUSTED, f"the answer is {len(data)} bytes long, the most is {MAX_DATA}")
    return encode_response_frame(stream, data)


class Call:
    """One call as its handler sees it."""

    __slots__ = ("_cancelled", "_ended", "_route", "connection", "deadline", "metadata", "payload", "stream_id")

    def __init__(self, connection: Connection, stream_id: int, request: Request, deadline: float | None) -> None:
        self.connection = connection
        self.stream_id = stream_id
        self._route, self.payload, _, self.metadata = request
        self.deadline = deadline  # in time.monotonic() seconds
        self._ended = False
        self._cancelled: Callable[[], None] | None = None

    @property
    def service(self) -> str:
        return route_names(self._route)[0]

    @property
    def method(self) -> str:
        return route_names(self._route)[1]

    @property
    def done(self) -> bool:
        """Answered, timed out, or its connection closed: the client no longer waits."""
        return self._ended

    def defer(self, cancelled: Callable[[], None] | None = None) -> bytes:
        """`return call.defer()`: any thread responds later with `reply` or `fail`. `cancelled` is called if the call
        ends before that, so that its owner can drop the call."""
        self._cancelled = cancelled
        if not self.connection.register(self):
            self._notify_cancelled()
        return DEFERRED

    def reply(self, payload: bytes) -> bool:
        """Respond. False if the call has ended already."""
        frame = answer_frame(self.stream_id, payload)
        return self._claim_for_response() and self.connection.send(frame)

    def fail(self, error: BaseException) -> bool:
        return self._claim_for_response() and self.connection.send(error_frame(self.stream_id, *status_of(error)))

    def expire(self) -> None:
        """Fail the call: its deadline has passed."""
        if self._claim():
            self.connection.send(error_frame(self.stream_id, DEADLINE_EXCEEDED, "context deadline exceeded"))
            self._notify_cancelled()

    def drop(self) -> None:
        """End the call without a response."""
        if self._claim():
            self._notify_cancelled()

    def _claim_for_response(self) -> bool:
        """Claim the call and drop `cancelled`: its owner usually references the call, and the reference cycle would
        live until the garbage collector runs."""
        if not self._claim():
            return False
        self._cancelled = None
        return True

    def _claim(self) -> bool:
        connection = self.connection
        with connection.lock:
            if self._ended:
                return False
            self._ended = True
            registered = connection.calls.pop(self.stream_id, None)
            connection.streams.end(self.stream_id)
        if registered is not None and self.deadline is not None:
            connection.server.deadlines.call_ended()
        return True

    def _notify_cancelled(self) -> None:
        cancelled, self._cancelled = self._cancelled, None
        if cancelled is not None:
            try:
                cancelled()
            except Exception as error:
                self.connection.server.report(error)


class ServerStream(Call):
    """A streaming call: its handler receives messages, sends messages, and ends it by returning (bytes: the single
    response of a client-streaming call; None: no more messages) or by raising."""

    __slots__ = ("_messages",)

    def __init__(self, connection: Connection, stream_id: int, request: Request, deadline: float | None) -> None:
        super().__init__(connection, stream_id, request, deadline)
        from shim.ttrpc.messages import Messages  # few calls are streams

        self._messages = Messages()

    def recv(self, timeout: float | None = None) -> bytes | None:
        """The next message, None when the client has no more. Raises TimeoutError, and StatusError if the call has
        ended."""
        return self._messages.get(timeout)

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._messages)

    def send(self, data: bytes) -> None:
        """Send one message. Blocks while the client does not read."""
        if len(data) > MAX_DATA:
            raise StatusError(RESOURCE_EXHAUSTED, f"the message is {len(data)} bytes long, the most is {MAX_DATA}")
        frame = encode_frame(self.stream_id, DATA, 0, data)
        outbox = self.connection.outbox
        while outbox.size > HIGH_WATER and not self._ended:
            outbox.wait_for_space(1.0)
        if self._ended or not self.connection.send(frame):
            raise StatusError(CANCELLED, "context canceled")

    def feed(self, data: bytes | None, closes: bool) -> None:
        if data is not None and not self._messages.put(data):
            error = StatusError(RESOURCE_EXHAUSTED, "messages come faster than they are taken")
            self.fail(error)
            self._messages.close(error)
        elif closes:
            self._messages.close()

    def finish(self) -> None:
        if self._claim():
            self.connection.send(encode_frame(self.stream_id, DATA, REMOTE_CLOSED | NO_DATA, b""))

    def _notify_cancelled(self) -> None:
        self._messages.close(StatusError(CANCELLED, "context canceled"))
        super()._notify_cancelled()

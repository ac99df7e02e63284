"""The active streams of a connection, and which frames they may receive: the protocol's state, without I/O.

`ServerStreams` and `ClientStreams` turn bytes into events. `receive` is a generator on purpose: it decodes a frame only
after the previous one has been handled, so an id whose call was answered at once may be used again by the next frame of
the same read.

`end` may be called from any thread. It returns True to one caller only, who sends the last frame: so every stream ends
once.
"""

from __future__ import annotations

from shim.ttrpc.core import DATA, MAX_DATA, NO_DATA, OVERSIZED, REMOTE_CLOSED, REMOTE_OPEN, REQUEST, RESPONSE, Decoder
from shim.ttrpc.envelope import DecodeError, decode_request, decode_response
from shim.ttrpc.status import INTERNAL, INVALID_ARGUMENT, RESOURCE_EXHAUSTED, ClosedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, TypeAlias

    # (OPENED, stream, flags, Request), (MESSAGE, stream, closes, data or None), (REFUSED, stream, code, text) and, for
    # clients, (ANSWERED, stream, code, text, payload).
    Event: TypeAlias = tuple[Any, ...]

OPENED = 1
MESSAGE = 2
REFUSED = 3
ANSWERED = 4

TOO_LONG = f"message is longer than {MAX_DATA} bytes"
LAST_STREAM = 0xFFFFFFFF


class ServerStreams:
    """The accepting side of a connection."""

    __slots__ = ("_decoder", "_sending", "active")

    def __init__(self, limit: int = MAX_DATA) -> None:
        self._decoder = Decoder(limit)
        self.active: set[int] = set()
        self._sending: set[int] = set()  # streams on which the client may still send messages

    def receive(self, data: bytes) -> Iterator[Event]:
        active = self.active
        for stream, kind, flags, body in self._decoder.feed(data):
            if kind == REQUEST and stream & 1 and stream not in active:
                try:
                    request = decode_request(body)
                except DecodeError as error:
                    yield REFUSED, stream, INVALID_ARGUMENT, f"request cannot be read: {error}"
                    continue
                active.add(stream)
                if flags & REMOTE_OPEN:
                    self._sending.add(stream)
                yield OPENED, stream, flags, request
            else:
                event = self._other(stream, kind, flags, body)
                if event is not None:
                    yield event

    def _other(self, stream: int, kind: int, flags: int, body: bytes) -> Event | None:
        if kind == OVERSIZED:
            self.end(stream)
            return REFUSED, stream, RESOURCE_EXHAUSTED, TOO_LONG
        if not stream & 1:
            return REFUSED, stream, INVALID_ARGUMENT, f"stream id {stream} is even: a client's ids are odd"
        if kind == REQUEST:
            return REFUSED, stream, INVALID_ARGUMENT, f"stream id {stream} is in use: its call is not answered yet"
        if kind != DATA:
            return None
        if stream not in self.active:
            return REFUSED, stream, INVALID_ARGUMENT, f"stream {stream} is not active"
        closes = bool(flags & REMOTE_CLOSED)
        if stream not in self._sending:
            self.end(stream)
            return REFUSED, stream, INVALID_ARGUMENT, f"data on stream {stream}, which is not open for sending"
        if closes:
            self._sending.discard(stream)
            if body:
                self.end(stream)
                return REFUSED, stream, INVALID_ARGUMENT, "the frame that closes a stream must carry no data"
        return MESSAGE, stream, closes, None if flags & NO_DATA else body

    def end(self, stream: int) -> bool:
        """End the stream. False if it had ended already."""
        try:
            self.active.remove(stream)
        except KeyError:
            return False
        self._sending.discard(stream)
        return True


class ClientStreams:
    """The dialling side of a connection. `open` and `end` may be called from any thread that holds the owner's lock."""

    __slots__ = ("_decoder", "_next", "active")

    def __init__(self, limit: int = MAX_DATA) -> None:
        self._decoder = Decoder(limit)
        self._next = 1
        self.active: dict[int, bool] = {}  # stream -> whether the server may send messages on it

    def open(self, streaming: bool = False) -> int:
        stream = self._next
        if stream > LAST_STREAM:
            raise ClosedError("this connection has used up its stream ids: open another one")
        self._next += 2
        self.active[stream] = streaming
        return stream

    def receive(self, data: bytes) -> Iterator[Event]:
        for stream, kind, flags, body in self._decoder.feed(data):
            streaming = self.active.get(stream)
            if streaming is None:
                continue  # the caller has timed out, which the server cannot know
            if kind == RESPONSE:
                self.end(stream)
                try:
                    code, text, payload = decode_response(body)
                except DecodeError as error:
                    code, text, payload = INTERNAL, f"response cannot be read: {error}", b""
                yield ANSWERED, stream, code, text, payload
            elif kind == DATA:
                if not streaming:
                    self.end(stream)
                    yield ANSWERED, stream, INTERNAL, "the server sent a stream message in answer to a unary call", b""
                    continue
                closes = bool(flags & REMOTE_CLOSED)
                if closes:
                    self.end(stream)
                yield MESSAGE, stream, closes, None if flags & NO_DATA or (closes and not body) else body
            elif kind == OVERSIZED:
                self.end(stream)
                yield ANSWERED, stream, RESOURCE_EXHAUSTED, TOO_LONG, b""

    def end(self, stream: int) -> bool:
        return self.active.pop(stream, None) is not None

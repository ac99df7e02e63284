"""One connection of a server: reads requests, runs handlers that cannot block, and passes others to workers.

The reading thread runs inline handlers itself and sends all their responses to one read in one write; that makes a call
cheap. Worker and stream handlers run in threads of the pool. A deferred call is only an entry in `calls`.
"""

from __future__ import annotations

from _thread import allocate_lock
from time import monotonic, sleep

from shim.ttrpc.call import DEFERRED, Call, ServerStream, answer_frame, error_frame
from shim.ttrpc.core import REMOTE_OPEN
from shim.ttrpc.envelope import DecodeError, route_names
from shim.ttrpc.outbox import HIGH_WATER, Outbox
from shim.ttrpc.status import (
    DEADLINE_EXCEEDED,
    INVALID_ARGUMENT,
    RESOURCE_EXHAUSTED,
    UNAVAILABLE,
    UNIMPLEMENTED,
    ClosedError,
    StatusError,
    status_of,
)
from shim.ttrpc.streams import MESSAGE, OPENED, ServerStreams
from shim.ttrpc.transport import release

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from shim.ttrpc.envelope import Request
    from shim.ttrpc.server import Server
    from shim.ttrpc.transport import Stream

READ_SIZE = 8 << 10
WRITE_SIZE = 256 << 10  # responses to one read are sent before they grow beyond this

INLINE, WORKER, STREAM = range(3)


class Connection:
    __slots__ = ("_stream", "calls", "lock", "outbox", "reading", "running", "server", "streams")

    def __init__(self, server: Server, stream: Stream) -> None:
        self.server = server
        self._stream = stream
        self.streams = ServerStreams()
        self.outbox = Outbox(stream, stream.close)
        self.lock = allocate_lock()
        self.calls: dict[int, Call] = {}  # those that run in a worker or are deferred
        self.running = 0  # handlers in worker threads
        self.reading = False  # between a read and the write of its responses

    @property
    def busy(self) -> bool:
        """Whether a response is being built or sent. Deferred calls do not count: their event may never happen."""
        return self.reading or self.running > 0 or self.outbox.size > 0

    def serve(self) -> None:
        """Read until the peer or `close` ends it. Never raises."""
        recv = self._stream.recv
        self.outbox.own()
        try:
            while data := recv(READ_SIZE):
                self.reading = True
                self._answer(data)
                self.reading = False
                if self.outbox.size > HIGH_WATER:
                    self.outbox.wait_for_space()
        except (OSError, ClosedError):
            pass  # the peer has closed it: the normal end of a connection
        except Exception as error:
            self.server.report(error)
        finally:
            self.reading = False
            self._end()

    def close(self) -> None:
        """Close it from any thread; the reading thread cleans up."""
        self.outbox.close()
        self._stream.close()

    def wait_end(self, timeout: float) -> bool:
        """Wait for the peer to close it; False after the timeout."""
        deadline = monotonic() + timeout
        while self in self.server.connections():
            if monotonic() >= deadline:
                return False
            sleep(0.005)
        return True

    def _end(self) -> None:
        self.close()
        while self.calls:
            with self.lock:
                calls = list(self.calls.values())
            for call in calls:
                call.drop()
        self.server.forget(self)
        self.outbox.join()
        release(self._stream)

    def send(self, frame: bytes) -> bool:
        try:
            self.outbox.write(frame)
        except ClosedError:
            return False
        return True

    def register(self, call: Call) -> bool:
        """Register a call that outlives the reading of its request. False if it has ended already."""
        with self.lock:
            if call.done:
                return False
            if call.stream_id in self.calls:
                return True
            self.calls[call.stream_id] = call
        if call.deadline is not None:
            self.server.deadlines.watch(call)
        return True

    # -- one read

    def _answer(self, data: bytes) -> None:
        out: list[bytes] = []
        size = 0
        for event in self.streams.receive(data):
            kind, stream = event[0], event[1]
            if kind == OPENED:
                frame = self._open(stream, event[2], event[3])
            elif kind == MESSAGE:
                call = self.calls.get(stream)
                if isinstance(call, ServerStream):
                    call.feed(event[3], event[2])
                continue
            else:
                call = self.calls.get(stream)
                if call is not None and stream not in self.streams.active:
                    call.drop()
                frame = error_frame(stream, event[2], event[3])
            if frame is not None:
                out.append(frame)
                size += len(frame)
                if size > WRITE_SIZE:
                    self.outbox.write(b"".join(out))
                    if self.outbox.size > HIGH_WATER:
                        self.outbox.wait_for_space()
                    out.clear()
                    size = 0
        if out:
            self.outbox.write(out[0] if len(out) == 1 else b"".join(out))

    def _open(self, stream: int, flags: int, request: Request) -> bytes | None:
        """The response frame of an inline handler; None if the response follows later."""
        method = self.server.routes.get(request[0])
        if method is None:
            self.streams.end(stream)
            return self._unknown(stream, request[0])
        deadline = None
        timeout = request[2]
        if timeout:
            if timeout < 0:
                self.streams.end(stream)
                return error_frame(stream, DEADLINE_EXCEEDED, "context deadline exceeded")
            deadline = monotonic() + timeout / 1e9
        if method.kind == INLINE:
            call = Call(self, stream, request, deadline)
            try:
                answer = method.handler(call)
                if answer is DEFERRED:
                    return None
                frame = answer_frame(stream, answer)
            except BaseException as error:
                frame = self._failed(stream, error)
            # No other thread has the call unless it was deferred: no need to claim it.
            if call._ended or stream in self.calls:
                return frame if call._claim() else None
            call._ended = True
            self.streams.end(stream)
            return frame
        if self.server.stopping:
            self.streams.end(stream)
            return error_frame(stream, UNAVAILABLE, "the server is shutting down")
        if method.kind == WORKER:
            call = Call(self, stream, request, deadline)
        else:
            call = streaming = ServerStream(self, stream, request, deadline)
            # Without REMOTE_OPEN the payload is the only message of the client, even if empty.
            if call.payload or not flags & REMOTE_OPEN:
                streaming.feed(call.payload, not flags & REMOTE_OPEN)
        self.register(call)
        with self.lock:
            self.running += 1
        try:
            workers = self.server.urgent_workers if method.is_urgent else self.server.workers
            workers.submit(self._run, self._run_late, method.handler, call)
        except (RuntimeError, MemoryError) as error:
            self._run_late(error, method.handler, call)
        return None

    def _run_late(self, reason: object, handler: Callable[[Call], bytes | None], call: Call) -> None:
        """The call had to wait for a thread. There is none if there is a reason."""
        if reason is None and not call.done:
            self._run(handler, call)
            return
        with self.lock:
            self.running -= 1
        if reason is not None:
            call.fail(StatusError(RESOURCE_EXHAUSTED, f"no thread for this call: {reason}"))

    def _run(self, handler: Callable[[Call], bytes | None], call: Call) -> None:
        """In a worker thread."""
        try:
            answer = handler(call)
            if answer is None:
                if not isinstance(call, ServerStream):
                    raise TypeError("the handler of a unary call returned None instead of bytes")
                call.finish()
            elif answer is not DEFERRED:
                call.reply(answer)
        except BaseException as error:
            self.server.report_handler(error)
            call.fail(error)
        finally:
            with self.lock:
                self.running -= 1

    def _failed(self, stream: int, error: BaseException) -> bytes:
        self.server.report_handler(error)
        return error_frame(stream, *status_of(error))

    def _unknown(self, stream: int, route: bytes) -> bytes:
        try:
            service, method = route_names(route)
        except DecodeError as error:
            return error_frame(stream, INVALID_ARGUMENT, f"request cannot be read: {error}")
        if service in self.server.services:
            return error_frame(stream, UNIMPLEMENTED, f"method {method}")
        return error_frame(stream, UNIMPLEMENTED, f"service {service}")

"""The server: services by name, a thread per connection, workers and deadlines shared by all."""

from __future__ import annotations

import sys
from _thread import allocate_lock
from time import monotonic, sleep

from shim.threads import start_thread
from shim.ttrpc.call import Call, ServerStream
from shim.ttrpc.connection import INLINE, STREAM, WORKER, Connection
from shim.ttrpc.deadlines import Deadlines
from shim.ttrpc.envelope import encode_route
from shim.ttrpc.status import StatusError
from shim.ttrpc.transport import as_listener, as_stream, release
from shim.ttrpc.workers import BoundedWorkers, Workers

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket
    from collections.abc import Callable, Mapping
    from typing import Any

    from shim.ttrpc.transport import Listener, Stream

__all__ = ["Call", "Method", "Server", "ServerStream"]

# Pauses between attempts to accept after an error, in seconds.
_FIRST_PAUSE = 0.05
_MAX_PAUSE = 1.0
# How long a client has to close its connection itself when the server shuts down.
CLIENT_CLOSE_TIMEOUT = 0.2


class Method:
    """A handler and where it runs. An urgent one has a thread even if the others of a bounded pool hang."""

    __slots__ = ("handler", "is_urgent", "kind")

    def __init__(self, kind: int, handler: Callable[..., Any], is_urgent: bool = False) -> None:
        self.kind = kind
        self.handler = handler
        self.is_urgent = is_urgent

    @classmethod
    def inline(cls, handler: Callable[[Call], bytes]) -> Method:
        """In the reading thread: it must not block, but it may defer."""
        return cls(INLINE, handler)

    @classmethod
    def worker(cls, handler: Callable[[Call], bytes], is_urgent: bool = False) -> Method:
        """In a worker thread."""
        return cls(WORKER, handler, is_urgent)

    @classmethod
    def stream(cls, handler: Callable[[ServerStream], bytes | None]) -> Method:
        """In a worker thread, with a stream to receive from and send to."""
        return cls(STREAM, handler)


class Server:
    def __init__(
        self,
        services: Mapping[str, Mapping[str, Method]],
        report: Callable[[BaseException], None] | None = None,
        limit: int = 0,
    ) -> None:
        """`report` is called with exceptions of handlers that are bugs, not responses (`StatusError`). At most `limit`
        handlers run in worker threads, and as many urgent ones; 0 is no limit."""
        self.services = services
        self.routes = {
            encode_route(service, name): method
            for service, methods in services.items()
            for name, method in methods.items()
        }
        self.deadlines = Deadlines()
        self.workers: Workers = BoundedWorkers(limit, self.deadlines) if limit else Workers()
        self.urgent_workers: Workers = BoundedWorkers(limit, self.deadlines) if limit else self.workers
        self.stopping = False
        self._report = report
        self._lock = allocate_lock()
        self._connections: set[Connection] = set()
        self._listeners: list[Listener] = []

    def serve(self, listener: Listener | _socket.socket) -> None:
        """Accept until `shutdown` or until the listener is closed. Any other error, such as a shortage of handles, is
        retried: without this thread the shim would run, but no client could connect."""
        listener = as_listener(listener)
        with self._lock:
            self._listeners.append(listener)
        pause = _FIRST_PAUSE
        while not self.stopping:
            try:
                stream = listener.accept()
            except Exception as error:
                if self.stopping or listener.closed:
                    break
                if not isinstance(error, OSError) and pause == _FIRST_PAUSE:
                    self.report(error)  # a bug; once per series of failures
                sleep(pause)
                pause = min(2 * pause, _MAX_PAUSE)
                continue
            pause = _FIRST_PAUSE
            try:
                self.attach(stream)
            except Exception as error:
                # Only this connection is lost. If this thread ended, all later connections would wait in the backlog.
                self.report(error)
                stream.close()
        with self._lock:
            self._listeners.remove(listener)
        listener.close()
        release(listener)

    def attach(self, stream: Stream | _socket.socket) -> Connection | None:
        """Serve one connected stream in a thread of its own. None if the server is stopping or out of threads."""
        stream = as_stream(stream)
        connection = Connection(self, stream)
        with self._lock:
            if not self.stopping:
                self._connections.add(connection)
                try:
                    start_thread(connection.serve, ())
                    return connection
                except (RuntimeError, MemoryError) as error:
                    self._connections.discard(connection)
                    self.report(error)
        stream.close()
        release(stream)
        return None

    def shutdown(self, timeout: float) -> bool:
        """Stop accepting, let running handlers finish and their responses be sent, then close. False if the timeout
        passed first; everything is closed nevertheless. A handler must not call this: it would wait for itself."""
        deadline = monotonic() + timeout
        self.stopping = True
        with self._lock:
            listeners = list(self._listeners)
        for listener in listeners:
            listener.close()
        graceful = True
        while any(connection.busy for connection in self.connections()):
            if monotonic() >= deadline:
                graceful = False
                break
            sleep(0.002)
        # Go's client may drop a response that arrives just before the connection closes: let it close first.
        closed_by = min(deadline, monotonic() + CLIENT_CLOSE_TIMEOUT)
        while self.connections() and monotonic() < closed_by:
            sleep(0.002)
        for connection in self.connections():
            connection.close()
        while self.connections() and monotonic() < deadline + 1.0:
            sleep(0.002)
        self.workers.close()
        self.urgent_workers.close()
        self.deadlines.close()
        return graceful

    def connections(self) -> list[Connection]:
        with self._lock:
            return list(self._connections)

    def forget(self, connection: Connection) -> None:
        with self._lock:
            self._connections.discard(connection)

    def report_handler(self, error: BaseException) -> None:
        if not isinstance(error, StatusError):
            self.report(error)

    def report(self, error: BaseException) -> None:
        if self._report is None:
            return
        try:
            self._report(error)
        except Exception as second:
            sys.stderr.write(f"ttrpc: reporting {error!r} failed: {second!r}\n")

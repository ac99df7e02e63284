"""The interface of byte streams and listeners for ttrpc.

Any object with the methods of `Stream` or `Listener` will do. `close` must wake threads that block in `recv`, `sendall`
or `accept`; a listener's `closed` says that `accept` will never succeed again. A stream that also has `send_now` (send
what fits without blocking, return the count) saves the server a thread as long as the peer reads. If its `send_now`
may leave a write pending that the system cancels when the calling thread exits, it has `WRITES_BELONG_TO_THREAD`.
Sockets, also `_socket.socket`, may be passed directly; without them, as on Windows, the socket module is not imported.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket
    from typing import Protocol

    class Stream(Protocol):
        def recv(self, size: int, /) -> bytes: ...
        def sendall(self, data: bytes, /) -> None: ...
        def close(self) -> None: ...

    class Listener(Protocol):
        @property
        def closed(self) -> bool: ...
        def accept(self) -> Stream: ...
        def close(self) -> None: ...


def as_stream(stream: Stream | _socket.socket) -> Stream:
    if not hasattr(stream, "setblocking"):
        return stream
    from shim.ttrpc.sockets import SocketStream

    return SocketStream(stream)  # type: ignore[arg-type]


def as_listener(listener: Listener | _socket.socket) -> Listener:
    if not hasattr(listener, "setblocking"):
        return listener
    from shim.ttrpc.sockets import SocketListener

    return SocketListener(listener)  # type: ignore[arg-type]


def release(closed: Stream | Listener) -> None:
    """Called by the last thread that used it."""
    release_now = getattr(closed, "release", None)
    if release_now is not None:
        release_now()

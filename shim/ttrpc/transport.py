"""What ttrpc needs from a byte stream.

Any object will do that has the methods of `Stream`; a listener needs those of `Listener`. `close` must wake whoever is
blocked in `recv`, `sendall` or `accept`. A stream that also has `send_now` (send what fits without waiting, say how
much) saves the server a thread when the peer keeps up, which is always. Sockets, also `_socket.socket`, may be passed
as they are; who has none, as on Windows, does not load them.
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
    """For the thread that used it last."""
    give_back = getattr(closed, "release", None)
    if give_back is not None:
        give_back()

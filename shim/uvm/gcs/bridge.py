"""The bridge to GCS: a reader thread, calls matched to responses by id, notifications.

Any thread may call; the call blocks until its response, its timeout, or the close of the connection. A call that times
out closes the whole bridge, because a guest that does not respond cannot be distinguished from one that has exited, and
everything that waits for it must continue. `submit` is for the one request that stays open, WaitForProcess: it holds no
thread. hcsshim has the same in https://github.com/microsoft/hcsshim/blob/main/internal/gcs/bridge.go.
"""

from __future__ import annotations

import threading

from shim import observers
from shim.container.base import run_all
from shim.threads import for_own_pod

from . import members, protocol

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol

    class Stream(Protocol):
        def recv(self, size: int, /) -> bytes: ...
        def sendall(self, data: bytes, /) -> None: ...
        def close(self) -> None: ...

    Body = dict[str, Any]
    Completion = Callable[[Body | None, "BridgeError | None"], None]

RPC_TIMEOUT = 300.0
READ_SIZE = 8 << 10
# Closing the bridge fails every call; the reader finishes the one that it has just received.
FINISH_SECONDS = 5.0


class BridgeError(Exception):
    """The connection to the guest is lost or closed."""


class GuestError(Exception):
    """The guest's response is a failure. `code` is the HRESULT as an unsigned number."""

    def __init__(self, procedure: str, body: Body) -> None:
        self.procedure = procedure
        self.code = members.number(body, "Result") & 0xFFFFFFFF
        self.records = members.sections(body, "ErrorRecords")
        self.message = members.text(body, "ErrorMessage")
        super().__init__(f"guest {procedure}: {self.message or 'failed'} ({self.code:#010x})")


class _Call:
    __slots__ = ("body", "done", "error", "on_done", "procedure")

    def __init__(self, procedure: int, on_done: Completion | None) -> None:
        self.procedure = procedure
        self.body: Body | None = None
        self.error: BridgeError | None = None
        self.on_done = on_done
        self.done = threading.Event() if on_done is None else None

    def finish(self, body: Body | None, error: BridgeError | None) -> None:
        self.body, self.error = body, error
        if self.done is not None:
            self.done.set()
        if self.on_done is not None:
            self.on_done(body, error)


class Bridge:
    """`stream` is connected. `start` starts the reader thread, which calls `on_notification`."""

    def __init__(
        self,
        stream: Stream,
        on_notification: Callable[[Body], None],
        on_closed: Callable[[BridgeError], None],
    ) -> None:
        self._stream = stream
        self._on_notification = on_notification
        self._on_closed = on_closed
        self._lock = threading.Lock()
        self._send_lock = threading.Lock()
        self._calls: dict[int, _Call] = {}
        self._next_id = 0
        self._closed: BridgeError | None = None
        self._reader = threading.Thread(target=for_own_pod(self._read), name="guest-bridge", daemon=True)

    def start(self) -> None:
        """Raises RuntimeError if there is no thread; the bridge is closed then."""
        try:
            self._reader.start()
        except (RuntimeError, MemoryError) as error:
            self.close(BridgeError(f"no thread for the connection to the guest: {error}"))
            raise

    def call(self, procedure: int, body: Body, timeout: float = RPC_TIMEOUT, *, may_be_late: bool = False) -> Body:
        """If it `may_be_late`, a timeout raises TimeoutError and the bridge stays open."""
        call = _Call(procedure, None)
        call_id = self._send(body, call)
        assert call.done is not None
        if not call.done.wait(timeout):
            name = protocol.NAMES[procedure]
            if may_be_late and self.forget(call_id):
                raise TimeoutError(f"the guest did not answer {name} within {timeout:.0f} s")
            self.close(BridgeError(f"the guest did not answer {name} within {timeout:.0f} s"))
            call.done.wait(FINISH_SECONDS)
        if call.body is None:
            raise call.error or BridgeError("the bridge to the guest is closed")
        if members.number(call.body, "Result") & 0x80000000:
            raise GuestError(protocol.NAMES[procedure], call.body)
        return call.body

    def submit(self, procedure: int, body: Body, on_done: Completion) -> int:
        """Send a request without a timeout; `on_done(body, error)` is called once, from any thread. Returns its id."""
        return self._send(body, _Call(procedure, on_done))

    def close(self, reason: BridgeError | None = None) -> None:
        """Every waiting call fails with the reason. Idempotent; the first reason is kept."""
        with self._lock:
            if self._closed is not None:
                return
            self._closed = reason or BridgeError("the bridge to the guest was closed")
            calls, self._calls = list(self._calls.values()), {}
            end = self._closed
        if observers.guest is not None:
            observers.guest("notification", 0, 0, {"closed": str(end)}, 0)
        fail = [lambda call=call: call.finish(None, end) for call in calls]
        run_all([self._stream.close, *fail, lambda: self._on_closed(end)])

    def forget(self, call_id: int) -> bool:
        """Drop a call. False if its response has arrived in the meantime."""
        with self._lock:
            return self._calls.pop(call_id, None) is not None

    def _send(self, body: Body, call: _Call) -> int:
        data = protocol.encode_body(body)
        with self._send_lock:
            with self._lock:
                if self._closed is not None:
                    raise self._closed
                call_id = self._next_id
                self._next_id += 1
                self._calls[call_id] = call
            if observers.guest is not None:
                observers.guest("request", call_id, call.procedure, body, 0)
            try:
                self._stream.sendall(protocol.frame(protocol.REQUEST, call.procedure, call_id, data))
                return call_id
            except TimeoutError:
                lost = BridgeError("the guest does not read what it is sent")
            except OSError as error:
                lost = BridgeError(f"the connection to the guest was lost: {error}")
        # The call is in the table, so closing fails it like every other: the caller gets the error once, from there.
        self.close(lost)
        return call_id

    def _read(self) -> None:
        decoder = protocol.Decoder()
        reason = BridgeError("the guest closed its connection")
        try:
            while data := self._stream.recv(READ_SIZE):
                for message in decoder.feed(data):
                    self._dispatch(message)
        except protocol.ProtocolError as error:
            reason = BridgeError(f"the guest violated the bridge protocol: {error}")
        except OSError as error:
            reason = BridgeError(f"the connection to the guest was lost: {error}")
        except Exception as error:
            # Whatever it was: without its reader the bridge must not count as open.
            reason = BridgeError(f"a message of the guest could not be processed: {type(error).__name__}: {error}")
        self.close(reason)

    def _dispatch(self, message: protocol.Message) -> None:
        if observers.guest is not None:
            kind = "notification" if message.kind == protocol.NOTIFICATION else "response"
            observers.guest(kind, message.id, 0, message.body, message.size)
        if message.kind == protocol.NOTIFICATION:
            members.check_notification(message.body)
            self._on_notification(message.body)
            return
        if message.kind != protocol.RESPONSE:
            raise protocol.ProtocolError("the guest sent a request; only the host sends requests")
        with self._lock:
            call = self._calls.get(message.id)
        if call is None:
            return  # harmless: its call has timed out
        # While it is still in the table: a response that violates the protocol fails its call like all others.
        members.check_response(call.procedure, message.body)
        if self.forget(message.id):
            call.finish(message.body, None)

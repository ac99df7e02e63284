"""The GCS bridge against a scripted guest: matching of responses, notifications, timeouts, close."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from shim.platform.hvsocket_stream import Stream
from shim.uvm.gcs import protocol
from shim.uvm.gcs.bridge import Bridge, BridgeError, GuestError

Body = dict[str, Any]


class SocketStream:
    """Like a Hyper-V socket of shim.platform: close unblocks a reader."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock

    def recv(self, size: int, /) -> bytes:
        return self._sock.recv(size)

    def sendall(self, data: bytes, /) -> None:
        self._sock.sendall(data)

    def close(self) -> None:
        try:
            self._sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self._sock.close()


class Guest:
    """The guest's end. It sends nothing by itself; the test reads requests and sends responses."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._decoder = protocol.Decoder(limit=1 << 24)
        self._waiting: list[protocol.Message] = []
        sock.settimeout(60)

    def request(self) -> protocol.Message:
        while not self._waiting:
            self._waiting += self._decoder.feed(self.sock.recv(65536))
        return self._waiting.pop(0)

    def answer(self, request: protocol.Message, body: Body) -> None:
        self.sock.sendall(protocol.encode(protocol.RESPONSE, request.procedure, request.id, body))


class Link:
    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        self.guest = Guest(theirs)
        self.notifications: list[Body] = []
        self.notified = threading.Event()
        self.closed = threading.Event()
        self.end: BridgeError | None = None
        self.bridge = Bridge(SocketStream(ours), self._notify, self._close)
        self.bridge.start()

    def _notify(self, body: Body) -> None:
        self.notifications.append(body)
        self.notified.set()

    def _close(self, end: BridgeError) -> None:
        assert self.end is None, "closed twice"
        self.end = end
        self.closed.set()


@pytest.fixture
def link() -> Iterator[Link]:
    link = Link()
    yield link
    link.bridge.close()
    link.guest.sock.close()
    link.bridge._reader.join(60)
    assert not link.bridge._reader.is_alive()


def in_thread(function: Callable[[], Any]) -> tuple[threading.Thread, list[Any]]:
    outcome: list[Any] = []

    def run() -> None:
        try:
            outcome.append(function())
        except Exception as error:
            outcome.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, outcome


def test_responses_in_any_order_match_calls(link: Link) -> None:
    calls = [in_thread(lambda n=n: link.bridge.call(protocol.START, {"n": n})) for n in range(20)]
    requests = [link.guest.request() for _ in calls]
    for request in reversed(requests):
        link.guest.answer(request, {"echo": request.body["n"]})
    for n, (thread, outcome) in enumerate(calls):
        thread.join(60)
        assert outcome == [{"echo": n}]
    assert sorted(request.id for request in requests) == list(range(20))


def test_failed_response_raises_code_and_text(link: Link) -> None:
    thread, outcome = in_thread(lambda: link.bridge.call(protocol.CREATE, {}))
    link.guest.answer(link.guest.request(), {"Result": -1070137073, "ErrorMessage": "exists"})
    thread.join(60)
    (error,) = outcome
    assert isinstance(error, GuestError)
    assert (error.code, error.procedure) == (0xC037010F, "Create")
    assert "exists" in str(error)


def test_notification_calls_handler(link: Link) -> None:
    body = {"ContainerId": "c1", "Type": "GracefulExit"}
    link.guest.sock.sendall(protocol.encode(protocol.NOTIFICATION, protocol.CONTAINER_NOTIFICATION, 0, body))
    assert link.notified.wait(60)
    assert link.notifications == [body]


def test_connection_loss_fails_all_calls(link: Link) -> None:
    ended: list[tuple[Body | None, BridgeError | None]] = []
    link.bridge.submit(protocol.WAIT_FOR_PROCESS, {}, lambda body, error: ended.append((body, error)))
    thread, outcome = in_thread(lambda: link.bridge.call(protocol.START, {}))
    link.guest.request()
    link.guest.request()
    link.guest.sock.close()
    thread.join(60)
    assert isinstance(outcome[0], BridgeError)
    assert link.closed.wait(60)
    assert len(ended) == 1
    assert ended[0][0] is None and isinstance(ended[0][1], BridgeError)
    with pytest.raises(BridgeError):
        link.bridge.call(protocol.START, {})


def test_call_timeout_closes_bridge(link: Link) -> None:
    with pytest.raises(BridgeError, match="did not answer Start"):
        link.bridge.call(protocol.START, {}, timeout=0.05)
    assert link.closed.wait(60)


def test_malformed_frame_closes_bridge(link: Link) -> None:
    link.guest.sock.sendall(b"\xff" * 64)
    assert link.closed.wait(60)
    assert "violated the bridge protocol" in str(link.end)


ILL_TYPED = {
    "Result": ["x", [1], {}, True, 1.0, 1e300, 1 << 32, -(1 << 31) - 1, "Infinity"],
    "ErrorMessage": [5, ["x"], {}],
    "ErrorRecords": [5, "x", {}, [1], [None], [{"Message": 5}]],
    "ExitCode": ["x", [1], {}, False, 1.5, 1 << 40],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in ILL_TYPED.items() for value in values])
def test_ill_typed_member_of_response_closes_bridge(link: Link, name: str, value: Any) -> None:
    """The reader must not end while the bridge counts as open, and every call must get its error."""
    ended: list[BridgeError | None] = []
    link.bridge.submit(protocol.WAIT_FOR_PROCESS, {}, lambda _, error: ended.append(error))
    link.bridge.submit(protocol.WAIT_FOR_PROCESS, {}, lambda _, error: ended.append(error))
    link.guest.answer(link.guest.request(), {"Result": 0, name: value})
    assert link.closed.wait(60)
    assert "violated the bridge protocol" in str(link.end)
    assert ended == [link.end, link.end]
    with pytest.raises(BridgeError):
        link.bridge.call(protocol.START, {})


@pytest.mark.parametrize("text", ["Infinity", "NaN", "1e999", "9" * 5000])
def test_number_that_is_not_json_closes_bridge(link: Link, text: str) -> None:
    link.bridge.submit(protocol.WAIT_FOR_PROCESS, {}, lambda _, error: None)
    request = link.guest.request()
    body = f'{{"ExitCode":{text}}}'.encode()
    link.guest.sock.sendall(protocol.frame(protocol.RESPONSE, request.procedure, request.id, body))
    assert link.closed.wait(60)
    assert "violated the bridge protocol" in str(link.end)


def test_ill_typed_notification_closes_bridge(link: Link) -> None:
    body = {"ContainerId": ["c1"]}
    link.guest.sock.sendall(protocol.encode(protocol.NOTIFICATION, protocol.CONTAINER_NOTIFICATION, 0, body))
    assert link.closed.wait(60)
    assert "ContainerId" in str(link.end) and link.notifications == []


def test_callback_that_raises_closes_bridge_and_fails_other_calls(link: Link) -> None:
    """The safety net of the reader: whatever a callback raises, nothing waits for a bridge without a reader."""
    ended: list[BridgeError | None] = []

    def fail(body: Body | None, error: BridgeError | None) -> None:
        raise KeyError("unexpected")

    link.bridge.submit(protocol.WAIT_FOR_PROCESS, {}, fail)
    link.bridge.submit(protocol.WAIT_FOR_PROCESS, {}, lambda _, error: ended.append(error))
    link.guest.answer(link.guest.request(), {"ExitCode": 0})
    assert link.closed.wait(60)
    assert "could not be processed: KeyError" in str(link.end)
    assert ended == [link.end]


def test_close_with_callback_that_raises_fails_other_calls(link: Link) -> None:
    ended: list[BridgeError | None] = []

    def fail(body: Body | None, error: BridgeError | None) -> None:
        raise KeyError("unexpected")

    link.bridge.submit(protocol.WAIT_FOR_PROCESS, {}, fail)
    link.bridge.submit(protocol.WAIT_FOR_PROCESS, {}, lambda _, error: ended.append(error))
    with pytest.raises(KeyError):
        link.bridge.close()
    assert ended == [link.end] and link.closed.is_set()


def test_request_that_cannot_be_encoded_leaves_no_call(link: Link) -> None:
    with pytest.raises(UnicodeEncodeError):
        link.bridge.call(protocol.START, {"Text": "\ud800"})
    assert link.bridge._calls == {}


def test_request_from_guest_closes_bridge(link: Link) -> None:
    link.guest.sock.sendall(protocol.encode(protocol.REQUEST, protocol.START, 0, {}))
    assert link.closed.wait(60)
    assert "only the host sends requests" in str(link.end)


def test_late_response_is_ignored(link: Link) -> None:
    link.guest.sock.sendall(protocol.encode(protocol.RESPONSE, protocol.START, 99, {}))
    thread, outcome = in_thread(lambda: link.bridge.call(protocol.START, {}))
    link.guest.answer(link.guest.request(), {"ok": True})
    thread.join(60)
    assert outcome == [{"ok": True}]


def test_send_timeout_closes_bridge(link: Link) -> None:
    """A guest that has stopped does not respond, and what it is sent fills the socket's buffer."""
    ours, theirs = socket.socketpair()
    with theirs:
        stream = Stream(ours)
        stream.set_send_timeout(0.2)
        ended: list[BridgeError] = []
        closed = threading.Event()

        def close(end: BridgeError) -> None:
            ended.append(end)
            closed.set()

        bridge = Bridge(stream, lambda _: None, close)
        bridge.start()
        assert not closed.wait(0.5), "nothing to read is no reason"
        answers: list[BridgeError | None] = []
        with pytest.raises(BridgeError, match="does not read"):
            while True:
                bridge.submit(protocol.WAIT_FOR_PROCESS, {"Text": "x" * 4096}, lambda _, error: answers.append(error))
        assert closed.wait(60) and "does not read" in str(ended[0])
        assert answers and all(error is ended[0] for error in answers)

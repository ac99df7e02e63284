"""The threaded server and the client over real sockets: answers, order, threads, deadlines, and the end."""

from __future__ import annotations

import _thread
import gc
import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from shim.ttrpc import server, status
from shim.ttrpc.client import Client
from shim.ttrpc.core import DATA, MAX_DATA, REMOTE_OPEN, REQUEST, RESPONSE, Decoder, encode_frame
from shim.ttrpc.envelope import decode_response
from shim.ttrpc.server import Call, Method, Server, ServerStream
from shim.ttrpc.status import ClosedError, StatusError
from tests.support.eventually import eventually
from tests.unit.ttrpc.fixtures import SERVICE, RpcLab, code_of, read_frames, request


def test_unary_calls(rpc: RpcLab) -> None:
    with rpc.connect() as client:
        for method in ("Echo", "EchoLater"):
            assert client.call(SERVICE, method, b"hello") == b"hello"
            assert client.call(SERVICE, method) == b""
            assert client.call(SERVICE, method, bytes(MAX_DATA - 100)) == bytes(MAX_DATA - 100)
        answer = client.call(SERVICE, "Meta", metadata=[("k", "v"), ("k", "w"), ("", "")])
        assert answer == repr((SERVICE, "Meta", [("k", "v"), ("k", "w"), ("", "")])).encode()


def test_handler_errors_become_statuses(rpc: RpcLab) -> None:
    with rpc.connect() as client:
        for method in ("Fail", "FailLater"):
            assert code_of(client, method) == (status.NOT_FOUND, "task c1: not found")
        for method in ("Crash", "CrashLater"):
            assert code_of(client, method) == (status.UNKNOWN, "first line second line")
        assert [str(error) for error in rpc.reports] == ["first line\nsecond line"] * 2
        assert code_of(client, "Nothing")[0] == status.UNKNOWN
        assert code_of(client, "Missing") == (status.UNIMPLEMENTED, "method Missing")
        with pytest.raises(StatusError, match="Unimplemented: service nobody"):
            client.call("nobody", "Echo")
        assert client.call(SERVICE, "Echo", b"alive") == b"alive"


def test_message_size_limits(rpc: RpcLab) -> None:
    with rpc.connect() as client:
        assert len(client.call(SERVICE, "Blob", str(MAX_DATA - 5).encode())) == MAX_DATA - 5
        assert code_of(client, "Blob", str(MAX_DATA).encode())[0] == status.RESOURCE_EXHAUSTED
        assert code_of(client, "Echo", bytes(MAX_DATA))[0] == status.RESOURCE_EXHAUSTED
    raw = rpc.raw()
    writer = threading.Thread(target=raw.sendall, args=(
        encode_frame(1, REQUEST, 0, bytes(MAX_DATA + 1)) + encode_frame(3, REQUEST, 0, request("Echo", b"x")),
    ))  # fmt: skip
    writer.start()
    first, second = read_frames(raw, 2)
    writer.join()
    assert (first[0], decode_response(first[3])[0]) == (1, status.RESOURCE_EXHAUSTED)
    assert (second[0], decode_response(second[3])) == (3, (0, "", b"x"))
    raw.close()


def test_responses_to_one_read_are_sent_in_one_write(rpc: RpcLab) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)  # keeps writes apart
    rpc.server.attach(theirs)
    ours.settimeout(60)
    ours.send(b"".join(encode_frame(stream, REQUEST, 0, request("Echo", b"x")) for stream in range(1, 201, 2)))
    assert len(Decoder().feed(ours.recv(1 << 20))) == 100
    ours.close()


def test_slow_handler_does_not_block_reading(rpc: RpcLab) -> None:
    with rpc.connect() as client:
        answers: list[bytes] = []
        slow = threading.Thread(target=lambda: answers.append(client.call(SERVICE, "Block")))
        slow.start()
        for number in range(50):
            assert client.call(SERVICE, "EchoLater", b"%d" % number) == b"%d" % number
        assert answers == []
        rpc.release.set()
        slow.join(60)
        assert answers == [b"released"]


def test_deferred_calls_need_no_threads(rpc: RpcLab) -> None:
    many = 5_000
    raw = rpc.raw()
    raw.sendall(b"".join(encode_frame(2 * n + 1, REQUEST, 0, request("Wait")) for n in range(many)))
    eventually(lambda: len(rpc.waiting) == many)
    assert _thread._count() < 20
    for call in reversed(rpc.waiting):
        assert call.reply(b"%d" % call.stream_id)
        assert not call.reply(b"again")
    answers = read_frames(raw, many)
    assert [frame[0] for frame in answers] == list(range(2 * many - 1, 0, -2)), "answers leave in completion order"
    assert all(decode_response(frame[3]) == (0, "", b"%d" % frame[0]) for frame in answers)
    assert rpc.cancelled == []
    raw.close()


def test_blocked_handlers_do_not_starve_other_calls(rpc: RpcLab) -> None:
    raw = rpc.raw()
    raw.sendall(b"".join(encode_frame(2 * n + 1, REQUEST, 0, request("Block")) for n in range(100)))
    with rpc.connect() as client:
        assert client.call(SERVICE, "EchoLater", b"kill", timeout=60) == b"kill"
    rpc.release.set()
    assert len(read_frames(raw, 100)) == 100
    raw.close()


def test_deferred_calls_end_with_their_connection(rpc: RpcLab) -> None:
    raw, other = rpc.raw(), rpc.raw()
    raw.sendall(encode_frame(1, REQUEST, 0, request("Wait")))
    other.sendall(encode_frame(1, REQUEST, 0, request("Wait")))
    eventually(lambda: len(rpc.waiting) == 2)
    raw.close()
    eventually(lambda: len(rpc.cancelled) == 1)
    gone = rpc.cancelled[0]
    assert gone.done
    assert not gone.reply(b"nobody")
    (left,) = (call for call in rpc.waiting if call is not gone)
    assert left.reply(b"still here")
    assert read_frames(other, 1)[0][3]
    other.close()


def test_deadline_fails_the_call(rpc: RpcLab) -> None:
    raw = rpc.raw()
    raw.sendall(encode_frame(1, REQUEST, 0, request("Echo", timeout=-5)))
    raw.sendall(encode_frame(3, REQUEST, 0, request("EchoLater", timeout=-(2**63))))
    raw.sendall(encode_frame(5, REQUEST, 0, request("Wait", timeout=1)))
    raw.sendall(encode_frame(7, REQUEST, 0, request("Block", timeout=50_000_000)))
    raw.sendall(encode_frame(9, REQUEST, 0, request("Wait", timeout=2**63 - 1)))
    answers = {frame[0]: decode_response(frame[3])[0] for frame in read_frames(raw, 4)}
    assert answers == dict.fromkeys((1, 3, 5, 7), status.DEADLINE_EXCEEDED)
    eventually(lambda: [call.stream_id for call in rpc.cancelled] == [5])
    # The worker's late answer is dropped, and its id may be used again although the old handler still runs.
    raw.sendall(encode_frame(7, REQUEST, 0, request("Echo", b"new")))
    assert decode_response(read_frames(raw, 1)[0][3]) == (0, "", b"new")
    rpc.release.set()
    raw.sendall(encode_frame(11, REQUEST, 0, request("EchoLater", b"last")))
    assert read_frames(raw, 1)[0][0] == 11
    raw.close()


def test_entries_of_ended_calls_do_not_accumulate(rpc: RpcLab) -> None:
    with rpc.connect() as client:
        for _ in range(1_000):
            client.call(SERVICE, "EchoLater", b"", timeout=3600)
    assert len(rpc.server.deadlines) < 300


def test_deadline_thread_ends_without_pending_calls(rpc: RpcLab) -> None:
    with rpc.connect() as client:
        client.call(SERVICE, "EchoLater", b"", timeout=3600)
        before = _thread._count()
        eventually(lambda: not rpc.server.deadlines._running)
        eventually(lambda: _thread._count() < before)
        assert len(rpc.server.deadlines) == 0
        assert code_of(client, "Wait", timeout=0.01)[0] == status.DEADLINE_EXCEEDED  # it comes back
        raw = rpc.raw()
        raw.sendall(encode_frame(1, REQUEST, 0, request("Wait", timeout=300_000_000)))
        assert decode_response(read_frames(raw, 1)[0][3])[0] == status.DEADLINE_EXCEEDED  # however often it looked
        raw.close()


def test_late_response_after_client_timeout_is_dropped(rpc: RpcLab) -> None:
    with rpc.connect() as client:
        assert code_of(client, "Wait", timeout=0.01)[0] == status.DEADLINE_EXCEEDED
        assert code_of(client, "Echo", timeout=0)[0] == status.DEADLINE_EXCEEDED
        assert client.call(SERVICE, "Echo", b"x") == b"x"


def test_close_fails_all_pending_calls(rpc: RpcLab) -> None:
    closed = threading.Event()
    ours, theirs = socket.socketpair()
    connection = rpc.server.attach(theirs)
    assert connection is not None
    client = Client(ours, closed.set)
    failures: list[BaseException] = []

    def call() -> None:
        try:
            client.call(SERVICE, "Wait")
        except ClosedError as error:
            failures.append(error)

    threads = [threading.Thread(target=call) for _ in range(5)]
    for thread in threads:
        thread.start()
    stream = client.stream(SERVICE, "Bidi", sends=True)
    eventually(lambda: len(rpc.waiting) == 5)
    connection.close()
    for thread in threads:
        thread.join(60)
    assert len(failures) == 5
    with pytest.raises(ClosedError):
        stream.recv(10)
    assert closed.wait(60)
    assert client.closed
    with pytest.raises(ClosedError):
        client.call(SERVICE, "Echo")


def test_concurrent_connections_and_callers(rpc: RpcLab, tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(16)
    serving = threading.Thread(target=rpc.server.serve, args=(listener,))
    serving.start()
    clients = []
    for _ in range(5):
        connected = socket.socket(socket.AF_UNIX)
        connected.connect(path)
        clients.append(Client(connected))
    probe = socket.socket(socket.AF_UNIX)
    probe.connect(path)
    probe.close()  # says nothing: normal
    wrong: list[bytes] = []

    def work(client: Client, name: str) -> None:
        for number in range(200):
            payload = f"{name} {number}".encode()
            method = "Echo" if number % 3 else "EchoLater"
            answer = client.call(SERVICE, method, payload, timeout=60)
            if answer != payload:
                wrong.append(answer)

    threads = [threading.Thread(target=work, args=(client, f"{at}")) for at, client in enumerate(clients * 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert rpc.server.shutdown(5)
    serving.join(60)
    assert not serving.is_alive()
    for client in clients:
        with pytest.raises(ClosedError):
            client.call(SERVICE, "Echo", timeout=60)


def test_failed_connection_does_not_stop_accepting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reported: list[BaseException] = []
    failing = Server({SERVICE: {"Echo": Method.inline(lambda call: call.payload)}}, reported.append)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "s"))
    listener.listen(16)
    failures = [MemoryError("the first"), ImportError("the second")]
    attach = failing.attach

    def fail_first(stream: Any) -> Any:
        if failures:
            raise failures.pop(0)
        return attach(stream)

    monkeypatch.setattr(failing, "attach", fail_first)
    threading.Thread(target=failing.serve, args=(listener,), daemon=True).start()
    answers = []
    for _ in range(3):
        connected = socket.socket(socket.AF_UNIX)
        connected.connect(str(tmp_path / "s"))
        with Client(connected) as client:
            try:
                answers.append(client.call(SERVICE, "Echo", b"here", timeout=60))
            except ClosedError:
                answers.append(b"closed")
    assert answers == [b"closed", b"closed", b"here"]
    assert [str(error) for error in reported] == ["the first", "the second"]
    assert failing.shutdown(5)


def test_shutdown_lets_clients_close_first(rpc: RpcLab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "CLIENT_CLOSE_TIMEOUT", 60.0)
    raw = rpc.raw()
    eventually(lambda: bool(rpc.server.connections()))
    stopping = threading.Thread(target=rpc.server.shutdown, args=(60,))
    stopping.start()
    eventually(lambda: rpc.server.stopping)
    raw.setblocking(False)
    with pytest.raises(BlockingIOError):  # no end of the connection yet
        raw.recv(1)
    raw.close()
    stopping.join(60)
    assert not stopping.is_alive()


def test_shutdown_lets_running_handlers_finish(rpc: RpcLab) -> None:
    raw = rpc.raw()
    raw.sendall(encode_frame(1, REQUEST, 0, request("Block")) + encode_frame(3, REQUEST, 0, request("Wait")))
    eventually(lambda: len(rpc.waiting) == 1)
    results: list[bool] = []
    stopping = threading.Thread(target=lambda: results.append(rpc.server.shutdown(20)))
    stopping.start()
    eventually(lambda: rpc.server.stopping)
    raw.sendall(encode_frame(5, REQUEST, 0, request("EchoLater")))
    assert decode_response(read_frames(raw, 1)[0][3])[0] == status.UNAVAILABLE
    rpc.release.set()
    assert decode_response(read_frames(raw, 1)[0][3]) == (0, "", b"released")
    stopping.join(60)
    assert results == [True]
    assert raw.recv(1) == b""
    raw.close()


def test_shutdown_is_bounded(rpc: RpcLab) -> None:
    raw = rpc.raw()
    raw.sendall(encode_frame(1, REQUEST, 0, request("Block")))
    eventually(lambda: any(connection.running for connection in rpc.server.connections()))
    assert not rpc.server.shutdown(0.05)
    assert raw.recv(1) == b""
    raw.close()


def test_ended_call_leaves_no_objects(rpc: RpcLab) -> None:
    with rpc.connect() as client:
        client.call(SERVICE, "EchoLater")
        stream = client.stream(SERVICE, "Bidi", sends=True)
        stream.close_send()
        assert stream.recv(10) is None
        eventually(lambda: not any(connection.running for connection in rpc.server.connections()))
        (connection,) = rpc.server.connections()
        assert connection.calls == {}
        assert connection.streams.active == set()
        assert client._waiting == {}
        del connection, stream
    eventually(lambda: not rpc.server.connections())

    def left() -> bool:
        gc.collect()
        return not any(isinstance(thing, ServerStream) for thing in gc.get_objects())

    eventually(left)


def test_answered_call_is_freed_without_gc(rpc: RpcLab) -> None:
    """Every exec is waited for: what only the collector could free would grow with each of them for a long time."""
    raw = rpc.raw()
    gc.collect()
    gc.disable()
    try:
        for stream in (1, 3):
            raw.sendall(encode_frame(stream, REQUEST, 0, request("Wait")))
            eventually(lambda: bool(rpc.waiting))
            call = rpc.waiting.pop()  # whose `cancelled` refers to the call
            assert call.reply(b"over") if stream == 1 else call.fail(ValueError("over"))
            del call
            assert read_frames(raw, 1)
        eventually(lambda: not any(type(thing) is Call for thing in gc.get_objects()))
    finally:
        gc.enable()
    assert rpc.cancelled == []
    raw.close()


def test_responses_on_the_wire_have_no_flags(rpc: RpcLab) -> None:
    raw = rpc.raw()
    raw.sendall(encode_frame(1, REQUEST, 0, request("Echo", b"x")))
    raw.sendall(encode_frame(3, REQUEST, REMOTE_OPEN, request("Bidi")) + encode_frame(3, DATA, 5, b""))
    frames = read_frames(raw, 2)
    assert frames[0][:3] == (1, RESPONSE, 0)
    assert frames[1] == (3, DATA, 5, b"")
    raw.close()

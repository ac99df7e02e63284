"""Peers as they should not be: slow, deaf, hostile, or on a transport that can do very little."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shim.ttrpc import outbox
from shim.ttrpc.client import Client
from shim.ttrpc.core import MAX_DATA, REQUEST, encode_frame
from shim.ttrpc.sockets import SocketStream
from tests.support.eventually import eventually
from tests.unit.ttrpc.fixtures import SERVICE, RpcLab, read_frames, request


def test_peer_that_does_not_read_affects_only_itself(rpc: RpcLab) -> None:
    deaf = rpc.raw()
    deaf.sendall(encode_frame(1, REQUEST, 0, request("Flood")))
    ask = b"".join(encode_frame(n, REQUEST, 0, request("Blob", b"100000")) for n in range(3, 43, 2))
    deaf.settimeout(0.3)
    try:
        while True:
            deaf.sendall(ask)
    except TimeoutError:
        pass  # the server reads no more of it
    (connection,) = rpc.server.connections()
    assert connection.outbox.size < 2 * outbox.HIGH_WATER
    with rpc.connect() as client:
        for _ in range(100):
            assert client.call(SERVICE, "Echo", b"x", timeout=60) == b"x"
        assert client.call(SERVICE, "EchoLater", b"x", timeout=60) == b"x"
    deaf.close()
    eventually(lambda: not rpc.server.connections())


def test_peer_that_resumes_reading_gets_all_responses(rpc: RpcLab) -> None:
    raw = rpc.raw()
    raw.sendall(b"".join(encode_frame(n, REQUEST, 0, request("Blob", b"500000")) for n in range(1, 21, 2)))
    (connection,) = rpc.server.connections()
    eventually(lambda: connection.outbox.size > 0)
    frames = read_frames(raw, 10)
    assert [len(frame[3]) for frame in frames] == [500_000 + 4] * 10
    raw.close()


def test_responses_beyond_limit_close_the_connection(rpc: RpcLab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "LIMIT", 3 << 20)
    raw = rpc.raw()
    raw.sendall(b"".join(encode_frame(n, REQUEST, 0, request("Wait")) for n in range(1, 21, 2)))
    eventually(lambda: len(rpc.waiting) == 10)
    assert [call.reply(bytes(1 << 20)) for call in rpc.waiting].count(True) < 6
    eventually(lambda: not rpc.server.connections())
    raw.close()


class Pipe:
    """A transport with nothing but the contract, as a Windows pipe will be."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected

    def recv(self, size: int) -> bytes:
        return self._socket.recv(size)

    def sendall(self, data: bytes) -> None:
        self._socket.sendall(data)

    def close(self) -> None:
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


def test_blocking_transport_works(rpc: RpcLab) -> None:
    ours, theirs = socket.socketpair()
    rpc.server.attach(Pipe(theirs))
    with Client(Pipe(ours)) as client:
        for method in ("Echo", "EchoLater"):
            for size in (1, 100, 1_000_000):
                assert client.call(SERVICE, method, bytes(size), timeout=60) == bytes(size)
    eventually(lambda: not rpc.server.connections())
    ours.close()
    theirs.close()


METHODS = ["Echo", "EchoLater", "Wait", "Crash", "CrashLater", "Bidi", "Sum", "Count", "Missing"]


hostile = st.lists(
    st.one_of(
        st.binary(max_size=100),
        st.builds(
            encode_frame,
            st.integers(0, 9),
            st.integers(0, 4),
            st.integers(0, 7),
            st.one_of(
                st.binary(max_size=40),
                st.sampled_from(METHODS).map(request),
                st.just(b"\x0a\x01\xff\x12\x01\xff"),
            ),
        ),
        st.just((MAX_DATA + 1000).to_bytes(4, "big") + bytes(6 + 1000)),
    ),
    max_size=12,
)


@pytest.fixture(scope="module")
def shared() -> Iterator[tuple[RpcLab, Client]]:
    rpc = RpcLab()
    client = rpc.connect()
    yield rpc, client
    client.close()
    rpc.server.shutdown(5)


@given(hostile, st.booleans())
@settings(max_examples=150, deadline=None)
def test_hostile_input_neither_crashes_nor_leaks(shared: tuple[RpcLab, Client], parts: list[bytes], rude: bool) -> None:
    rpc, client = shared
    raw = rpc.raw()
    for part in parts:
        raw.sendall(part)
    if not rude:
        raw.shutdown(socket.SHUT_WR)
        while raw.recv(1 << 16):
            pass  # until the server has closed its side too
    raw.close()
    eventually(lambda: len(rpc.server.connections()) == 1)
    assert client.call(SERVICE, "Echo", b"alive", timeout=60) == b"alive"
    eventually(lambda: all(call.done for call in rpc.waiting))
    rpc.waiting.clear()
    rpc.cancelled.clear()
    rpc.reports.clear()


def test_socket_stream_returns_bytes_that_later_reads_do_not_change() -> None:
    near, far = socket.socketpair()
    stream = SocketStream(near)
    received = []
    for data, size in ((b"a" * 3000, 8192), (b"bc", 8192), (b"d" * 10, 4), (b"e" * 9000, 9000)):
        far.sendall(data)
        received.append(b"")
        while len(received[-1]) < len(data):
            received[-1] += stream.recv(size)
            assert len(received[-1]) <= len(data)
    far.close()
    assert received == [b"a" * 3000, b"bc", b"d" * 10, b"e" * 9000]
    assert stream.recv(8192) == b""
    stream.release()

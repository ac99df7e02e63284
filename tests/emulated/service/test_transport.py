"""The service's socket: a misbehaving client affects only itself."""

from __future__ import annotations

import asyncio
import os
import socket
import stat
import struct
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hcs_emulator.service.transport import server
from hcs_emulator.service.transport.server import Client, Reply, Request
from hcs_emulator.service.transport.wire import CALLS_BY_NAME, MAX_FRAME, RequestReader, WireError, encode_request
from tests.support.eventually import eventually
from tests.support.scripted_service import Scripted, scripted_service

PING = Request("HcsGetServiceProperties", strings=["{}"])


def connect(service: Scripted) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.settimeout(60)
    sock.connect(service.server.path)
    return sock


def exactly(sock: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = sock.recv(size - len(data))
        assert piece, "the service ended the connection"
        data += piece
    return data


def receive(sock: socket.socket) -> tuple[int, int, int]:
    """Kind, id and result of the next frame."""
    (size,) = struct.unpack("<I", exactly(sock, 4))
    body = exactly(sock, size)
    kind, identity, result = struct.unpack_from("<B3xQI", body)
    return kind, identity, result


GARBAGE = [
    b"GET / HTTP/1.1\r\n\r\n" * 4,
    struct.pack("<IB3xQ", MAX_FRAME + 1, 1, 1),
    struct.pack("<IB3xQ", 12, 1, 1),
    struct.pack("<IB3xQ", 100, 2, 1) + bytes(88),
    encode_request(1, PING)[:16] + struct.pack("<H", 65535) + encode_request(1, PING)[18:],
    encode_request(1, PING)[:40] + struct.pack("<I", 0xFFFFFF00) + encode_request(1, PING)[44:],
    encode_request(1, PING)[:36] + struct.pack("<I", 0x7FFFFFFF) + encode_request(1, PING)[40:],
    encode_request(1, PING)[:36] + struct.pack("<I", 0) + encode_request(1, PING)[40:],
]


@pytest.mark.parametrize("data", GARBAGE)
def test_invalid_frame_disconnects_only_its_client(service: Scripted, data: bytes) -> None:
    with connect(service) as good, connect(service) as bad:
        bad.sendall(data)
        assert bad.recv(1) == b""
        good.sendall(encode_request(7, PING))
        assert receive(good) == (2, 7, 0)
    assert len(service.requests) == 1


@given(st.binary(max_size=200), st.lists(st.integers(1, 50), max_size=5))
def test_reader_accepts_frames_in_any_pieces(data: bytes, cuts: list[int]) -> None:
    reader = RequestReader()
    try:
        for piece in cuts:
            list(reader.feed(data[:piece]))
            data = data[piece:]
        list(reader.feed(data))
    except WireError:
        pass


@given(
    st.sampled_from(sorted(CALLS_BY_NAME)),
    st.integers(0, 2**64 - 1),
    st.integers(0, 2**64 - 1),
    st.lists(st.none() | st.text(st.characters(exclude_categories=["Cs"])), max_size=5),
    st.integers(1, 30),
)
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_requests_round_trip(call: str, handle: int, number: int, strings: list[str | None], step: int) -> None:
    request = Request(call, handle, number, strings)
    data = encode_request(handle, request) * 2
    reader = RequestReader()
    read = [item for at in range(0, len(data), step) for item in reader.feed(data[at : at + step])]
    assert read == [(handle, request)] * 2


def test_malformed_strings_are_decoded(service: Scripted) -> None:
    """Half a surrogate pair and an odd number of bytes are accepted."""
    head = encode_request(1, Request("HcsOpenComputeSystem", strings=[]))
    for text in (b"\x00\xd8", b"a\x00b"):
        body = head[4:36] + struct.pack("<II", 1, len(text)) + text
        with connect(service) as sock:
            sock.sendall(struct.pack("<I", len(body)) + body)
            assert receive(sock)[2] == 0


def test_responses_are_sent_in_completion_order(service: Scripted) -> None:
    first = asyncio.Event()

    async def wait(client: Client, request: Request) -> Reply:
        if request.strings == ["slow"]:
            await first.wait()
        else:
            first.set()
        return Reply()

    service.handlers["HcsGetServiceProperties"] = wait
    with connect(service) as sock:
        sock.sendall(encode_request(1, Request("HcsGetServiceProperties", strings=["slow"])) + encode_request(2, PING))
        assert [receive(sock)[1], receive(sock)[1]] == [2, 1]


def test_exception_in_the_dispatcher_is_an_error_response(
    service: Scripted, capsys: pytest.CaptureFixture[str]
) -> None:
    service.handlers["HcsGetServiceProperties"] = lambda client, request: 1 / 0
    with connect(service) as sock:
        sock.sendall(encode_request(1, PING))
        assert receive(sock) == (2, 1, 0x8000FFFF)
        del service.handlers["HcsGetServiceProperties"]
        sock.sendall(encode_request(2, PING))
        assert receive(sock) == (2, 2, 0)
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_calls_over_the_limit_are_refused(service: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MAX_CALLS_PER_CLIENT", 3)
    forever = asyncio.Event()

    async def wait(client: Client, request: Request) -> Reply:
        await forever.wait()
        return Reply()

    service.handlers["HcsGetServiceProperties"] = wait
    with connect(service) as sock:
        for identity in range(4):
            sock.sendall(encode_request(identity, PING))
        assert receive(sock) == (2, 3, 0x800705AA)
        service.do(forever.set)
        assert sorted(receive(sock)[1] for _ in range(3)) == [0, 1, 2]


def test_client_that_does_not_read_is_throttled_then_disconnected(
    service: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "DROP_AT", 8 << 20)
    service.handlers["HcsGetServiceProperties"] = lambda *_: Reply(document="x" * 300_000)
    with connect(service) as sock:
        for identity in range(4):
            sock.sendall(encode_request(identity, PING))
        eventually(lambda: len(service.requests) == 4)
        (client,) = service.clients
        eventually(lambda: not client._reading)
        sock.sendall(encode_request(9, PING))
        assert [receive(sock)[1] for _ in range(5)] == [0, 1, 2, 3, 9], "it was only slowed"
        service.do(lambda: [client.send_event(1, 1, "x" * 1_000_000) for _ in range(6)])
        eventually(lambda: service.disconnected_clients == [client])
    with connect(service) as other:
        other.sendall(encode_request(1, PING))
        assert receive(other)[1] == 1


def test_waits_are_cancelled_with_their_client(service: Scripted) -> None:
    cancelled = []

    async def wait(client: Client, request: Request) -> Reply:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(request.call)
            raise
        raise AssertionError

    service.handlers["HcsWaitForProcessExit"] = wait
    with connect(service) as sock:
        sock.sendall(encode_request(1, Request("HcsWaitForProcessExit", handle=1, number=0xFFFFFFFF)))
        eventually(lambda: service.requests)
    eventually(lambda: cancelled)


def test_descriptors_for_a_disconnected_client_are_closed(service: Scripted) -> None:
    reader, writer = os.pipe()
    going_on = asyncio.Event()

    async def slow(client: Client, request: Request) -> Reply:
        await going_on.wait()
        return Reply(streams=(None, writer, None))

    service.handlers["HcsGetProcessInfo"] = slow
    with connect(service) as sock:
        sock.sendall(encode_request(1, Request("HcsGetProcessInfo", handle=1)))
        eventually(lambda: service.requests)
    eventually(lambda: service.disconnected_clients)
    service.do(going_on.set)
    assert os.read(reader, 1) == b""
    os.close(reader)


def test_socket_is_accessible_to_its_owner_only(service: Scripted, tmp_path: Path) -> None:
    assert stat.S_IMODE(os.stat(service.server.path).st_mode) == 0o600
    assert os.listdir(tmp_path) and not (tmp_path / "hcs.sock.new").exists()


def test_second_service_of_a_directory_is_refused(service: Scripted, tmp_path: Path) -> None:
    with pytest.raises(FileExistsError, match="another emulator service"), scripted_service(tmp_path):
        pass
    with connect(service) as sock:
        sock.sendall(encode_request(1, PING))
        assert receive(sock)[1] == 1


def test_stale_socket_of_a_killed_service_is_replaced(tmp_path: Path) -> None:
    stale = socket.socket(socket.AF_UNIX)
    stale.bind(str(tmp_path / "hcs.sock"))
    stale.close()
    with scripted_service(tmp_path) as service, connect(service) as sock:
        sock.sendall(encode_request(1, PING))
        assert receive(sock)[1] == 1
    assert not (tmp_path / "hcs.sock").exists()
